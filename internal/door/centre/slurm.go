package centre

import (
	"fmt"
	"strconv"
	"strings"

	centres "muster/internal/kinds/centre"
)

// parseSlurm reads `sinfo -h -o '%R|%a|%F'`: a line a partition, with its nodes as allocated/idle/other/total. It takes
// nothing that it does not understand: figures that are half true are worse than none.
func parseSlurm(text string) ([]centres.Queue, error) {
	var queues []centres.Queue
	at := map[string]int{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		fields := strings.Split(line, "|")
		if len(fields) != 3 || !queueName.MatchString(fields[0]) || !word(fields[1]) {
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
		used, free, other, total := n[0], n[1], n[2], n[3]
		if used+free+other != total {
			return nil, fmt.Errorf("the nodes in a line of sinfo do not add up: %.80q", line)
		}
		i, seen := at[fields[0]]
		if !seen { // sinfo may show a partition in several lines, each with some of the nodes
			i = len(queues)
			at[fields[0]] = i
			queues = append(queues, centres.Queue{Name: fields[0], Up: fields[1] == "up", State: fields[1]})
		}
		queues[i].Used, queues[i].Free, queues[i].Nodes = queues[i].Used+used, queues[i].Free+free, queues[i].Nodes+total
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
