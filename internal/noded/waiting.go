package noded

import (
	"reflect"
	"slices"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
)

// tellJobs is the pause between two reports that tell only of jobs.
const tellJobs = time.Second

// worthTelling is what is reported of a view. Jobs may come and go faster than anyone wants to hear of: what is said of them
// waits for the next look, if it was news less than tellJobs ago.
func (h *headDuty) worthTelling(view scheduler.View) *protocol.Scheduler {
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

// sameWork says that two looks at a node differ in nothing that cannot wait for a moment.
func sameWork(a, b protocol.NodeState) bool {
	a.LastBusy = b.LastBusy
	return a == b
}
