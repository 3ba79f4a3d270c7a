// Package scheduler is what Muster asks of a program that starts jobs on a cluster's nodes, whichever it is.
package scheduler

import "muster/internal/agent/protocol"

// View is what a scheduler says at one moment.
type View struct {
	Nodes []protocol.NodeState
	Jobs  map[string][]Job // by node, those that hold something of it
	protocol.Waiting
}

// Job is a job that is on nodes: it starts, runs, is suspended or ends.
type Job struct {
	ID   int
	Ends bool // by itself, already
}
