package admission_test

import (
	"errors"
	"slices"
	"testing"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/spec"
)

// offered is a refusal's offer of a kind; the zero one if it has none.
func offered(r *admission.Refusal, kind admission.OfferKind) (o admission.Offer) {
	if i := slices.IndexFunc(r.Offers, func(o admission.Offer) bool { return o.Kind == kind }); i >= 0 {
		o = r.Offers[i]
	}
	return o
}

// dry is the refusal of a file, with what would be admitted instead. current is the cluster that it is of, if that runs.
func (d fixture) dry(text string, current *cluster.Cluster) *admission.Refusal {
	d.Helper()
	doc, err := spec.Parse("", []byte(text))
	if err != nil {
		d.Fatal(err)
	}
	var r *admission.Refusal
	if err := d.db.View(d.Context(), func(tx *core.Tx) error {
		plan := func(c spec.Cluster) (*admission.Plan, error) {
			if current != nil {
				return d.Change(d.Context(), tx, *current, c)
			}
			return d.Create(d.Context(), tx, c)
		}
		if _, err := plan(doc.Cluster); !errors.As(err, &r) {
			d.Fatalf("%s is not refused: %v", text, err)
		}
		return d.Instead(r, doc.Cluster, current != nil, plan)
	}); err != nil {
		d.Fatal(err)
	}
	return r
}

func TestWhatDoesNotFitIsRefusedWithWhatWould(t *testing.T) {
	d := newFixtureAt(t, t.TempDir()+"/db", alternatives,
		offer{"h1", 1, "amd64", machine.Available, ""}, offer{"h2", 1, "amd64", machine.Available, ""},
		offer{"b1", 8, "amd64", machine.Available, ""}, offer{"b2", 8, "amd64", machine.Available, ""},
		offer{"m1", 4, "amd64", machine.Available, ""}, offer{"m2", 4, "amd64", machine.Available, ""},
		offer{"m3", 4, "amd64", machine.Available, ""})
	fewer := func(queue string, nodes int, text string) admission.Offer {
		return admission.Offer{Kind: admission.FewerNodes, Queue: queue, Nodes: nodes, Text: text}
	}
	other := func(queue, class string) admission.Offer {
		return admission.Offer{Kind: admission.OtherClass, Queue: queue, Class: class,
			Text: "queue " + queue + " fits in another class: class: " + class}
	}
	for file, want := range map[string][]admission.Offer{
		"queues: [{name: cpu, nodes: 3}]": {fewer("cpu", 2, "2 nodes of queue cpu fit: nodes: 2"), other("cpu", "middle")},
		"nodes: 4":                        {fewer("main", 2, "2 nodes of queue main fit: nodes: 2")},
		"nodes: 3": {fewer("main", 2, "2 nodes of queue main fit: nodes: 2"), {Kind: admission.OtherClass, Queue: "main",
			Class: "middle", Text: "queue main fits in another class: queues: [{name: main, class: middle, nodes: 3}]"}},
		"queues: [{name: cpu, class: middle, nodes: 9}]":            {fewer("cpu", 3, "3 nodes of queue cpu fit: nodes: 3")},
		"queues: [{name: cpu, class: big, or: [middle], nodes: 9}]": {fewer("cpu", 5, "5 nodes of queue cpu fit: nodes: 5")},
		"queues: [{name: cpu, class: big, min: 3, max: 8}]": {fewer("cpu", 2, "2 nodes of queue cpu fit: min: 2"),
			other("cpu", "middle")},
		"queues: [{name: one, class: big, nodes: 1}, {name: cpu, class: big, nodes: 2}]": {
			fewer("cpu", 1, "1 node of queue cpu fits: nodes: 1"), other("cpu", "middle")},
		"queues: [{name: one, class: big, nodes: 2}, {name: cpu, class: big, nodes: 2}]": {other("cpu", "middle")},
		"queues: [{name: cpu, class: small, nodes: 1}]":                                  {other("cpu", "big")},
		"head: {class: big}\nqueues: [{name: cpu, class: middle, nodes: 4}]":             {fewer("cpu", 3, "3 nodes of queue cpu fit: nodes: 3")},
		"head: {class: small}\nnodes: 1":                                                 nil,
	} {
		if r := d.dry("name: cfd\n"+file+"\n", nil); !slices.Equal(r.Offers, want) {
			t.Errorf("%s: it is offered %+v, not %+v", file, r.Offers, want)
		}
	}
}

func TestARunningClusterIsOfferedAsManyNodesAsFit(t *testing.T) {
	d := newFixture(t, farm(6, 0)...).rules("")
	c := d.create("name: cfd\nnodes: 2\n")
	r := d.dry("name: cfd\nnodes: 8\n", &c)
	if o := offered(r, admission.FewerNodes); o.Nodes != 5 || len(r.Offers) != 1 {
		t.Errorf("%+v", r.Offers)
	}
	d.create("name: rest\nnodes: 2\n")
	if r := d.dry("name: cfd\nnodes: 8\n", &c); len(r.Offers) > 0 {
		t.Errorf("what it has is offered: %+v", r.Offers)
	}
}

// What fits by machines may be over the quota.
func TestWhatAQuotaLeavesIsOffered(t *testing.T) {
	d := newFixtureAt(t, t.TempDir()+"/db", limited, farm(12, 0)...)
	d.create("name: first\nnodes: 3\n")
	for _, file := range []string{"queues: [{name: one, nodes: 1}, {name: cpu, nodes: 6}]",
		"queues: [{name: one, nodes: 1}, {name: cpu, nodes: 20}]"} {
		r := d.dry("name: second\n"+file+"\n", nil)
		if o := offered(r, admission.FewerNodes); o.Queue != "cpu" || o.Nodes != 4 {
			t.Errorf("%s: %v: %+v", file, r, r.Offers)
		}
	}
}
