package slurm

import (
	"fmt"
	"slices"
	"strings"

	"muster/internal/kit/pattern"
	"muster/internal/protocol"
)

// nodeLine is what one line says of a node: State is not yet what it is, as that depends on the node's jobs.
type nodeLine struct {
	protocol.NodeState
	drain bool
}

// runs says that Slurm's own word is one for a node with jobs.
func (n nodeLine) runs() bool {
	return slices.Contains([]string{"mixed", "allocated", "completing"}, n.Raw)
}

// state is what Slurm's own word means, now that the node's jobs are counted.
func (n nodeLine) state() protocol.State {
	works := n.runs() || n.Jobs > 0
	switch {
	case n.drain, n.runs(), n.Raw == "idle":
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
	node.LastBusy = word(rest, "LastBusyTime")
	gpus, err := gpusIn(word(rest, "Gres"))
	if err != nil {
		return nodeLine{}, err
	}
	node.Size.GPUs = gpus
	for key, into := range map[string]*int{"CPUTot": &node.Size.CPUs, "ThreadsPerCore": &node.Size.Threads,
		"RealMemory": &node.Size.Memory, "TmpDisk": &node.Size.Tmp} {
		if *into, err = number(word(rest, key)); err != nil {
			return nodeLine{}, err
		}
	}
	for i, flag := range flags {
		// A mark may follow any word; the star means that the node does not answer.
		word := strings.TrimRight(flag, "*~#!%$@^-")
		if strings.Contains(flag[len(word):], "*") {
			node.Responding = false
		}
		if strings.Contains(flag[len(word):], "^") || word == "REBOOT_ISSUED" {
			node.Reboots = true
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
	if !node.drain && (node.Raw == "idle" || node.runs()) { // Slurm 24.11 says why it once was not
		node.Reason = ""
	}
	return node, nil
}

// word is the value of a key in a line of scontrol; "" if it is not there or not set.
func word(line, key string) string {
	_, value, _ := strings.Cut(line, " "+key+"=")
	if value, _, _ = strings.Cut(value, " "); value == "(null)" || value == "N/A" {
		return ""
	}
	return value
}

// number is a count that may be missing, or "*" for any.
func number(text string) (int, error) {
	if text == "" || text == "*" {
		return 0, nil
	}
	return count(text)
}

// gpusIn counts the GPUs in a list of generic resources: gres:gpu:a40:2,gpu:1(S:0-1), or gres/gpu=2 of newer versions.
func gpusIn(list string) (int, error) {
	all := 0
	for _, entry := range strings.Split(list, ",") {
		entry, _, _ = strings.Cut(entry, "(")
		entry = strings.TrimPrefix(strings.TrimPrefix(entry, "gres:"), "gres/")
		parts := strings.FieldsFunc(entry, func(r rune) bool { return r == ':' || r == '=' })
		if len(parts) == 0 || parts[0] != "gpu" {
			continue
		}
		n := 1
		if last := parts[len(parts)-1]; len(parts) == 3 || len(parts) == 2 && last[0] >= '0' && last[0] <= '9' {
			var err error
			if n, err = number(last); err != nil {
				return 0, err
			}
		}
		all += n
	}
	return all, nil
}

// author is the " [user@time]" that Slurm puts behind a reason, with what may follow it on the line.
var author = pattern.New(`^(.*) \[\S+@\S+\](?: Comment=.*)?$`)

// cutAuthor leaves the reason alone.
func cutAuthor(reason string) string {
	if found := author.FindStringSubmatch(reason); found != nil {
		return found[1]
	}
	return reason
}
