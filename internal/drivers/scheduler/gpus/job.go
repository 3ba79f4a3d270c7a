package gpus

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/internal/drivers/scheduler"
)

// Variables by which programs are told which GPUs to see.
const (
	cuda = "CUDA_VISIBLE_DEVICES"
	rocm = "ROCR_VISIBLE_DEVICES"
)

// Job is the job that one of the schedulers says this program is of; nil if none does.
func Job(schedulers scheduler.Registry, env func(string) string) ([]Node, error) {
	for _, s := range schedulers {
		if s.Launch == nil {
			continue
		}
		names, ranks, err := s.Launch.Nodes(env)
		if err != nil {
			return nil, err
		}
		if names == nil {
			continue
		}
		job := make([]Node, len(names))
		for i, name := range names {
			job[i] = Node{name, ranks[i]}
		}
		return job, nil
	}
	return nil, nil
}

// Local is the number of this rank on its node, and how many there are on it, as who started it says. MPI is asked first: its
// own daemons are ranks of a scheduler's.
func Local(schedulers scheduler.Registry, env func(string) string) (rank, ranks int, err error) {
	said := [][2]string{
		{env("OMPI_COMM_WORLD_LOCAL_RANK"), env("OMPI_COMM_WORLD_LOCAL_SIZE")},
		{env("MPI_LOCALRANKID"), env("MPI_LOCALNRANKS")}, // MPICH, Intel MPI
	}
	for _, s := range schedulers {
		if s.Launch != nil {
			rank, ranks := s.Launch.Rank(env)
			said = append(said, [2]string{rank, ranks})
		}
	}
	for _, by := range said {
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
	return 0, 1, nil // no launcher has started it: it is the only one
}

// Choice is what a rank is to compute on.
type Choice struct {
	GPU  GPU    // Address and CPUs are "" if the scheduler named one that the list does not have
	Name string // of the variable by which programs are told
	Seen string // its value
}

// Choose gives a rank one of its node's GPUs: of those that the scheduler has given to it, if it has, else of all.
func Choose(schedulers scheduler.Registry, there []GPU, env func(string) string) (Choice, error) {
	rank, ranks, err := Local(schedulers, env)
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
