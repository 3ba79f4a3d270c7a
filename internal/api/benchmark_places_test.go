package api_test

import (
	"context"
	"strings"
	"testing"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/external"
)

// TestARunOnAnExternalCluster: a registered cluster is a place for benchmarks as Muster's own are, for those who may log in
// there, in the queues of their project, on as many nodes as they say.
func TestARunOnAnExternalCluster(t *testing.T) {
	ask, db := withNode(t)
	register := func(name, system string, queues ...external.Queue) {
		update(t, db, func(ctx context.Context, tx *core.Tx) error {
			c := external.Cluster{Name: name, Login: "arc.example.org:22", HostKeys: []string{"ssh-ed25519 AAAA"},
				Probe: "muster", Accounts: map[string]string{"member": "m.smith"},
				Projects: []external.Project{{Project: "aero", Queues: []string{"cpu", "old"}, Rule: external.ListedAccount}}}
			if err := external.Add(ctx, tx, c); err != nil {
				return err
			}
			if system == "" {
				return nil
			}
			c, err := external.Get(ctx, tx, name)
			if err != nil {
				return err
			}
			return external.SaveSeen(ctx, tx, c, system, queues)
		})
	}
	register("arc", "Slurm 23.11.4", external.Queue{Name: "gpu", Up: true, Nodes: 9, Cores: 8},
		external.Queue{Name: "cpu", Up: true, Nodes: 512, Cores: 32, MemoryMiB: 128000},
		external.Queue{Name: "old", Up: true, Nodes: 2})
	register("pbs", "PBS 19.1.2", external.Queue{Name: "cpu", Up: true, Nodes: 4})
	register("new", "")
	const path = "/v1/clusters/arc/benchmarks"
	one := read[apiv1.Benchmark](t, ask("POST", path, `{"suite": "stream", "nodes": 4}`, "member"))
	if want := (apiv1.BenchmarkNodes{Nodes: 4, Cores: 32, MemoryMiB: 128000}); one.On != want || one.Cluster != "arc" ||
		one.ClusterID != bench.AtExternal("arc", "aero") || one.Project != "aero" || one.Queue != "cpu" {
		t.Errorf("%+v", one)
	}
	list := read[apiv1.List[apiv1.Suite]](t, ask("GET", "/v1/suites?cluster=aero/arc", "", "viewer"))
	if want := (apiv1.BenchmarkNodes{Nodes: 1, Cores: 32, MemoryMiB: 128000}); list.Items[0].On != want {
		t.Errorf("%+v", list.Items[0].On)
	}
	for name, runs := range map[string]int{"arc": 1, "pbs": 0} {
		got := read[apiv1.List[apiv1.Benchmark]](t, ask("GET", "/v1/benchmarks?cluster="+name, "", "viewer"))
		if len(got.Items) != runs {
			t.Errorf("%s: %+v", name, got.Items)
		}
	}
	for _, c := range []struct {
		path, body, who, want string
		status                int
	}{
		{path, `{}`, "member", "queue cpu of external cluster arc has 512 nodes: say on how many it is to run", 422},
		{path, `{"nodes": 513}`, "member", "queue cpu of external cluster arc has 512 nodes", 422},
		{path, `{"nodes": 1, "queue": "gpu"}`, "member", `external cluster arc has no queue \"gpu\" that is open to project aero`, 422},
		{path, `{"nodes": 1, "queue": "old"}`, "member", "it is not known how large the nodes of queue old", 409},
		{path, `{"nodes": 1}`, "owner", "owner has no account at external cluster arc", 403},
		{path, `{"nodes": 1}`, "viewer", "viewer", 403},
		{path, `{"nodes": 1}`, "nobody", "not", 404},
		{"/v1/clusters/pbs/benchmarks", `{"nodes": 1}`, "member",
			"external cluster pbs has PBS 19.1.2, and jobs are begun where there is ", 409},
		{"/v1/clusters/new/benchmarks", `{"nodes": 1}`, "member", "external cluster new has not answered yet", 409},
	} {
		if got := ask("POST", c.path, c.body, c.who); got.status != c.status || !strings.Contains(got.text, c.want) {
			t.Errorf("%s of %s at %s: %d %s", c.body, c.who, c.path, got.status, got.text)
		}
	}
}
