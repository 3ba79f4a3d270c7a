package gpus

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/internal/drivers/scheduler/slurm"
)

// Variables by which programs are told which GPUs to see.
const (
	cuda = "CUDA_VISIBLE_DEVICES"
	rocm = "ROCR_VISIBLE_DEVICES"
)

// mostRanks bounds what a short text may expand to.
const mostRanks = 1 << 20

// Job is the job that Slurm's variables tell of; nil if this is none.
func Job(env func(string) string) ([]Node, error) {
	list := env("SLURM_JOB_NODELIST")
	if list == "" {
		return nil, nil
	}
	names, err := slurm.ExpandHosts(list)
	if err != nil {
		return nil, err
	}
	ranks, err := perNode(env("SLURM_TASKS_PER_NODE"), len(names))
	if err != nil {
		return nil, err
	}
	job := make([]Node, len(names))
	for i, name := range names {
		job[i] = Node{name, ranks[i]}
	}
	return job, nil
}

// perNode reads SLURM_TASKS_PER_NODE: "8(x2),4".
func perNode(text string, nodes int) ([]int, error) {
	bad := fmt.Errorf("SLURM_TASKS_PER_NODE is %.60q, which does not tell the ranks of %d nodes", text, nodes)
	var all []int
	total := 0
	for part := range strings.SplitSeq(text, ",") {
		number, repeat, repeated := strings.Cut(part, "(x")
		times := uint64(1)
		n, err := strconv.ParseUint(number, 10, 20)
		if repeated {
			var err2 error
			times, err2 = strconv.ParseUint(strings.TrimSuffix(repeat, ")"), 10, 16)
			err = errors.Join(err, err2)
		}
		if total += int(n * times); err != nil || len(all)+int(times) > nodes || total > mostRanks {
			return nil, bad
		}
		all = append(all, slices.Repeat([]int{int(n)}, int(times))...)
	}
	if len(all) != nodes {
		return nil, bad
	}
	return all, nil
}

// Local is the number of this rank on its node, and how many there are on it, as who started it says. Open MPI is asked
// first: its own daemons are ranks of Slurm's.
func Local(env func(string) string) (rank, ranks int, err error) {
	count := env("SLURM_STEP_TASKS_PER_NODE")
	if node, err := strconv.Atoi(env("SLURM_NODEID")); err == nil && count != "" {
		nodes := 1
		if n, err := strconv.ParseUint(env("SLURM_STEP_NUM_NODES"), 10, 16); err == nil {
			nodes = int(n)
		}
		if all, err := perNode(count, nodes); err == nil && node >= 0 && node < len(all) {
			count = strconv.Itoa(all[node])
		}
	}
	for _, by := range [][2]string{
		{env("OMPI_COMM_WORLD_LOCAL_RANK"), env("OMPI_COMM_WORLD_LOCAL_SIZE")},
		{env("MPI_LOCALRANKID"), env("MPI_LOCALNRANKS")}, // MPICH, Intel MPI
		{env("SLURM_LOCALID"), count},
	} {
		if by[0] == "" {
			continue
		}
		rank, err1 := strconv.ParseUint(by[0], 10, 20)
		ranks, err2 := strconv.ParseUint(by[1], 10, 20)
		if err1 != nil || err2 != nil || rank >= ranks {
			return 0, 0, fmt.Errorf("this is said to be rank %.20q of %.20q on its node, which is no number", by[0], by[1])
		}
		return int(rank), int(ranks), nil
	}
	return 0, 1, nil // started by nobody: the only one
}

// Choice is what a rank is to compute on.
type Choice struct {
	GPU  GPU    // Address and CPUs are "" if Slurm named one that the list does not have
	Name string // of the variable by which programs are told
	Seen string // its value
}

// Choose gives a rank one of its node's GPUs: of those that Slurm has given to it, if it has, else of all.
func Choose(there []GPU, env func(string) string) (Choice, error) {
	rank, ranks, err := Local(env)
	if err != nil {
		return Choice{}, err
	}
	for _, name := range []string{cuda, rocm} {
		given := strings.FieldsFunc(env(name), func(r rune) bool { return r == ',' })
		if len(given) == 0 {
			continue
		}
		c := Choice{Name: name, Seen: given[Share(rank, ranks, len(given))]}
		if at := slices.IndexFunc(there, func(g GPU) bool { return strconv.Itoa(g.Index) == c.Seen }); at >= 0 {
			c.GPU = there[at]
		}
		return c, nil
	}
	if len(there) == 0 {
		return Choice{}, errors.New("this node has no GPUs; `muster gpus map` shows those of the cluster")
	}
	c := Choice{GPU: there[Share(rank, ranks, len(there))], Name: cuda}
	if model := strings.ToLower(c.GPU.Model); strings.Contains(model, "amd") || strings.Contains(model, "advanced micro") {
		c.Name = rocm
	}
	c.Seen = strconv.Itoa(c.GPU.Index)
	return c, nil
}
