package images

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	recipes "muster/images"
)

// withModules is a root with a kernel and these modules.
func withModules(t *testing.T, modules ...string) string {
	t.Helper()
	root := t.TempDir()
	dep := ""
	for _, m := range modules {
		dep += m + ":\n"
	}
	for name, text := range map[string]string{"boot/vmlinuz-6.1.0": "kernel", "lib/modules/6.1.0/modules.dep": dep} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestADriverIsThereIfAllItsModulesAre(t *testing.T) {
	root := withModules(t, "kernel/drivers/net/mlx5_core.ko.xz", "kernel/drivers/infiniband/mlx5_ib.ko.xz",
		"updates/dkms/nvidia.ko")
	there, err := carried(root)
	if err != nil || !slices.Equal(there, []string{"mlx5"}) {
		t.Errorf("carried: %v %v", there, err)
	}
	if err := findDrivers(root, []string{"mlx5"}); err != nil {
		t.Error(err)
	}
	err = findDrivers(root, []string{"mlx5", "nvidia"})
	if want := "the image lacks drivers that its recipe promises: nvidia (modules nvidia, nvidia_uvm)"; err == nil ||
		err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if there, err := carried(t.TempDir()); err != nil || there == nil || len(there) != 0 {
		t.Errorf("a root without a kernel carries %v %v", there, err)
	}
}

func TestRecipesNameDriversThatAreKnown(t *testing.T) {
	for text, want := range map[string]string{
		"kernel: linux-image-$arch\ndrivers: [mlx5]": "",
		"kernel: linux-image-$arch\ndrivers: [cuda]": `there is no driver "cuda"; there are amdgpu, hfi1, i915, mlx4, mlx5, nvidia`,
		"drivers: [mlx5]": "they are modules of a kernel, and the image has none",
		"kernel: linux-image-$arch\ndrivers: nvidia5": "drivers",
	} {
		_, err := LoadRecipe(nil, fstest.MapFS{"tiny/recipe.yaml": {Data: []byte(tinyRecipe + text + "\n")}}, "tiny")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestAnImageIsProvedToHaveItsDrivers boots containers of the real image.
func TestAnImageIsProvedToHaveItsDrivers(t *testing.T) {
	image := os.Getenv("MUSTER_TEST_IMAGE")
	if image == "" || os.Geteuid() != 0 {
		t.Skip("needs root and MUSTER_TEST_IMAGE, the path of an image's root.squashfs")
	}
	shipped, err := LoadRecipe(recipes.Recipes, recipes.Recipes, "debian13-hpc")
	if err != nil {
		t.Fatal(err)
	}
	promised := map[string]bool{"nvidia": false}
	for _, driver := range shipped.Drivers {
		promised[driver] = true
	}
	for driver, want := range promised {
		var verdicts []Verdict
		err := Accept(t.Context(), image, Manifest{Carries: []string{driver}}, func(v Verdict) { verdicts = append(verdicts, v) })
		if len(verdicts) != 1 || (err == nil) != want {
			t.Errorf("%s: %v %v", driver, verdicts, err)
		}
		if !want && !strings.Contains(verdicts[0].Err.Error(), "missing: nvidia nvidia_uvm") {
			t.Errorf("%s: %v", driver, verdicts[0].Err)
		}
	}
}
