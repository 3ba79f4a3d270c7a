package slurm

import (
	"encoding/json"
	"fmt"

	"muster/internal/noded/protocol"
)

// earlier reads what the heads of older versions report: Slurm's own words. Their agents run until their nodes boot again.
func earlier(report []byte) (*protocol.Scheduler, error) {
	var said struct {
		Nodes []struct {
			protocol.NodeState      // but for its state, which is Slurm's
			Drain              bool `json:"drain"`
		} `json:"nodes"`
		protocol.Waiting
	}
	if err := json.Unmarshal(report, &said); err != nil {
		return nil, fmt.Errorf("read an older version's report of Slurm: %w", err)
	}
	all := &protocol.Scheduler{Waiting: said.Waiting}
	for _, n := range said.Nodes {
		line := nodeLine{NodeState: n.NodeState, drain: n.Drain}
		line.Raw = string(n.State)
		line.State = line.state()
		all.Nodes = append(all.Nodes, line.NodeState)
	}
	return all, nil
}
