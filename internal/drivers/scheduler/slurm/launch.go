package slurm

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/internal/kit/hostlist"
)

// mostRanks bounds what a short text may expand to.
const mostRanks = 1 << 20

// launch reads the variables that Slurm sets for the programs of a job.
type launch struct{}

// Nodes are those of the job, each with its ranks; nil if this is no job of Slurm's.
func (launch) Nodes(env func(string) string) (names []string, ranks []int, err error) {
	list := env("SLURM_JOB_NODELIST")
	if list == "" {
		return nil, nil, nil
	}
	if names, err = hostlist.Expand(list, hostlist.Most); err != nil {
		return nil, nil, err
	}
	ranks, err = perNode(env("SLURM_TASKS_PER_NODE"), len(names))
	if err != nil {
		return nil, nil, err
	}
	return names, ranks, nil
}

// Rank is that of a program that srun started on this node.
func (launch) Rank(env func(string) string) (rank, ranks string) {
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
	return env("SLURM_LOCALID"), count
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
