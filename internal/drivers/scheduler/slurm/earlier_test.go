package slurm

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/noded/protocol"
)

func TestWhatHeadsOfOlderVersionsReportIsUnderstood(t *testing.T) {
	got, err := earlier([]byte(`{"nodes":[
		{"name":"n1","state":"idle","responding":true,"jobs":0,"last_busy":"Unknown"},
		{"name":"n2","state":"mixed","drain":true,"responding":true,"jobs":2,"reason":"muster: leaves"},
		{"name":"n3","state":"down","responding":false,"jobs":0,"reason":"Not responding"}],
		"waiting":[{"id":7,"tasks":1,"user":"ada","queues":["main"],"nodes":2,"cpus":2,"node_cpus":1,"since":"0001-01-01T00:00:00Z","reason":"Resources","grows":true}],"waits":3}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &protocol.Scheduler{
		Nodes: []protocol.NodeState{
			{Name: "n1", State: protocol.NodeFree, Responding: true, LastBusy: "Unknown", Raw: "idle"},
			{Name: "n2", State: protocol.NodeDraining, Responding: true, Jobs: 2, Reason: "muster: leaves", Raw: "mixed"},
			{Name: "n3", State: protocol.NodeLost, Reason: "Not responding", Raw: "down"},
		},
		Waiting: protocol.Waiting{Total: 3, Jobs: []protocol.WaitingJob{
			{ID: 7, Tasks: 1, User: "ada", Queues: []string{"main"}, Request: protocol.Request{Nodes: 2, CPUs: 2, NodeCPUs: 1},
				Reason: "Resources", Grows: true}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := earlier([]byte(`{"nodes":"n1"}`)); err == nil {
		t.Error("what is no report is understood")
	}
}
