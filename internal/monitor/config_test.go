package monitor

import (
	"testing"

	"muster/internal/agent/protocol"
	"muster/internal/store"
)

func TestAHeadIsToldItsPartInAPause(t *testing.T) {
	for _, test := range []struct {
		name          string
		phase         store.Phase
		keeps, leaves bool
		want          protocol.PauseStep
	}{
		{"no pause", store.Ready, false, false, ""},
		{"jobs are queued again", store.Pausing, false, false, protocol.PauseCheckpoint},
		{"its nodes are gone", store.Pausing, false, true, protocol.PauseHalt},
		{"its nodes are to sleep", store.Pausing, true, false, ""},
		{"its nodes sleep when it has gone", store.Pausing, true, true, protocol.PauseSleep},
		{"a delete", store.Deleting, true, true, ""},
	} {
		head := store.Node{Role: protocol.Head, Desired: store.Present}
		if test.leaves {
			head.Desired = store.Absent
		}
		c := store.Cluster{KeepsMemory: test.keeps, Life: store.Life{Phase: test.phase}}
		if got := pauseStep(c, head); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
