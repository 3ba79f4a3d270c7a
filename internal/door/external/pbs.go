package external

import (
	"fmt"
	"slices"
	"strings"

	externals "muster/internal/kinds/external"
	"muster/internal/kit/lists"
)

// record is what `qstat -Q -f` and `pbsnodes -a` print of one queue or node: a heading, and lines of key = value below it.
type record struct {
	head string
	of   map[string]string
}

// parseRecords reads them, of PBS Pro, OpenPBS and Torque. Between records lies an empty line; long values go on in the
// next line, behind a tab.
func parseRecords(text string) ([]record, error) {
	var all []record
	open, last := false, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		trimmed := strings.TrimSpace(line)
		key, value, pair := strings.Cut(trimmed, " =")
		switch {
		case trimmed == "":
			open, last = false, ""
		case !open && line == strings.TrimLeft(line, " \t"):
			all = append(all, record{trimmed, map[string]string{}})
			open = true
		case open && line[0] == '\t' && last != "":
			all[len(all)-1].of[last] += trimmed
		case open && line[0] == ' ' && pair && key != "":
			last = key
			all[len(all)-1].of[key] = strings.TrimSpace(value)
		default:
			return nil, fmt.Errorf("not a line of PBS: %.80q", line)
		}
	}
	return all, nil
}

// parsePBS reads what `qstat -Q -f` prints of queues, and `pbsnodes -a` of nodes.
func parsePBS(queueText, nodeText string) ([]externals.Queue, error) {
	records, err := parseRecords(queueText)
	if err != nil {
		return nil, err
	}
	var queues []externals.Queue
	for _, r := range records {
		q, err := parseQueue(r)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(queues, func(other externals.Queue) bool { return other.Name == q.Name }) {
			return nil, fmt.Errorf("qstat lists queue %s twice", q.Name)
		}
		queues = append(queues, q)
	}
	if records, err = parseRecords(nodeText); err != nil {
		return nil, err
	}
	return queues, countNodes(queues, records)
}

func parseQueue(r record) (externals.Queue, error) {
	name, found := strings.CutPrefix(r.head, "Queue: ")
	enabled, started := r.of["enabled"], r.of["started"]
	if !found || !queueName.MatchString(name) || !truth(enabled) || !truth(started) {
		return externals.Queue{}, fmt.Errorf("not a queue of qstat: %.80q, enabled %.20q, started %.20q", r.head, enabled, started)
	}
	q := externals.Queue{Name: name, Up: enabled == "True" && started == "True", State: "up"}
	switch {
	case enabled == "False":
		q.State = "disabled" // takes no jobs
	case started == "False":
		q.State = "stopped" // runs none
	}
	counts, told := r.of["state_count"]
	if !told {
		return q, nil
	}
	running, waiting := 0, 0
	for _, field := range strings.Fields(counts) {
		state, number, _ := strings.Cut(field, ":")
		n, err := count(number)
		if err != nil {
			return q, fmt.Errorf("jobs of queue %s: %w", name, err)
		}
		switch state {
		case "Running":
			running += n
		case "Queued", "Held", "Waiting":
			waiting += n
		}
	}
	q.Running, q.Waiting = &running, &waiting
	return q, nil
}

func truth(text string) bool { return text == "True" || text == "False" }

// countNodes gives queues their nodes: a node that names a queue runs jobs of that one only, and a queue that is so named
// has no others. All other nodes are of all other queues.
func countNodes(queues []externals.Queue, nodes []record) error {
	own := lists.SetBy(nodes, func(n record) string { return n.of["queue"] })
	for _, n := range nodes {
		state, told := n.of["state"]
		if !told || state == "" {
			return fmt.Errorf("node %.80q of pbsnodes has no state", n.head)
		}
		free, used := use(state, n.of["jobs"])
		for i := range queues {
			q := &queues[i]
			if n.of["queue"] == q.Name || n.of["queue"] == "" && !own[q.Name] {
				q.Nodes, q.Free, q.Used = q.Nodes+1, q.Free+free, q.Used+used
			}
		}
	}
	return nil
}

// use says whether a node is free, or has jobs; 0, 0 if it takes part in nothing. PBS calls a node free as long as a
// further job fits on it.
func use(state, jobs string) (free, used int) {
	for one := range strings.SplitSeq(state, ",") {
		switch strings.TrimSpace(one) {
		case "free", "job-busy", "job-exclusive", "job-sharing", "resv-exclusive", "busy":
		default: // offline, down, state-unknown, stale, provisioning, maintenance …
			return 0, 0
		}
	}
	if state == "free" && jobs == "" {
		return 1, 0
	}
	return 0, 1
}
