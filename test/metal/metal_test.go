// Package metal_test takes whole machines from an empty inventory to an MPI job and back to off, with the real binary and
// the virtual rack: QEMU machines that are woken, netboot, prove themselves and are erased. Tests of one machine, which computes
// on one core, run beside each other.
package metal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// machine is what the API says of one.
type machine struct {
	ID                               string
	Name, Phase, Reason, Node, Power string
	Since                            time.Time
	MACs                             []string
	Facts                            struct {
		CPUs      int `json:"cpus"`
		MemoryMiB int `json:"memory_mib"`
		Disks     []struct{ Name, Serial string }
		NICs      []struct{ MAC string }
		System    struct{ Serial, Product string }
	}
	Release *struct {
		From  string
		Clean bool
		Disks []struct {
			Disk, Method, Verified string
			OK                     bool
		}
	}
}

type cluster struct {
	Phase, Reason, Lacks string
	Nodes                []struct{ ID, Name, Phase, Machine, Reason string }
}

// testbed is a rig with a rack.
type testbed struct {
	*rig.Rig
	controller *rig.Controller
	csv        string
}

// newTestbed starts a controller and a rack of machines that are off, and enrols them.
func newTestbed(t *testing.T, machines int, flags ...string) *testbed {
	t.Helper()
	return testbedOf(t, site, machines, flags...)
}

// testbedOf is newTestbed with a site file of the test's own.
func testbedOf(t *testing.T, site string, machines int, flags ...string) *testbed {
	t.Helper()
	return testbedWith(t, func(r *rig.Rig) { r.Site = r.File("site.yaml", site) }, machines, flags...)
}

// testbedWith is newTestbed with a controller of the test's own making, and without a site file unless it names one.
func testbedWith(t *testing.T, prepare func(*rig.Rig), machines int, flags ...string) *testbed {
	t.Helper()
	r := rig.New(t, "")
	prepare(r)
	y := &testbed{r, r.Start(), filepath.Join(t.TempDir(), "rack.csv")}
	up := append([]string{"rack", "up", "--machines", fmt.Sprint(machines), "--csv", y.csv}, flags...)
	t.Cleanup(func() {
		down := []string{"rack", "down"}
		if t.Failed() {
			y.consoles()
			down = append(down, "--force") // clusters may hold machines
		}
		r.Run(down...)
		if _, err := os.Stat(r.Data + "-rack"); err == nil {
			t.Errorf("the rack has left %s-rack", r.Data)
		}
	})
	r.Run(up...)
	r.Run("machines", "add", "--local", "1", "--wait")
	r.Run("machines", "import", y.csv)
	return y
}

// site gives up on silent machines sooner than a real site would.
const site = `
site: home
defaults: {project: default, image: debian13-hpc, class: local, head_class: service}
limits: {boot: 60s}
classes:
  - {name: local, select: ["substrate = local"]}
  - {name: service, select: ["substrate = local"]}
  - {name: metal, select: ["substrate = metal"]}
`

// consoles prints the ends of the machines' consoles, for a person who has to find out what went wrong.
func (y *testbed) consoles() {
	for _, m := range y.rack() {
		out := y.Muster("rack", "console", m.Name).Out
		y.Logf("console of %s:\n%s", m.Name, out[max(0, len(out)-3000):])
	}
	nodes, _ := filepath.Glob(filepath.Join(y.Data, "local/nodes/*/*/console/log"))
	for _, path := range nodes {
		if out, err := os.ReadFile(path); err == nil {
			y.Logf("%s:\n%s", path, out[max(0, len(out)-3000):])
		}
	}
	y.Logf("machines:\n%s\nevents:\n%s", y.Muster("machines", "list").Out, y.Muster("events").Out)
}

func (y *testbed) machine(name string) machine {
	y.Helper()
	var m machine
	y.Get(&m, "machines", "get", name)
	return m
}

type racked struct{ Name, State string }

func (y *testbed) rack() []racked {
	y.Helper()
	var state struct{ Machines []racked }
	y.Get(&state, "rack", "list")
	return state.Machines
}

// power is the rack's own view, so that the controller's need not be believed.
func (y *testbed) power(name string) string {
	y.Helper()
	for _, m := range y.rack() {
		if m.Name == name {
			return m.State
		}
	}
	y.Fatalf("there is no machine %s in the rack", name)
	return ""
}

// inspected waits until every machine of the rack has passed its inspection and is off.
func (y *testbed) inspected(machines int) {
	y.Helper()
	y.Run("machines", "inspect", "--all", "--wait", "--timeout", "5m")
	for i := range machines {
		name := fmt.Sprintf("rack-%d", i+1)
		m := y.machine(name)
		if m.Phase != "available" || m.Facts.CPUs == 0 || m.Facts.MemoryMiB < 500 || len(m.Facts.Disks) == 0 ||
			m.Facts.System.Serial != name {
			y.Fatalf("after its inspection: %+v", m)
		}
		if got := y.power(name); got != "off" {
			y.Errorf("%s is %s after its inspection", name, got)
		}
	}
}

// sum is an MPI program: every rank adds its number, from 1.
const sum = `#include <mpi.h>
#include <stdio.h>
int main(int c, char **v) {
	int rank, ranks, mine, all;
	MPI_Init(&c, &v);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	mine = rank + 1;
	MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0) printf("sum %d of %d ranks\n", all, ranks);
	return MPI_Finalize();
}`

// TestMachinesOfARackBecomeAClusterAndComeBackClean is the session of the manual: mixed firmware, mixed power, BIOS and
// UEFI, Wake-on-LAN, IPMI and Redfish.
func TestMachinesOfARackBecomeAClusterAndComeBackClean(t *testing.T) {
	testall.Only(t)
	y := newTestbed(t, 3, "--firmware", "mixed", "--power", "mixed")
	y.robbed(t, "rack-1")
	y.inspected(3)
	y.nothingToSteal(t, "rack-1")

	began := time.Now()
	out := y.Run("create", "-f", y.File("metal.yaml", "name: metal\nisolation: metal\nnodes: 2\n"), "--wait", "--timeout", "5m")
	t.Logf("from create to idle in Slurm: %.1f s", time.Since(began).Seconds())
	_ = out

	hosts := strings.Fields(y.Run("ssh", "metal", "--", "srun", "-N2", "hostname"))
	slices.Sort(hosts)
	if !slices.Equal(hosts, []string{"n1", "n2"}) {
		t.Errorf("srun ran on %v", hosts)
	}
	// Not mpi-pingpong, whose many round trips take minutes between emulated machines that share two cores.
	job := "echo '" + sum + "' > sum.c; mpicc -o sum sum.c && srun --mpi=pmix -N2 -n2 ./sum"
	if out := y.Run("ssh", "metal", "--", job); strings.TrimSpace(out) != "sum 3 of 2 ranks" {
		t.Errorf("%s:\n%s", job, out)
	}
	if out := y.Run("ssh", "metal", "--",
		"srun -N2 sh -c 'echo $(hostname) > ~/on-$(hostname)'; cat ~/on-*"); len(strings.Fields(out)) != 2 {
		t.Errorf("/home is not shared: %q", out)
	}
	y.Run("ssh", "metal", "--", "srun -N1 -w n1 sh -c 'ls /dev/vda'")

	y.Run("scale", "metal", "3", "--wait", "--timeout", "5m")
	y.Run("scale", "metal", "2", "--wait", "--timeout", "5m")
	receipt := y.Run("delete", "metal", "--wait", "--timeout", "5m")
	for i := range 3 {
		name := fmt.Sprintf("rack-%d", i+1)
		m := y.machine(name)
		if m.Phase != "available" || m.Release == nil || !m.Release.Clean || len(m.Release.Disks) != 1 ||
			!m.Release.Disks[0].OK || m.Release.Disks[0].Verified == "" {
			t.Errorf("after its release: %+v, %+v", m, m.Release)
		}
		if got := y.power(name); got != "off" {
			t.Errorf("%s is %s after its release", name, got)
		}
		if !strings.Contains(receipt, name) {
			t.Errorf("%s is not in the receipt:\n%s", name, receipt)
		}
	}
}
