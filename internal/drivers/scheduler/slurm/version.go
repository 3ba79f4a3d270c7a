package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// version is Slurm's, as numbers: its year, its month, and how often it was mended since.
type version []int

// parseVersion reads what Slurm's programs print of themselves: "slurm-wlm 24.11.5".
func parseVersion(text string) (v version, err error) {
	_, numbers, _ := strings.Cut(strings.TrimSpace(text), " ")
	numbers, _, _ = strings.Cut(numbers, "-") // of a version before its time
	for number := range strings.SplitSeq(numbers, ".") {
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("%.60q names no version of Slurm", text)
		}
		v = append(v, n)
	}
	return v, nil
}

// since says that it is this version or a later one.
func (v version) since(numbers ...int) bool { return slices.Compare(v, numbers) >= 0 }

// guesses says that of a job that waits slurmctld tells a guess of how many nodes it may have at most, and of its tasks. What
// older versions tell is what the job asks for, also once `scontrol update` has changed that.
func (v version) guesses() bool { return v.since(24, 11) }

// keepsAddresses says that slurmctld keeps the addresses of a job's dynamic nodes when it restarts, so that the job's next
// srun finds them.
func (v version) keepsAddresses() bool { return v.since(24, 11) }

// reconfigures says that slurmctld may read its file again while jobs run on dynamic nodes. Older versions count such jobs twice,
// and a node stays allocated for ever once its job has ended.
func (v version) reconfigures() bool { return v.since(24, 11) }

// placesBySwitch says that slurmctld places jobs by the switches of dynamic nodes. Older versions start no job on them then.
func (v version) placesBySwitch() bool { return v.since(24, 11) }

// ownGroups says that slurmd makes its own groups of cgroup v2 where there is no systemd, and enables their controllers.
func (v version) ownGroups() bool { return v.since(24, 11) }

// byTasks says that slurmctld counts the CPUs of a job's tasks on a node where older versions count those that it gets there
// (test/judge): it takes no memory for a core's other threads, and starts nothing that asks for more CPUs than its tasks use.
func (v version) byTasks() bool { return v.since(24, 11) }
