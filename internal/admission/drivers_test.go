package admission_test

import (
	"errors"
	"strings"
	"testing"

	"muster/internal/admission"
	"muster/internal/inventory"
)

const gpuSite = `
site: home
defaults: {project: default, image: bare, class: service, head_class: service}
classes:
  - {name: service, select: ["substrate = local"]}
  - {name: gpu, select: ["substrate = metal", "gpus >= 1"]}
  - {name: any, select: ["substrate = metal"]}
  - {name: vm, select: ["substrate = vm"], hypervisor: true}
`

func TestAnImageWithoutTheDriverOfADeviceIsRefused(t *testing.T) {
	d := newFixtureAt(t, t.TempDir()+"/db", gpuSite, offer{name: "h1", cpus: 2, arch: "amd64", phase: "available", on: "local"})
	gpu := inventory.Device{Kind: "gpu", PCI: "0000:41:00.0", Vendor: "10de", ID: "2330", Name: "NVIDIA H100", Group: "1",
		Path: []string{"0000:00:01.0"}}
	hca := inventory.Device{Kind: "hca", PCI: "0000:42:00.0", Vendor: "15b3", ID: "1021", Group: "2",
		Path: []string{"0000:00:02.0"}}
	d.add(inventory.Machine{ID: "m1", Name: "r1n1", Substrate: "metal", MACs: []string{"52:54:00:00:00:01"},
		Facts: inventory.Facts{CPUs: 4, Arch: "amd64", Devices: []inventory.Device{gpu, hca}}})
	f := hypervisor(4, 16, gpu, hca)
	d.add(inventory.Machine{ID: "hv1", Name: "hv1", Substrate: "vm", Hosts: true, Facts: f})

	const vm = "name: a\nimage: IMAGE\nqueues: [{name: q, class: vm, nodes: 1, vm: {cpus: 1, memory: 1GiB, devices: " +
		"{DEVICES}}}]\n"
	const metal = "name: a\nimage: IMAGE\nqueues: [{name: q, class: CLASS, nodes: 1}]\n"
	for name, c := range map[string]struct {
		text       string
		want, hint string // "": admitted
	}{
		"a class that asks for GPUs": {strings.NewReplacer("IMAGE", "bare", "CLASS", "gpu").Replace(metal),
			"image bare lacks the driver nvidia, which the gpu of machine r1n1 needs: 10de:2330 NVIDIA H100",
			"these have it: cuda"},
		"an image with the driver":      {strings.NewReplacer("IMAGE", "cuda", "CLASS", "gpu").Replace(metal), "", ""},
		"an image that was made before": {strings.NewReplacer("IMAGE", "debian13-hpc", "CLASS", "gpu").Replace(metal), "", ""},
		"a class that does not ask":     {strings.NewReplacer("IMAGE", "bare", "CLASS", "any").Replace(metal), "", ""},
		"a guest with a GPU": {strings.NewReplacer("IMAGE", "bare", "DEVICES", "gpu: 1").Replace(vm),
			"image bare lacks the driver nvidia, which the gpu of machine hv1-g1 needs: 10de:2330 NVIDIA H100",
			"these have it: cuda"},
		"a guest with an HCA": {strings.NewReplacer("IMAGE", "cuda", "DEVICES", "ib: 1").Replace(vm),
			"image cuda lacks the driver mlx5, which the hca of machine hv1-g1 needs: 15b3:1021",
			"no image here has mlx5; a recipe lists its drivers under `drivers`"},
		"a guest with a GPU it drives": {strings.NewReplacer("IMAGE", "cuda", "DEVICES", "gpu: 1").Replace(vm), "", ""},
	} {
		_, err := d.plan(c.text)
		var refusal *admission.Refusal
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.As(err, &refusal) || len(refusal.Diagnostics) != 1 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := refusal.Diagnostics[0]; got.Text != c.want || got.Hint != c.hint || got.Path != "image" ||
			refusal.Kind != admission.Invalid {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
