package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"muster/internal/drivers"
	"muster/internal/drivers/scheduler/gpus"
	"muster/internal/inventory"
	"muster/internal/inventory/hardware"
)

func (a *app) gpus() *cobra.Command {
	return group(&cobra.Command{
		Use:   "gpus",
		Short: "Assign the GPUs of a cluster to the ranks of a job",
		Long: `On the nodes of a cluster, say which GPU each rank of a job computes on, and start it there: the same one each time. Nodes
come in the order of the job, GPUs by their PCI addresses, ranks by their numbers. A node's ranks fill its GPUs from the first
one on, one each; if there are more ranks than GPUs, neighbours share one. It needs no controller: every node has the list of all
GPUs, ` + gpus.File + `, and Slurm or Open MPI tells a rank which one it is.`,
		Example: `  muster gpus map
  srun --cpu-bind=none muster gpus run ./simulate
  mpirun --bind-to none muster gpus run ./simulate`,
	}, a.gpusMap(), a.gpusRun())
}

func gpusFileFlag(c *cobra.Command) *string {
	return c.Flags().String("file", gpus.File, "the list of the cluster's GPUs")
}

func readGPUs(file string) ([]gpus.GPU, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist: run this on a node of a cluster, as in `muster ssh NAME -- muster gpus map`",
			file)
	}
	if err != nil {
		return nil, fmt.Errorf("list of GPUs: %w", err)
	}
	return gpus.Parse(string(text))
}

func (a *app) gpusMap() *cobra.Command {
	c := &cobra.Command{
		Use:   "map",
		Short: "Show which GPU each rank gets",
		Long: `Show which GPU each rank of this job gets, with the GPU's address among all of the site and the CPUs nearest to it. Within a
job of Slurm's these are the job's ranks, if the job has all GPUs of its nodes; elsewhere one rank for each GPU of the cluster.`,
		Example: `  muster gpus map
  sbatch -N2 --ntasks-per-node=8 --gpus-per-node=8 --wrap 'muster gpus map; srun --cpu-bind=none muster gpus run ./simulate'`,
		Args: cobra.NoArgs,
	}
	file := gpusFileFlag(c)
	return a.verb(c, func(context.Context, []string) error {
		all, err := readGPUs(*file)
		if err != nil {
			return err
		}
		job, err := gpus.Job(drivers.Schedulers(), os.Getenv)
		if err != nil {
			return err
		}
		if job == nil {
			for _, g := range all {
				if len(job) == 0 || job[len(job)-1].Name != g.Node {
					job = append(job, gpus.Node{Name: g.Node})
				}
				job[len(job)-1].Ranks++
			}
		}
		if len(all) == 0 {
			a.say("this cluster has no GPUs")
		}
		t := newTable("RANK", "NODE", "GPU", "ADDRESS", "CPUS", "MODEL")
		for _, p := range gpus.Map(all, job) {
			if p.GPU == nil {
				t.row(strconv.Itoa(p.Rank), p.Node, "none", "", "", "")
				continue
			}
			t.row(strconv.Itoa(p.Rank), p.Node, strconv.Itoa(p.GPU.Index), p.GPU.Address, p.GPU.CPUs, p.GPU.Model)
		}
		t.print(a.out)
		return nil
	})
}

func (a *app) gpusRun() *cobra.Command {
	c := &cobra.Command{
		Use:   "run PROGRAM [ARGUMENT...]",
		Short: "Start a rank's program on its GPU and the CPUs nearest to it",
		Long: `Run PROGRAM with one visible GPU: this rank's. CUDA_VISIBLE_DEVICES names it (ROCR_VISIBLE_DEVICES, if it is AMD's), and
MUSTER_GPU is its address among all of the site. If Slurm has given GPUs to the rank, it is one of those. A rank without a
CPU binding runs on the CPUs nearest to its GPU; one that is bound stays where it is.`,
		Example: `  srun --ntasks-per-node=8 --gpus-per-node=8 --cpu-bind=none muster gpus run ./simulate
  mpirun --bind-to none muster gpus run ./simulate --steps 100`,
		Args: cobra.MinimumNArgs(1),
	}
	file := gpusFileFlag(c)
	c.Flags().SetInterspersed(false) // what follows the program's name is the program's
	return a.verb(c, func(_ context.Context, args []string) error {
		all, err := readGPUs(*file)
		if err != nil {
			return err
		}
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		choice, err := gpus.Choose(drivers.Schedulers(), gpus.Of(all, host), os.Getenv)
		if err != nil {
			return err
		}
		program, err := exec.LookPath(args[0])
		if err != nil {
			return err
		}
		runtime.LockOSThread() // the program inherits this thread's CPUs
		if err := moveTo(choice.GPU.CPUs, hardware.Tree("/").OnlineCPUs()); err != nil {
			return fmt.Errorf("run on CPUs %s: %w", choice.GPU.CPUs, err)
		}
		for name, value := range map[string]string{choice.Name: choice.Seen, "MUSTER_GPU": choice.GPU.Address,
			"CUDA_DEVICE_ORDER": cmp.Or(os.Getenv("CUDA_DEVICE_ORDER"), "PCI_BUS_ID")} {
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
		return fmt.Errorf("start %s: %w", program, unix.Exec(program, args, os.Environ()))
	})
}

// moveTo puts the calling thread on these CPUs, unless it was bound to some of those online already.
func moveTo(cpus string, online []int) error {
	list, err := inventory.ParseCPUList(cpus)
	if err != nil || len(list) == 0 {
		return err
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil || set.Count() < len(online) {
		return err
	}
	set.Zero()
	for _, cpu := range list {
		set.Set(cpu)
	}
	return unix.SchedSetaffinity(0, &set)
}
