package hardware

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/inventory"
	"muster/internal/inventory/shapes"
)

// planted is a tree of files in a directory of its own: text by path, and links where the text begins with "-> ".
func planted(t testing.TB, files map[string]string) Tree {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		plant(t, Tree(root), path, text)
	}
	return Tree(root)
}

func plant(t testing.TB, tree Tree, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(tree.Path(path)), 0o755))
	if target, is := strings.CutPrefix(text, "-> "); is {
		must(t, os.Symlink(tree.Path(target), tree.Path(path)))
		return
	}
	must(t, os.WriteFile(tree.Path(path), []byte(text), 0o644))
}

// shaped is the tree of a shape.
func shaped(t testing.TB, name string) Tree {
	t.Helper()
	root := inMemory(t)
	must(t, shapes.Write(root, shapes.Named(name)))
	return Tree(root)
}

// inMemory is a directory for thousands of small files, which a disk would take minutes for.
func inMemory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "muster-shape-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestThisMachineIsUnderstood(t *testing.T) {
	f := Read("/")
	if f.CPUs < 1 || f.Cores < 1 || f.Cores > f.CPUs || f.MemoryMiB < 1 || f.Kernel == "" || len(f.NUMA) < 1 ||
		len(f.Layout) != f.Cores {
		t.Errorf("%+v", f)
	}
	if _, err := f.Layout.MarshalText(); err != nil {
		t.Error(err)
	}
}

func TestAMachineThatTellsNothingHasStillOneCore(t *testing.T) {
	got := Read(planted(t, map[string]string{"sys/devices/system/cpu/online": "0\n", "proc/meminfo": "MemTotal: 500000 kB\n"}))
	want := inventory.Facts{
		Arch: got.Arch, CPUs: 1, Cores: 1, Sockets: 1, MemoryMiB: 480,
		NUMA:   []inventory.NUMANode{{CPUs: "0", MemoryMiB: 480}},
		Layout: inventory.Layout{{CPUs: []int{0}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	Read(planted(t, nil)) // without anything it is as many CPUs as this machine's, and no panic
}

func TestMachinesOfAllShapesAreUnderstood(t *testing.T) {
	for _, s := range shapes.All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			got, want := Read(shaped(t, s.Name)), s.Facts
			got.Arch, want.Disks, want.NICs = want.Arch, nil, nil
			for i := range want.Devices {
				want.Devices[i].Name = ""
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOddProcessorsAreReadAsFarAsTheyMakeSense(t *testing.T) {
	const cpu, node = "sys/devices/system/cpu/cpu", "sys/devices/system/node/node"
	for _, c := range []struct {
		name, file, text string // text "": the file is taken away
		want             func(f inventory.Facts) bool
	}{
		{"a CPU without a topology is a core of its own", cpu + "4/topology", "", func(f inventory.Facts) bool {
			return f.Cores == 9 && slices.Equal(f.Layout[2].CPUs, []int{4}) && slices.Equal(f.Layout[3].CPUs, []int{5})
		}},
		{"siblings that are offline do not count", cpu + "2/topology/thread_siblings_list", "2-3,90-99\n",
			func(f inventory.Facts) bool {
				return f.Cores == 8 && slices.Equal(f.Layout[1].CPUs, []int{2, 3})
			}},
		{"CPUs that two cores claim are the first one's", cpu + "2/topology/thread_siblings_list", "0-15\n",
			func(f inventory.Facts) bool {
				return f.Cores == 2 && f.CPUs == 16
			}},
		{"siblings that are no list are none", cpu + "2/topology/thread_siblings_list", "all of them\n",
			func(f inventory.Facts) bool {
				return len(f.Layout[1].CPUs) == 1
			}},
		{"a package without a number is the first", cpu + "0/topology/physical_package_id", "-1\n", func(f inventory.Facts) bool {
			return f.Layout[0].Package == 0 && f.Sockets == 2
		}},
		{"a core without caches shares none", cpu + "2/cache", "", func(f inventory.Facts) bool {
			return f.Layout[1].Cache == 2
		}},
		{"a cache for instructions is not the last", cpu + "2/cache/index1/level", "4\n", func(f inventory.Facts) bool {
			return f.Layout[1].Cache == 0
		}},
		{"no table of distances", node + "1/distance", "", func(f inventory.Facts) bool {
			return f.NUMA[1].Distances == nil && len(f.NUMA[0].Distances) == 2
		}},
		{"distances to fewer nodes than there are", node + "1/distance", "10\n", func(f inventory.Facts) bool {
			return f.NUMA[1].Distances == nil
		}},
		{"distances that are none", node + "1/distance", "near 10\n", func(f inventory.Facts) bool {
			return f.NUMA[1].Distances == nil
		}},
		{"a node that does not tell its CPUs has none", node + "1/cpulist", "", func(f inventory.Facts) bool {
			return f.NUMA[1].CPUs == "" && f.Layout[4].NUMA == 0
		}},
		{"a node whose number is none is no node", node + "X/cpulist", "0\n", func(f inventory.Facts) bool {
			return len(f.NUMA) == 2
		}},
		{"huge pages of no size", node + "0/hugepages/hugepages-manykB/nr_hugepages", "4\n", func(f inventory.Facts) bool {
			return f.NUMA[0].HugePages == nil
		}},
		{"less than no huge pages", node + "0/hugepages/hugepages-2048kB/nr_hugepages", "-4\n", func(f inventory.Facts) bool {
			return f.NUMA[0].HugePages == nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := shaped(t, "siblings-adjacent")
			must(t, os.RemoveAll(tree.Path(c.file)))
			if c.text != "" {
				plant(t, tree, c.file, c.text)
			}
			f := Read(tree)
			if !c.want(f) {
				t.Errorf("%d cores: %+v\n%+v", f.Cores, f.Layout, f.NUMA)
			}
			if _, err := f.Layout.MarshalText(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNoTreeIsTooOdd breaks trees piece by piece: files that are gone, empty, full of nonsense or directories, and links
// that lead in circles. What is read has to make sense all the same.
func TestNoTreeIsTooOdd(t *testing.T) {
	for _, name := range []string{"siblings-adjacent", "shared-groups", "virtual-functions"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := shaped(t, name)
			var paths []string
			must(t, filepath.WalkDir(string(tree), func(path string, _ fs.DirEntry, err error) error {
				paths = append(paths, path)
				return err
			}))
			random := rand.New(rand.NewPCG(6, 6))
			for range 80 {
				path := paths[1+random.IntN(len(paths)-1)]
				spoil(random.IntN(6), path)
				f := Read(tree)
				if _, err := f.Layout.MarshalText(); err != nil || len(f.NUMA) == 0 || f.Cores > f.CPUs {
					t.Fatalf("after %s: %+v, %v", path, f, err)
				}
			}
		})
	}
}

// spoil may fail, where what is above the path was spoilt before.
func spoil(how int, path string) {
	content := map[int]string{1: "", 2: "4294967295\n", 3: "0-65535,1-2 :/+\n\x00\xff"}
	_ = os.RemoveAll(path)
	switch how {
	case 0:
	case 4:
		_ = os.Mkdir(path, 0o755)
	case 5:
		_ = os.Symlink("../"+filepath.Base(filepath.Dir(path)), path)
	default:
		_ = os.WriteFile(path, []byte(content[how]), 0o644)
	}
}

func TestNamesAreInTheOrderOfTheirNumbers(t *testing.T) {
	names := []string{"sdaa", "eth10", "nvme10n1", "sda", "eth2", "nvme2n10", "nvme2n9", "sdb", "eth02"}
	slices.SortFunc(names, ByNumber)
	want := []string{"eth02", "eth2", "eth10", "nvme2n9", "nvme2n10", "nvme10n1", "sda", "sdaa", "sdb"}
	if !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

// FuzzTexts feeds all parsers of small texts.
func FuzzTexts(f *testing.F) {
	f.Add("MemTotal: 24683520 kB\nNode 0 MemTotal: 12 kB\n")
	f.Add("model name\t: AMD EPYC\n")
	f.Add("16384K")
	f.Add("10 12 32 255")
	f.Add("sys/devices/pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:02.0/10000:01:00.0/nvme/nvme0")
	f.Add("27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n30 25 0:27 / /a\\040b rw - btrfs /dev/sda2 rw\n")
	f.Add("Filename\tType\n/dev/dm-1 partition 8 0 -2\n")
	f.Add("eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")
	f.Add("00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe80 0400 1 0 3 eth0\n")
	f.Fuzz(func(t *testing.T, text string) {
		if meminfo(text, "MemTotal") < 0 || cacheSize(text) < 0 {
			t.Error("less than nothing")
		}
		for _, d := range distances(text) {
			if d < 0 || d > 255 {
				t.Errorf("distance %d", d)
			}
		}
		for _, address := range append(bridges(text), Address(text)) {
			if address != "" && (!isAddress(address) || !strings.Contains(text, address)) {
				t.Errorf("address %q", address)
			}
		}
		for _, m := range mounts(text) {
			if m.device == "" || m.point == "" || m.source == "" {
				t.Errorf("mount %+v", m)
			}
		}
		for _, file := range swaps(text) {
			if !strings.HasPrefix(file, "/") {
				t.Errorf("swap %q", file)
			}
		}
		usual, others := routes(text, text)
		if slices.Contains(append(usual, others...), "") {
			t.Error("a route through nothing")
		}
		_ = cpuModel(text)
	})
}
