package agent

import (
	"reflect"
	"slices"
	"time"

	"muster/internal/agent/protocol"
	"muster/internal/drivers/scheduler"
)

// tellJobs is the pause between two reports that tell only of jobs.
const tellJobs = time.Second

// slurmOf is what is reported of a view. Jobs may come and go faster than anyone wants to hear of: what is said of them
// waits for the next look, if it was news less than tellJobs ago.
func (h *headDuty) slurmOf(view scheduler.View) *protocol.Scheduler {
	now := &protocol.Scheduler{Nodes: view.Nodes, Waiting: view.Waiting}
	if now.Nodes == nil {
		now.Nodes = []protocol.NodeState{} // none yet is another answer than no answer
	}
	switch {
	case h.told == nil || !slices.EqualFunc(h.told.Nodes, now.Nodes, sameWork):
	case reflect.DeepEqual(h.told, now), time.Since(h.toldAt) < tellJobs:
		return h.told
	}
	h.told, h.toldAt = now, time.Now()
	return now
}

// fresh names the nodes that can take jobs since this look.
func (h *headDuty) fresh(view scheduler.View) []string {
	var fresh []string
	usable := map[string]bool{}
	for _, n := range view.Nodes {
		if n.Usable() {
			usable[n.Name] = true
			if !h.usable[n.Name] {
				fresh = append(fresh, n.Name)
			}
		}
	}
	h.usable = usable
	return fresh
}

// sameWork says that two looks at a node differ in nothing that cannot wait for a moment.
func sameWork(a, b protocol.NodeState) bool {
	a.LastBusy = b.LastBusy
	return a == b
}
