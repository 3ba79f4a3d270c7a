package monitor

import (
	"encoding/json"
	"testing"

	"muster/internal/drivers"
	"muster/internal/kinds/cluster"
	"muster/internal/noded/protocol"
	"muster/internal/spec"
)

// A head whose agent came with an older version reports the scheduler's own words, until its node boots again.
func TestAnOlderHeadIsHeard(t *testing.T) {
	m := &Monitor{Schedulers: drivers.Schedulers()}
	var report protocol.Report
	if err := json.Unmarshal([]byte(`{"boot":1,"slurm":{"nodes":[{"name":"n1","state":"allocated","responding":true,"jobs":1}],"waits":2}}`), &report); err != nil {
		t.Fatal(err)
	}
	said := m.earlier(cluster.Cluster{Spec: spec.Cluster{Name: "cfd"}}, report)
	if said == nil || len(said.Nodes) != 1 || said.Nodes[0].State != protocol.NodeBusy || said.Total != 2 {
		t.Errorf("heard is %+v", said)
	}
	if said := m.earlier(cluster.Cluster{Spec: spec.Cluster{Software: &spec.Software{Scheduler: "none"}}}, report); said != nil {
		t.Errorf("of a cluster without a scheduler, heard is %+v", said)
	}
	if said := m.earlier(cluster.Cluster{Spec: spec.Cluster{Name: "cfd"}}, protocol.Report{}); said != nil {
		t.Errorf("of a node that says nothing of it, heard is %+v", said)
	}
}
