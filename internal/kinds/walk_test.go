package kinds_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/internal/api"
	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/kinds"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kinds/snapshot"
)

// walk leads a whole control plane, from its API down to a fake substrate, through random operations: what users and
// operators ask for, jobs that come and go, nodes that fail in every way, controllers that are killed and joined by others.
// After each step it looks at what must always be true (look), now and then whether everything comes to what was asked for
// (settle), and at the end that nothing is left.
type walk struct {
	*fixture
	rnd        *rand.Rand
	url        string
	api        http.Handler
	fakeAgents *fakeAgents
	engines    []*replica
	done       map[string]int // operation → times that it was accepted or had an effect
	refused    map[string]int
}

// replica is one controller; on PostgreSQL with a store of its own, so that it can die with its claims.
type replica struct {
	db   *core.Store
	stop context.CancelFunc
	over chan error
}

const (
	walkMachines = 16
	walkQuota    = 13 // nodes of the project
)

// TestRandomOperationsKeepEveryPromise repeats a walk with MUSTER_SEED, and lengthens it with MUSTER_OPERATIONS.
// What happens at the same time is up to the machine, so the same seed asks for the same things, not at the same instants.
func TestRandomOperationsKeepEveryPromise(t *testing.T) {
	t.Parallel()
	kindstest.Each(t, func(t *testing.T, url string) {
		seed, operations := setting(t, "MUSTER_SEED", uint64(time.Now().UnixNano())), setting(t, "MUSTER_OPERATIONS", 50)
		t.Logf("MUSTER_SEED=%d MUSTER_OPERATIONS=%d", seed, operations)
		w := newWalk(t, url, seed)
		w.eventually("free machines", w.unsettled)
		for i := range operations {
			w.step()
			w.look()
			if i%50 == 49 {
				w.settle()
				kindstest.Metered(w.T, w.db)
			}
			if t.Failed() {
				t.FailNow()
			}
			time.Sleep(time.Duration(w.rnd.IntN(120)) * time.Millisecond)
		}
		w.end()
		t.Logf("done: %v\nrefused: %v", w.done, w.refused)
	})
}

func setting(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func newWalk(t *testing.T, url string, seed uint64) *walk {
	s := newFixture(t, url, walkMachines)
	s.admission.Images = shelf{[]string{"debian13-hpc", "new", "newer", "broken"}}
	s.admission.Catalogue.Projects = map[string]inventory.Project{"default": {Quota: inventory.Quota{Nodes: new(walkQuota)}}}
	s.charge(1)
	s.judging()
	s.limit(func(l *substrate.Deadlines) {
		l.Silence, l.Boot, l.Halt, l.KillGrace = 3*time.Second, 3*time.Second, 2*time.Second, time.Second
	})
	a := &api.API{DB: s.db, Admission: s.admission, Authority: s.deps.Authority, Log: slog.New(slog.DiscardHandler)}
	handler, err := a.Handler()
	if err != nil {
		t.Fatal(err)
	}
	w := &walk{fixture: s, rnd: rand.New(rand.NewPCG(seed, 0)), url: url, api: handler, done: map[string]int{},
		refused: map[string]int{}}
	w.fakeAgents = newFakeAgents(s)
	w.background()
	w.join()
	return w
}

// background starts what runs beside the engines in every controller.
func (w *walk) background() {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{}, 2)
	go func() { w.fakeAgents.play(ctx); over <- struct{}{} }()
	go func() {
		kinds.Sweep(ctx, w.deps, 300*time.Millisecond, slog.New(slog.DiscardHandler))
		over <- struct{}{}
	}()
	w.Cleanup(func() { cancel(); <-over; <-over })
	w.watch()
}

// join adds a controller.
func (w *walk) join() {
	deps, own := w.deps, w.db
	if w.db.Shared() {
		own = kindstest.Open(w.T, w.url)
		deps.DB = own
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &replica{own, cancel, make(chan error, 1)}
	engine := kinds.NewEngine(core.NewID("e"), deps, slog.New(slog.DiscardHandler))
	ended := make(chan struct{})
	go func() { r.over <- kindstest.Run(ctx, engine); close(ended) }()
	w.Cleanup(func() { cancel(); <-ended }) // before its store is closed
	w.engines = append(w.engines, r)
}

// leave ends a controller; one that is killed takes its claims with it.
func (w *walk) leave(kill bool) {
	i := w.rnd.IntN(len(w.engines))
	r := w.engines[i]
	w.engines = slices.Delete(w.engines, i, i+1)
	if kill && r.db != w.db {
		_ = r.db.Close()
	}
	r.stop()
	if err := <-r.over; err != nil && !kill {
		w.Errorf("a controller ended: %v", err)
	}
}

// request is what a user or an operator sends; what is refused must have changed nothing.
func (w *walk) request(what, method, path, body string) {
	before := w.intent()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+kindstest.Token)
	if body != "" {
		r.Header.Set("Content-Type", "application/yaml")
		if strings.HasPrefix(body, "{") {
			r.Header.Set("Content-Type", "application/json")
		}
	}
	answer := httptest.NewRecorder()
	w.api.ServeHTTP(answer, r)
	w.Logf("%s %s %s: %d %s", method, path, strings.ReplaceAll(strings.TrimSpace(body), "\n", "; "), answer.Code, refusal(answer))
	switch {
	case answer.Code >= 500:
		w.Errorf("%s failed: %s", what, answer.Body)
	case answer.Code >= 400:
		w.refused[what]++
		for id, after := range w.intent() { // what has gone meanwhile, has gone by itself
			if before[id] != after {
				w.Errorf("a refused request has changed %s from %q to %q", id, before[id], after)
			}
		}
	default:
		w.done[what]++
	}
}

func refusal(answer *httptest.ResponseRecorder) string {
	if answer.Code < 400 {
		return ""
	}
	return answer.Body.String()
}

// intent is what only requests change, by whose it is.
func (w *walk) intent() map[string]string {
	all := map[string]string{}
	w.view(func(ctx context.Context, tx *core.Tx) error {
		clusters, err := cluster.List(ctx, tx, "")
		if err != nil {
			return err
		}
		for _, c := range clusters {
			file, err := json.Marshal(c.Spec)
			if err != nil {
				return err
			}
			all[c.ID] = fmt.Sprintf("generation %d from %s to %s: %s", c.Generation, c.StartsAt, c.EndsAt, file)
		}
		snapshots, err := snapshot.List(ctx, tx, "")
		if err != nil {
			return err
		}
		for _, s := range snapshots {
			all[s.ID] = string(s.Desired)
		}
		machines, err := machine.List(ctx, tx)
		for _, m := range machines {
			all[m.ID] = string(m.Desired)
		}
		return err
	})
	return all
}

// exists says whether there is a cluster of a name.
func (w *walk) exists(name string) (there bool) {
	w.view(func(ctx context.Context, tx *core.Tx) error {
		clusters, err := cluster.List(ctx, tx, "")
		for _, c := range clusters {
			there = there || c.Name == name && c.Desired != core.ToDelete
		}
		return err
	})
	return there
}

// step does one random thing.
func (w *walk) step() {
	name := []string{"a", "b", "c", "d"}[w.rnd.IntN(4)]
	cluster := "/v1/clusters/" + name
	drain := []string{"?drain_timeout=1s", "?drain_timeout=200ms", "?drain_timeout=500ms"}[w.rnd.IntN(3)]
	// Rarely a drain is without limit: the jobs end some time.
	if w.rnd.IntN(6) == 0 {
		drain = "?"
	}
	if !w.exists(name) && w.rnd.IntN(10) < 7 {
		w.request("create", "POST", "/v1/clusters", w.file(name))
		return
	}
	choices := []struct {
		weight int
		do     func()
	}{
		{3, func() { w.request("create", "POST", "/v1/clusters", w.file(name)) }},
		{5, func() { w.request("copy", "POST", "/v1/clusters?from_snapshot=s"+w.digit(2), w.file(name)) }},
		{14, func() { w.request("apply", "PUT", cluster+drain, w.file(name)) }},
		{12, func() {
			w.request("scale", "POST", cluster+"/scale"+drain, `{"queue": "cpu", "nodes": `+w.digit(6)+`}`)
		}},
		{4, func() {
			w.request("rollout", "POST", cluster+"/rollout", w.one(`{"action": "back"}`, `{"action": "resume"}`))
		}},
		{9, func() { w.request("pause", "POST", cluster+"/pause"+w.one("", "?on_jobs=wait", drain), "") }},
		{14, func() { w.request("resume", "POST", cluster+"/resume", "") }},
		{8, func() {
			w.request("extend", "POST", cluster+"/extend", `{"for": "`+strconv.Itoa(1+w.rnd.IntN(9))+`s"}`)
		}},
		{8, func() { w.request("delete", "DELETE", cluster, "") }},
		{8, func() { w.request("snapshot", "POST", cluster+"/snapshots", `{"name": "s`+w.digit(2)+`"}`) }},
		{3, func() { w.request("forget", "DELETE", "/v1/snapshots/s"+w.digit(2), "") }},
		{3, func() {
			w.request("quarantine", "POST", "/v1/machines/"+w.machine()+"/quarantine", `{"reason": "it smells"}`)
		}},
		{2, func() { w.request("maintain", "POST", "/v1/machines/"+w.machine()+"/maintain", "") }},
		{4, func() { w.request("free", "POST", "/v1/machines/"+w.machine()+"/free", "") }},
		{2, func() { w.request("inspect", "POST", "/v1/machines/"+w.machine()+"/inspect", "") }},
		{14, func() { w.fault() }},
		{14, func() {
			w.fakeAgents.submit(name, 1+w.rnd.IntN(3), time.Duration(w.rnd.IntN(1500))*time.Millisecond)
			w.done["job"]++
		}},
		{9, func() { w.controllers() }},
	}
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	at := w.rnd.IntN(total)
	for _, c := range choices {
		if at -= c.weight; at < 0 {
			c.do()
			return
		}
	}
}

func (w *walk) one(of ...string) string { return of[w.rnd.IntN(len(of))] }

func (w *walk) digit(below int) string { return strconv.Itoa(w.rnd.IntN(below)) }

// file is a random cluster file.
func (w *walk) file(name string) string {
	text := "name: " + name + "\n"
	switch w.rnd.IntN(3) {
	case 0:
		text += "queues:\n  - {name: cpu, min: " + w.digit(2) + ", max: " + strconv.Itoa(2+w.rnd.IntN(4)) + ", idle_after: 1s}\n"
	case 1:
		text += "queues:\n  - {name: cpu, min: 1, max: 1}\n  - {name: more, min: " + w.digit(2) + ", max: 2, idle_after: 2s}\n"
	default:
		text += "queues:\n  - {name: cpu, min: " + w.digit(5) + ", max: 4, idle_after: 1s}\n"
	}
	text += "image: " + w.one("debian13-hpc", "debian13-hpc", "debian13-hpc", "debian13-hpc", "new", "new", "newer", "broken") +
		"\n"
	switch w.rnd.IntN(4) {
	case 0:
		text += "lease: {for: " + strconv.Itoa(3+w.rnd.IntN(12)) + "s, on_end: " + w.one("delete", "pause") + "}\n"
	case 1:
		if w.rnd.IntN(3) == 0 {
			text += "lease: {start: +" + strconv.Itoa(1+w.rnd.IntN(4)) + "s, for: " + strconv.Itoa(3+w.rnd.IntN(8)) +
				"s, on_end: " + w.one("delete", "pause") + "}\n"
		}
	}
	if w.rnd.IntN(4) == 0 {
		text += "budget: {limit: " + strconv.Itoa(5+w.rnd.IntN(60)) + " EUR, on_limit: " + w.one("pause", "warn") + "}\n"
	}
	return text
}

func (w *walk) machine() (name string) {
	w.view(func(ctx context.Context, tx *core.Tx) error {
		machines, err := machine.List(ctx, tx)
		name = machines[w.rnd.IntN(len(machines))].Name
		return err
	})
	return name
}

// fault strikes a random node.
func (w *walk) fault() {
	var nodes []node.Node
	w.view(func(ctx context.Context, tx *core.Tx) (err error) {
		nodes, err = node.List(ctx, tx)
		return err
	})
	if len(nodes) == 0 {
		return
	}
	n := nodes[w.rnd.IntN(len(nodes))]
	kind := w.one("stops", "loses power", "does not start", "starts slowly", "falls silent", "falls silent", "falls ill",
		"is slow")
	w.Logf("%s/%s on %s %s", n.Cluster, n.Name, n.Machine, kind)
	w.done[kind]++
	switch kind {
	case "stops":
		w.substrate.Die(substrate.Ref{Cluster: n.Cluster, Node: n.ID, Boot: n.Boot}, "killed")
	case "loses power":
		w.substrate.DieWithMachine(n.Machine)
	case "does not start":
		w.substrate.FailEnsure(n.ID, 1+w.rnd.IntN(3), nil)
	case "starts slowly":
		time.AfterFunc(time.Duration(w.rnd.IntN(1000))*time.Millisecond, w.substrate.HangEnsure(n.ID))
	case "falls silent":
		w.fakeAgents.say(n.ID, silent)
	case "falls ill":
		w.fakeAgents.say(n.ID, ill)
	case "is slow":
		w.fakeAgents.slow(n.Machine)
	}
	w.update(func(_ context.Context, tx *core.Tx) error { tx.Wake(node.Kind, n.ID); return nil })
}

// controllers lets one come or go. At least one stays, or comes at once for the one that went.
func (w *walk) controllers() {
	switch {
	case len(w.engines) < 3 && w.db.Shared() && w.rnd.IntN(2) == 0:
		w.done["join"]++
		w.join()
	default:
		w.done["leave"]++
		w.leave(w.rnd.IntN(2) == 0)
		if len(w.engines) == 0 {
			w.join()
		}
	}
}
