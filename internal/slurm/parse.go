package slurm

import (
	"fmt"
	"strconv"
	"strings"

	"muster/internal/agent/protocol"
)

// View is Slurm's own state at one moment.
type View struct {
	Nodes []protocol.SlurmNode // sorted by name as Slurm lists them; Jobs counted
	Jobs  map[string][]Job     // by node, those that hold something of it
}

// Job is a job that is somewhere on nodes: it runs, is suspended, starts or ends.
type Job struct {
	ID    int
	State string // Slurm's two letters: R, CG, S, CF …
}

// ParseNodes reads `scontrol show nodes -o`: a line a node, words of key=value; the reason is the last and may contain
// anything.
func ParseNodes(text string) ([]protocol.SlurmNode, error) {
	var nodes []protocol.SlurmNode
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "No nodes in the system") {
			continue
		}
		node, err := parseNode(line)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

func parseNode(line string) (protocol.SlurmNode, error) {
	head, reason, _ := strings.Cut(line, " Reason=")
	name, found := strings.CutPrefix(head, "NodeName=")
	name, rest, _ := strings.Cut(name, " ")
	_, state, hasState := strings.Cut(rest, " State=")
	state, _, _ = strings.Cut(state, " ")
	if !found || !hasState || name == "" || state == "" {
		return protocol.SlurmNode{}, fmt.Errorf("not a line of scontrol show nodes: %.60q", line)
	}
	node := protocol.SlurmNode{Name: name, Responding: true, Reason: cutAuthor(reason)}
	flags := strings.Split(state, "+")
	for i, flag := range flags {
		// A mark may follow any word; the star means that the node does not answer.
		word := strings.TrimRight(flag, "*~#!%$@^-")
		if strings.Contains(flag[len(word):], "*") {
			node.Responding = false
		}
		switch {
		case i == 0:
			node.State = strings.ToLower(word)
		case word == "DRAIN":
			node.Drain = true
		case word == "NOT_RESPONDING":
			node.Responding = false
		}
	}
	return node, nil
}

// cutAuthor removes the " [user@time]" that Slurm puts behind a reason.
func cutAuthor(reason string) string {
	if i := strings.LastIndex(reason, " ["); i >= 0 && strings.HasSuffix(reason, "]") {
		return reason[:i]
	}
	return reason
}

// ParseJobs reads `squeue -h -r -o "%A %t %N"`: job, state and host list. Jobs without nodes have no third word.
func ParseJobs(text string) (map[string][]Job, error) {
	jobs := map[string][]Job{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || len(words) == 2 {
			continue
		}
		if len(words) != 3 {
			return nil, fmt.Errorf("not a line of squeue: %.60q", line)
		}
		id, err := strconv.Atoi(words[0])
		if err != nil {
			return nil, fmt.Errorf("not a job number in %.60q", line)
		}
		names, err := ExpandHosts(words[2])
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			jobs[name] = append(jobs[name], Job{ID: id, State: words[1]})
		}
	}
	return jobs, nil
}

// busy says whether jobs may be on the node, in which case it is worth asking for them.
func busy(n protocol.SlurmNode) bool { return n.State != "idle" && n.State != "unknown" }
