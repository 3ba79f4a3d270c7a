package external

import (
	"fmt"
	"strconv"
	"strings"

	externals "muster/internal/kinds/external"
)

// TakesJobs is why no jobs can be begun at an external cluster; nil: they can.
func TakesJobs(c externals.Cluster) error {
	switch {
	case c.System == "":
		return fmt.Errorf("external cluster %s has not answered yet", c.Name)
	case !strings.HasPrefix(c.System, slurmName):
		return fmt.Errorf("external cluster %s has %s, and jobs are begun where there is Slurm", c.Name, c.System)
	}
	return nil
}

const slurmName = "Slurm " // before its version

// columns are sinfo's: a partition and whether it is up, its nodes as allocated/idle/other/total, and of a node the CPUs, those
// of a core, and MB of memory.
const columns = "%R|%a|%F|%c|%Z|%m"

// parseSlurm reads what sinfo says of partitions, in a line or several each. It takes nothing that it does not understand:
// figures that are half true are worse than none.
func parseSlurm(text string) ([]externals.Queue, error) {
	var queues []externals.Queue
	at := map[string]int{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		fields := strings.Split(line, "|")
		if len(fields) != 6 || !queueName.MatchString(fields[0]) || !word(fields[1]) {
			return nil, fmt.Errorf("not a line of sinfo: %.80q", line)
		}
		counts := strings.Split(fields[2], "/")
		var n [4]int
		for i := range n {
			if len(counts) != len(n) {
				return nil, fmt.Errorf("not counts of nodes in a line of sinfo: %.80q", line)
			}
			var err error
			if n[i], err = count(counts[i]); err != nil {
				return nil, fmt.Errorf("in a line of sinfo, %.80q: %w", line, err)
			}
		}
		var size [3]int
		for i := range size {
			var err error
			if size[i], err = count(strings.TrimSuffix(fields[3+i], "+")); err != nil { // of nodes that differ, the least
				return nil, fmt.Errorf("in a line of sinfo, %.80q: %w", line, err)
			}
		}
		cores, memory := size[0]/max(size[1], 1), size[2]
		used, free, other, total := n[0], n[1], n[2], n[3]
		if used+free+other != total {
			return nil, fmt.Errorf("the nodes in a line of sinfo do not add up: %.80q", line)
		}
		i, seen := at[fields[0]]
		if !seen { // sinfo may show a partition in several lines, each with some of the nodes
			i = len(queues)
			at[fields[0]] = i
			queues = append(queues, externals.Queue{Name: fields[0], Up: fields[1] == "up", State: fields[1]})
		}
		q := &queues[i]
		if total > 0 && (q.Nodes == 0 || cores < q.Cores) {
			q.Cores = cores
		}
		if total > 0 && (q.Nodes == 0 || memory < q.MemoryMiB) {
			q.MemoryMiB = memory
		}
		q.Used, q.Free, q.Nodes = q.Used+used, q.Free+free, q.Nodes+total
	}
	return queues, nil
}

// word says that text is one short word in lower case.
func word(text string) bool {
	return text != "" && len(text) <= 20 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz-/*") == ""
}

// count reads a number of nodes or jobs.
func count(text string) (int, error) {
	const most = 100_000_000
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n > most {
		return 0, fmt.Errorf("%.20q is not a count", text)
	}
	return int(n), nil
}
