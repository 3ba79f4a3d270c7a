package noded

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/internal/inventory"
	"muster/internal/inventory/shapes"
	"muster/internal/kit/testall"
	"muster/internal/protocol"
)

func TestEveryNodeListsTheClustersGPUs(t *testing.T) {
	got := gpuList([]protocol.Peer{{Name: "head"},
		{Name: "n1", GPUs: []protocol.GPU{{Address: "r1/gpu0", CPUs: "0-3", Model: "NVIDIA A40"}, {Address: "r1/gpu1"}}}})
	if want := "n1 0 r1/gpu0 0-3 NVIDIA A40\nn1 1 r1/gpu1 - -\n"; !strings.HasSuffix(got, want) {
		t.Errorf("%q", got)
	}
}

// pretend gives a node two GPUs of NVIDIA's: what the kernel and its driver would show of them, and devices for them.
func (r *rack) pretend(t *testing.T, p protocol.Peer) {
	t.Helper()
	f := inventory.Facts{CPUs: 2, Cores: 2, Sockets: 1, MemoryMiB: 2000, Kernel: "6.1.0",
		Layout: inventory.Layout{{ID: 0, CPUs: []int{0}}, {ID: 1, CPUs: []int{1}}},
		NUMA:   []inventory.NUMANode{{CPUs: "0-1", MemoryMiB: 2000, Distances: []int{10}}}}
	seeming := pretence{tree: filepath.Join(r.dir, p.Name+".tree")}
	for minor := range 2 {
		address := fmt.Sprintf("0000:%d7:00.0", minor+1)
		f.Devices = append(f.Devices, inventory.Device{Kind: "gpu", PCI: address, Vendor: "10de", ID: "2330", Driver: "nvidia",
			NUMA: -1})
		at := filepath.Join(seeming.tree, "proc/driver/nvidia/gpus", address)
		must(t, os.MkdirAll(at, 0o755))
		must(t, os.WriteFile(filepath.Join(at, "information"),
			fmt.Appendf(nil, "Model: \t\t NVIDIA H100 80GB HBM3\nDevice Minor: \t %d\n", minor), 0o644))
		seeming.devices = append(seeming.devices, fmt.Sprintf("/dev/nvidia%d", minor))
	}
	must(t, shapes.Write(seeming.tree, f))
	if r.pretends == nil {
		r.pretends = map[string]pretence{}
	}
	r.pretends[p.Name] = seeming
}

// TestSlurmGivesGPUsToJobs boots two nodes to which the kernel shows two GPUs each, and one without.
func TestSlurmGivesGPUsToJobs(t *testing.T) {
	testall.Only(t)
	r := newRack(t)
	f := r.controller
	head, n1, n2, n3 := testPeer("head", 0, protocol.Head), testPeer("n1", 1, protocol.Compute),
		testPeer("n2", 2, protocol.Compute), testPeer("n3", 3, protocol.Compute)
	n1.GPUs = []protocol.GPU{{Address: "r1/gpu0", Model: "NVIDIA H100 80GB HBM3"},
		{Address: "r1/gpu1", Model: "NVIDIA H100 80GB HBM3"}}
	n3.GPUs = []protocol.GPU{{Address: "r3/gpu0", Model: "NVIDIA H100 80GB HBM3"},
		{Address: "r3/gpu1", Model: "NVIDIA H100 80GB HBM3"}}
	r.pretend(t, n1)
	r.pretend(t, n3)
	all := []protocol.Peer{head, n1, n2, n3}
	for _, p := range all {
		r.plug(t, p)
	}
	r.configure(1, []protocol.Queue{{Name: "cpu", Default: true}}, all...)
	for _, p := range all {
		r.boot(t, p)
	}
	f.until(t, "three idle nodes", func() bool {
		return f.scheduler("n1").State == protocol.NodeFree && f.scheduler("n2").State == protocol.NodeFree && f.scheduler("n3").
			State == protocol.NodeFree
	})
	f.until(t, "n1 healthy", func() bool { return f.healthy("n1") })
	f.mu.Lock()
	facts := f.reports["n1"].Facts.GPUs
	f.mu.Unlock()
	if len(facts) != 2 || facts[1].Address != "r1/gpu1" || facts[1].Device != "/dev/nvidia1" || facts[1].Driver != "nvidia" {
		t.Errorf("facts of the GPUs: %+v", facts)
	}

	if got := r.ssh(t, head, "sinfo -h -N -o '%N %G' | sort -u"); got != "n1 gpu:h100:2\nn2 (null)\nn3 gpu:h100:2\n" {
		t.Errorf("Slurm knows of the GPUs: %q", got)
	}
	if got := r.ssh(t, head, "srun -w n1 --gres=gpu:h100:1 sh -c 'echo $(hostname) $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER'"); got != "n1 0 PCI_BUS_ID\n" {
		t.Errorf("a job with one GPU: %q", got)
	}
	got := strings.Fields(r.ssh(t, head, "srun -w n1 -n2 --gpus-per-task=1 sh -c 'echo $CUDA_VISIBLE_DEVICES' | sort"))
	if strings.Join(got, " ") != "0 1" {
		t.Errorf("two ranks with a GPU each: %q", got)
	}
	if got := r.ssh(t, head, "srun -w n2 sh -c 'echo $CUDA_VISIBLE_DEVICES'"); got != "\n" {
		t.Errorf("a job that asked for none: %q", got)
	}
	if got := r.ssh(t, head, "srun --immediate=5 --gres=gpu:3 true 2>&1 || true"); !strings.Contains(got,
		"Requested node configuration is not available") {
		t.Errorf("a job that asks for three: %q", got)
	}
	if got := r.ssh(t, head, "srun -w n1 readlink $(which muster)"); got != "/usr/sbin/muster\n" {
		t.Errorf("the program for users is a link to %q", got)
	}
	if got := r.ssh(t, head, "tail -n 4 /etc/muster/gpus"); got != "n1 0 r1/gpu0 - NVIDIA H100 80GB HBM3\nn1 1 r1/gpu1 - "+
		"NVIDIA H100 80GB HBM3\n"+
		"n3 0 r3/gpu0 - NVIDIA H100 80GB HBM3\nn3 1 r3/gpu1 - NVIDIA H100 80GB HBM3\n" {
		t.Errorf("the list of GPUs: %q", got)
	}
	r.ranksHaveGPUs(t, head)
}

// ranksHaveGPUs has Slurm start the ranks of a job across two nodes by `muster gpus run`.
func (r *rack) ranksHaveGPUs(t *testing.T, head protocol.Peer) {
	t.Helper()
	program := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(r.dir, "home/muster"), "muster/cmd/muster")
	program.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := program.CombinedOutput(); err != nil {
		t.Fatalf("build muster: %v: %s", err, said)
	}
	const job = " -w n1,n3 -n4 --gpus-per-node=2 "
	var mapped []string
	for line := range strings.Lines(r.ssh(t, head, "salloc -Q"+job+"/home/muster gpus map")) {
		if fields := strings.Fields(line); fields[0] != "RANK" {
			mapped = append(mapped, strings.Join(fields[:4], " "))
		}
	}
	// Slurm's nodes stand in the order in which they have registered.
	order := []string{"0 n1 0 r1/gpu0", "1 n1 1 r1/gpu1", "2 n3 0 r3/gpu0", "3 n3 1 r3/gpu1"}
	if len(mapped) > 0 && strings.HasPrefix(mapped[0], "0 n3") {
		order = []string{"0 n3 0 r3/gpu0", "1 n3 1 r3/gpu1", "2 n1 0 r1/gpu0", "3 n1 1 r1/gpu1"}
	}
	if !slices.Equal(mapped, order) {
		t.Errorf("the map says %q, want %q", mapped, order)
	}
	for range 2 { // it is the same each time
		got := r.ssh(t, head, "srun"+job+
			"/home/muster gpus run sh -c 'echo $SLURM_PROCID $(hostname) $CUDA_VISIBLE_DEVICES $MUSTER_GPU' | sort")
		if want := strings.Join(order, "\n") + "\n"; got != want {
			t.Errorf("ranks run on these GPUs: %q, want %q", got, want)
		}
	}
}
