package guests_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"muster/internal/kit/netns"
	"muster/internal/kit/testall"
	"muster/test/rig"
)

// Two virtual machines of this host and a head beside them: Slurm and MPI across the machines, then nothing is left.
func TestAClusterOfVirtualMachines(t *testing.T) {
	testall.Only(t)
	for _, program := range []string{"libvirtd", "qemu-system-x86_64"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("virtual machines are not tested: there is no %s; `make setup` installs it", program)
		}
	}
	r := rig.New(t, "")
	r.Flags = []string{"--local-hypervisor"}
	controller := r.Start()
	r.Run("machines", "add", "--local", "1", "--wait")
	hypervisor := regexp.MustCompile(`(\S+-hv) +vm +available .* 0 of \d+ cores, .*, 0 guests`)
	r.Until("the hypervisor is available", func() bool {
		return hypervisor.MatchString(r.Run("machines", "list"))
	})
	r.Run("create", "-f", filepath.Join(rig.Root(t), "examples/vm.yaml"), "--wait")

	t.Run("nodes are guests, and what they hold is shown", func(t *testing.T) {
		r := r.In(t)
		for _, c := range []struct{ args, want string }{
			{"describe vm", `n2 +\S+-hv +NUMA node 0: core \d+, 768 MiB`},
			{"machines list", `(?s)\S+-hv +vm +available .*, 2 guests.*\S+-hv-g1 +vm +in-use .* vm/n1 `},
		} {
			if out := r.Run(strings.Fields(c.args)...); !regexp.MustCompile(c.want).MatchString(out) {
				t.Errorf("muster %s: no %q in\n%s", c.args, c.want, out)
			}
		}
	})
	t.Run("they are machines of their own", func(t *testing.T) {
		r := r.In(t)
		out := r.Run("ssh", "vm", "--", "srun -N2 cat /proc/sys/kernel/random/boot_id; cat /proc/sys/kernel/random/boot_id")
		if ids := strings.Fields(out); len(ids) != 3 || ids[0] == ids[1] || ids[0] == ids[2] || ids[1] == ids[2] {
			t.Errorf("their kernels have the boots %v", ids)
		}
	})
	t.Run("a job is kept to the memory that it has", func(t *testing.T) {
		r := r.In(t)
		for mib, want := range map[string]string{"50": "done\n", "300": ""} {
			job := "srun -Q --mem=100M python3 -c 'bytearray(" + mib + " << 20); print(\"done\")' 2>err"
			if out := r.Run("ssh", "vm", "--", job+" || grep -q 'Out Of Memory' err"); out != want {
				t.Errorf("a job of 100 MiB that uses %s: %q", mib, out)
			}
		}
	})
	t.Run("a job has a /tmp of its own, which goes with it", func(t *testing.T) {
		r := r.In(t)
		const job = `srun -Q -w n1 sh -c 'ls /tmp | grep -c seen; touch /tmp/seen; ls /tmp/seen'; `
		out := r.Run("ssh", "vm", "--", job+job+"ssh n1 'ls /tmp | grep -c seen; df -m / /tmp >&2; ls /var/spool/slurm-jobs/*'; true")
		if out != "0\n/tmp/seen\n0\n/tmp/seen\n0\n" {
			t.Errorf("%q", out)
		}
	})
	t.Run("they outlive the agent of their host", func(t *testing.T) {
		r := r.In(t)
		boots := func() string { return r.Run("ssh", "vm", "--", "srun -N2 cat /proc/sys/kernel/random/boot_id | sort") }
		before, agents := boots(), controller.Agents()
		if len(agents) != 1 {
			t.Fatalf("the host has the agents %v", agents)
		}
		if err := syscall.Kill(agents[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r.Until("the host has its next agent", func() bool {
			after := controller.Agents()
			return len(after) == 1 && after[0] != agents[0]
		})
		if after := boots(); after != before {
			t.Errorf("their boots were %q, and are %q", before, after)
		}
	})
	t.Run("one door is open to them", func(t *testing.T) {
		r := r.In(t)
		namespaces, err := filepath.Glob(filepath.Join(r.Data, "local/clusters/*/netns"))
		if err != nil || len(namespaces) != 1 {
			t.Fatalf("networks of clusters: %v, %v", namespaces, err)
		}
		if got := sockets(t, namespaces[0]); got != "tcp 10.77.0.1:7421" {
			t.Errorf("on the gateway of a cluster's network there listen %q", got)
		}
		// From inside, at the ports of a controller that are open elsewhere, and at the gateway's usual ones.
		address := regexp.MustCompile(`:(\d+)$`).FindStringSubmatch(controller.URL)
		if address == nil {
			t.Fatal("where does the controller listen? ", controller.URL)
		}
		try := "for p in 22 53 80 111 443 2049 5432 7422 8069 " + address[1] +
			" 7421; do (echo > /dev/tcp/10.77.0.1/$p) 2>/dev/null && echo $p; done; true"
		if out := r.Run("ssh", "vm", "--", "srun -N1 bash -c '"+try+"'"); out != "7421\n" {
			t.Errorf("a guest finds open at its gateway: %q", out)
		}
	})
	t.Run("MPI crosses them, and /home is one", func(t *testing.T) {
		r := r.In(t)
		// Not mpi-pingpong, whose many round trips take minutes between emulated machines.
		job := "echo '" + sum + "' > sum.c; mpicc -o sum sum.c && srun --mpi=pmix -N2 -n2 ./sum"
		if out := r.Run("ssh", "vm", "--", job); strings.TrimSpace(out) != "sum 3 of 2 ranks" {
			t.Errorf("%s:\n%s", job, out)
		}
		if out := r.Run("ssh", "vm", "--", "echo shared > f; srun -N1 cat f"); out != "shared\n" {
			t.Errorf("%q", out)
		}
	})

	t.Run("what is measured on them stands beside what is measured natively", func(t *testing.T) { compareWithNative(r.In(t)) })

	r.Run("delete", "vm", "--wait")
	if out := r.Run("machines", "list"); !hypervisor.MatchString(out) || strings.Contains(out, "-hv-g") {
		t.Errorf("guests are left:\n%s", out)
	}
}

// compareWithNative compares a cluster of containers with that of virtual machines in turns, and says in words what those are.
func compareWithNative(r *rig.Rig) {
	r.AddRecipe("spin", rig.Spin)
	r.Run("machines", "add", "--local", "3", "--wait")
	r.Run("create", "native", "--nodes", "1", "--wait")
	r.Undisturbed("native", "n1")
	out := r.Run("bench", "compare", "native", "vm", "--suite", "spin", "--nodes", "1", "--rounds", "6", "--wait")
	r.Log(out)
	var runs struct {
		Items []struct{ ID, Outcome string }
	}
	r.Get(&runs, "bench", "runs", "vm")
	file := filepath.Join(r.TempDir(), "report.md")
	r.Run("bench", "report", runs.Items[0].ID, "-f", file)
	report, err := os.ReadFile(file)
	if err != nil {
		r.Fatal(err)
	}
	emulated := exec.Command("pgrep", "-f", "qemu-system.*accel[= ]kvm").Run() != nil
	for _, text := range []string{out, string(report)} {
		if strings.Contains(text, "emulated in software") != emulated || !strings.Contains(text, "differs") {
			r.Errorf("that guests are emulated, and slower, is not said:\n%s", text)
		}
	}
	for _, run := range runs.Items {
		if run.Outcome != "ok" {
			r.Errorf("%+v", run)
		}
	}
	r.Run("delete", "native", "--wait")
}

// sockets lists all that can be reached in a network namespace: ports that listen, and sockets without one.
func sockets(t *testing.T, namespace string) string {
	t.Helper()
	var found []string
	err := netns.Do(namespace, func() error {
		for _, kind := range []string{"tcp", "tcp6", "udp", "udp6", "udplite", "raw", "raw6", "icmp"} {
			text, err := os.ReadFile("/proc/thread-self/net/" + kind)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
				fields := strings.Fields(line)
				const listening = "0A"
				if strings.HasPrefix(kind, "tcp") && fields[3] != listening {
					continue
				}
				var a, b, c, d, port int
				// in the host's order
				if n, _ := fmt.Sscanf(fields[1], "%02X%02X%02X%02X:%04X", &a, &b, &c, &d, &port); n == 5 && kind == "tcp" {
					found = append(found, fmt.Sprintf("%s %d.%d.%d.%d:%d", kind, d, c, b, a, port))
					continue
				}
				found = append(found, kind+" "+fields[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(found, ", ")
}

// sum is an MPI program whose answer needs all ranks.
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
