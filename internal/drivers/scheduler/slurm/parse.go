package slurm

import (
	"fmt"
	"strings"

	"muster/internal/agent/protocol"
)

// View is Slurm's own state at one moment.
type View struct {
	Nodes []protocol.SlurmNode // sorted by name as Slurm lists them; Jobs counted
	Jobs  map[string][]Job     // by node, those that hold something of it
	protocol.Waiting
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
	if _, busy, found := strings.Cut(rest, " LastBusyTime="); found {
		node.LastBusy, _, _ = strings.Cut(busy, " ")
	}
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
