package kmod

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const (
	dep = `# from depmod
kernel/net/mlx5/core.ko: kernel/lib/mlxfw.ko kernel/lib/psample.ko
kernel/lib/mlxfw.ko: kernel/lib/psample.ko
kernel/lib/psample.ko:
kernel/fs/ext4.ko: kernel/fs/jbd2.ko kernel/lib/crc16.ko
kernel/fs/jbd2.ko:
kernel/lib/crc16.ko:
kernel/crypto/crc32c_generic.ko:
kernel/arch/crc32c-intel.ko.xz:
kernel/virtio/virtio_pci.ko:
../../etc/passwd.ko:
`
	aliases = `alias pci:v000015B3d00001013sv*sd*bc*sc*i* core
alias pci:v00001AF4d*sv*sd*bc*sc*i* virtio_pci
alias crypto-crc32c crc32c_generic
alias crypto-crc32c crc32c-intel
alias virtio:d00000001v* gone
`
	softdeps = "softdep ext4 pre: crypto-crc32c post: psample\n"
)

func tree(t *testing.T) *Tree {
	t.Helper()
	read, err := Read(folder(dep, aliases, softdeps))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func folder(dep, alias, softdep string) fstest.MapFS {
	return fstest.MapFS{
		"modules.dep": {Data: []byte(dep)}, "modules.alias": {Data: []byte(alias)}, "modules.softdep": {Data: []byte(softdep)},
		"modules.builtin": {Data: []byte("kernel/fs/inside.ko\n")},
	}
}

func TestDevicesAndRequestsFindTheirModules(t *testing.T) {
	tree := tree(t)
	for what, want := range map[string][]string{
		"pci:v000015B3d00001013sv000015B3sd00000001bc02sc00i00": {"core"},
		"pci:v00001AF4d00001041sv00001AF4sd00001100bc02sc00i00": {"virtio_pci"},
		"pci:v00008086d00001041sv00001AF4sd00001100bc02sc00i00": nil,
		"crypto-crc32c":          {"crc32c_generic", "crc32c_intel"},
		"crc32c-intel":           {"crc32c_intel"},
		"virtio:d00000001v00001": nil, // its module is not in modules.dep
		"passwd":                 nil,
	} {
		if got := tree.For(what); !slices.Equal(got, want) {
			t.Errorf("For(%q) = %q, want %q", what, got, want)
		}
	}
	if !tree.Has("inside") || !tree.Has("virtio-pci") || tree.Has("gone") {
		t.Error("Has tells built-in modules, files and nothing apart wrongly")
	}
}

func TestWhatAModuleNeedsComesBeforeIt(t *testing.T) {
	tree := tree(t)
	for name, want := range map[string][]string{
		"core": {"kernel/lib/psample.ko", "kernel/lib/mlxfw.ko", "kernel/net/mlx5/core.ko"},
		"ext4": {"kernel/crypto/crc32c_generic.ko", "kernel/arch/crc32c-intel.ko.xz", "kernel/lib/crc16.ko", "kernel/fs/jbd2.ko",
			"kernel/fs/ext4.ko"},
		"none": nil,
	} {
		if got := tree.Order(name); !slices.Equal(got, want) {
			t.Errorf("Order(%s) = %q, want %q", name, got, want)
		}
	}
}

func TestModulesThatNeedEachOtherEnd(t *testing.T) {
	loop, err := Read(folder("kernel/a.ko: kernel/b.ko\nkernel/b.ko: kernel/a.ko\n", "", "softdep a pre: b\nsoftdep b pre: a\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := loop.Order("a"); len(got) != 2 {
		t.Errorf("Order = %q", got)
	}
}

func TestACutTreeIsWholeInItself(t *testing.T) {
	lists, files := tree(t).Cut("ext4", "virtio_pci")
	if want := []string{"kernel/arch/crc32c-intel.ko.xz", "kernel/crypto/crc32c_generic.ko", "kernel/fs/ext4.ko",
		"kernel/fs/jbd2.ko", "kernel/lib/crc16.ko", "kernel/virtio/virtio_pci.ko"}; !slices.Equal(files, want) {
		t.Errorf("files %q", files)
	}
	cut, err := Read(folder(string(lists["modules.dep"]), string(lists["modules.alias"]), string(lists["modules.softdep"])))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tree(t).Order("ext4"), cut.Order("ext4")); diff != "" {
		t.Error(diff)
	}
	if cut.Has("core") || len(cut.For("pci:v000015B3d00001013sv000015B3sd00000001bc02sc00i00")) > 0 {
		t.Error("what was not asked for is in the cut lists")
	}
	again, _ := cut.Cut("virtio_pci", "ext4")
	if diff := cmp.Diff(lists, again); diff != "" {
		t.Errorf("cut twice: %s", diff)
	}
}

func TestAFolderWithoutListsIsRefused(t *testing.T) {
	if _, err := Read(fstest.MapFS{"modules.alias": {}}); err == nil || !strings.Contains(err.Error(), "modules.dep") {
		t.Errorf("got %v", err)
	}
}

func FuzzLists(f *testing.F) {
	f.Add(dep, aliases, softdeps, "pci:v00001AF4d00001041sv00001AF4sd00001100bc02sc00i00")
	f.Add("a.ko: a.ko", "alias [ a", "softdep a pre: a", "a")
	f.Add("kernel/x.ko", `alias \* x`, "softdep", "*")
	f.Fuzz(func(t *testing.T, dep, alias, softdep, what string) {
		tree, err := Read(folder(dep, alias, softdep))
		if err != nil {
			return
		}
		names := tree.For(what)
		for _, file := range tree.Order(names...) {
			if !safe(file) {
				t.Errorf("%q leaves the folder", file)
			}
		}
		for _, n := range names {
			if tree.Path(n) == "" {
				t.Errorf("%q wants %q, which has no file", what, n)
			}
		}
		tree.Cut(names...)
	})
}
