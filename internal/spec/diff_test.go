package spec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDiffNamesTheEffectOfEachChange(t *testing.T) {
	const base = "name: cfd\nqueues:\n  - {name: cpu, nodes: 4}\n  - {name: gpu, nodes: 2, class: h100x8}\n"
	for _, tc := range []struct{ name, before, after, want string }{
		{"nothing", base, base, ""},
		{"queues in another order", base,
			"name: cfd\nqueues:\n  - {name: gpu, nodes: 2, class: h100x8}\n  - {name: cpu, nodes: 4}\n", ""},
		{"the short form and the long one", "name: cfd\nnodes: 4\n", "name: cfd\nqueues:\n  - {name: main, min: 4, max: 4}\n",
			""},
		{"growing", base, strings.Replace(base, "nodes: 4", "nodes: 8", 1), `
			queues[cpu].min 4 → 8 live: new nodes join the running queue
			queues[cpu].max 4 → 8 live: new nodes join the running queue`},
		{"shrinking", base, strings.Replace(base, "nodes: 4", "nodes: 3", 1), `
			queues[cpu].min 4 → 3 live: only the nodes that are removed are drained, idle ones first; the others go on
			queues[cpu].max 4 → 3 live: only the nodes that are removed are drained, idle ones first; the others go on`},
		{"another image", base, base + "image: rocky9\n", `
			image debian13-hpc → rocky9 rolling: each node is drained and boots the new image, a few at a time`},
		{"another class", base, strings.Replace(base, "h100x8", "a100", 1), `
			queues[gpu].class h100x8 → a100 drains-queue: a node cannot change its machine under a running job: the queue is drained and gets new nodes`},
		{"a queue more", base, base + "  - {name: small, nodes: 1}\n", `
			queues[small]  → {name: small, class: epyc-ib, min: 1, max: 1, placement: any} live: the new queue joins the running cluster`},
		{"a queue less", base, "name: cfd\nqueues:\n  - {name: cpu, nodes: 4}\n", `
			queues[gpu] {name: gpu, class: h100x8, min: 2, max: 2, placement: any} →  drains-queue: its jobs end before its nodes go`},
		{"another head", base, base + "head: {class: big}\n", `
			head.class service → big never: the head holds the home directories and runs Slurm's controller; moving it would stop every job`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := mustResolve(t, mustParse(t, "", []byte(tc.before)).Cluster)
			after := mustResolve(t, mustParse(t, "", []byte(tc.after)).Cluster)
			var got strings.Builder
			for _, c := range Diff(before, after) {
				got.WriteString("\n\t\t\t" + c.Path + " " + c.Old + " → " + c.New + " " + string(c.Effect) + ": " + c.Why)
			}
			if diff := cmp.Diff(tc.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDiffKnowsWhatIsNotAvailableYet(t *testing.T) {
	yes := true
	old := Cluster{Name: "cfd", Storage: []Storage{{Mount: "/home", Size: "2TiB"}}, Lease: &Lease{For: "90m"},
		Access: &Access{Users: []string{"alice"}}}
	changed := Cluster{Name: "cfd", Storage: []Storage{{Mount: "/home", Size: "900GiB", Keep: &yes}}, Lease: &Lease{For: "5d"},
		Queues: []Queue{{Name: "small", VM: &VM{CPUs: 4, Memory: "8GiB", Devices: &Devices{GPU: 2, IB: 1}}}}}
	got := map[string]string{}
	for _, c := range Diff(old, changed) {
		got[c.Path] = c.Old + " → " + c.New + " " + string(c.Effect)
	}
	want := map[string]string{
		"queues[small]":       " → {name: small, vm: {cpus: 4, memory: 8GiB, devices: {gpu: 2, ib: 1}}} live",
		"storage[/home].size": "2TiB → 900GiB never",
		"storage[/home].keep": " → true live",
		"access.users":        "[alice] →  live",
		"lease.for":           "90m → 5d live",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
