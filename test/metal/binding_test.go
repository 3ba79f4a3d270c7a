package metal_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"muster/internal/kit/testall"
)

// TestTasksOnAMachineAreBoundToItsCores runs jobs on a machine of the rack with two cores: Slurm knows how they lie, srun binds
// each task to one, and no job takes another's. What it measures, bound and unbound, is told: emulated cores prove little.
func TestTasksOnAMachineAreBoundToItsCores(t *testing.T) {
	testall.Only(t)
	y := testbedOf(t, strings.Replace(site, "60s", "300s", 1), 1, "--cpus", "2", "--memory", "2GiB")
	y.inspected(1)
	y.Run("create", "-f", y.File("bound.yaml", "name: bound\nisolation: metal\nnodes: 1\n"), "--wait", "--timeout", "10m")
	slurm := func(command string) string { return y.Run("ssh", "bound", "--", command) }

	node := slurm("scontrol show node n1")
	t.Log(node)
	for _, want := range []string{"CPUTot=2", "Sockets=1", "CoresPerSocket=2", "ThreadsPerCore=1"} {
		if !strings.Contains(node, want) {
			t.Errorf("Slurm does not say %s of the machine", want)
		}
	}
	for _, options := range []string{"--cpu-bind=verbose,cores", "--cpu-bind=verbose"} {
		out := slurm("srun -n2 " + options + " grep Cpus_allowed_list /proc/self/status 2>&1")
		t.Log(out)
		var cores []string
		for line := range strings.Lines(out) {
			if list, found := strings.CutPrefix(line, "Cpus_allowed_list:"); found {
				cores = append(cores, strings.TrimSpace(list))
			}
		}
		slices.Sort(cores)
		if !slices.Equal(cores, []string{"0", "1"}) || strings.Count(out, " set\n") != 2 {
			t.Errorf("srun -n2 %s: two tasks on the cores %v", options, cores)
		}
	}
	slurm("for i in 1 2; do srun -n1 sh -c 'grep Cpus_allowed_list /proc/self/status >> jobs; sleep 20' & done; wait")
	if out := strings.Fields(slurm("cut -f2 jobs | sort")); !slices.Equal(out, []string{"0", "1"}) {
		t.Errorf("two jobs on one machine have the cores %v", out)
	}
	// Of two mpirun at a time, each on one core, the second could take the first one's: Open MPI counts from 0 what it may use.
	slurm("for i in 1 2; do sbatch -n1 --wrap 'mpirun grep Cpus_allowed_list /proc/self/status >> mpi; sleep 20'; done")
	slurm("until [ -z \"$(squeue -h)\" ]; do sleep 1; done")
	if out := strings.Fields(slurm("cut -f2 mpi | sort")); !slices.Equal(out, []string{"0", "1"}) {
		t.Errorf("two jobs with mpirun on one machine have the cores %v", out)
	}
	for _, bind := range []string{"cores", "none", "cores", "none"} {
		t.Logf("STREAM, --cpu-bind=%s: %s", bind,
			slurm(fmt.Sprintf("OMP_NUM_THREADS=1 srun -n2 --cpu-bind=%s stream-triad 4000000", bind)))
		t.Logf("HPL, --cpu-bind=%s: %s", bind,
			slurm(fmt.Sprintf("OMP_NUM_THREADS=1 OPENBLAS_CORETYPE=Prescott hpl 500 1 2 srun -n2 --cpu-bind=%s", bind)))
	}
	y.Run("delete", "bound", "--wait", "--timeout", "5m")
}
