package slurm

import (
	"fmt"
	"slices"
	"strings"

	"muster/internal/noded/protocol"
)

// nodeLine is what one line says of a node: State is not yet what it is, as that depends on the node's jobs.
type nodeLine struct {
	protocol.NodeState
	drain bool
}

// state is what Slurm's own word means, now that the node's jobs are counted.
func (n nodeLine) state() protocol.State {
	running := slices.Contains([]string{"mixed", "allocated", "completing"}, n.Raw)
	works := running || n.Jobs > 0
	switch {
	case n.drain, running, n.Raw == "idle":
		return protocol.StateOf(n.drain, works)
	// slurmctld's own words; who takes a node down has others.
	case n.Raw == "down" && !n.Responding && n.Reason == "Not responding":
		return protocol.NodeLost
	case n.Raw == "down":
		return protocol.NodeDown
	}
	return protocol.NodeUnknown
}

// parseNodes reads `scontrol show nodes -o`: a line a node, words of key=value; the reason is the last and may contain
// anything.
func parseNodes(text string) ([]nodeLine, error) {
	var nodes []nodeLine
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

func parseNode(line string) (nodeLine, error) {
	head, reason, _ := strings.Cut(line, " Reason=")
	name, found := strings.CutPrefix(head, "NodeName=")
	name, rest, _ := strings.Cut(name, " ")
	_, state, hasState := strings.Cut(rest, " State=")
	state, _, _ = strings.Cut(state, " ")
	if !found || !hasState || name == "" || state == "" {
		return nodeLine{}, fmt.Errorf("not a line of scontrol show nodes: %.60q", line)
	}
	node := nodeLine{NodeState: protocol.NodeState{Name: name, Responding: true, Reason: cutAuthor(reason)}}
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
			node.Raw = strings.ToLower(word)
		case word == "DRAIN":
			node.drain = true
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
