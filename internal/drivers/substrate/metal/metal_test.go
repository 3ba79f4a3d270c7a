package metal_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"muster/internal/drivers/power"
	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/metal"
	"muster/internal/drivers/substrate/substratetest"
	"muster/internal/inventory"
	"muster/internal/protocol"
)

// networks is a ledger and the switches of its machines, in memory.
type networks struct {
	mu      sync.Mutex
	boots   map[string]substrate.Boot // by machine
	highest map[string]int64          // by subject
	on      map[string]bool           // by machine
	stuck   map[string]bool           // machines that do not let themselves be switched
	slow    map[string]int            // looks at machines for which they stay on after they were told to be off
	since   map[string]time.Time      // machines that are told to be off
	offs    int                       // times that a machine went from on to off
}

func newTestbed() *networks {
	return &networks{boots: map[string]substrate.Boot{}, highest: map[string]int64{}, on: map[string]bool{},
		stuck: map[string]bool{}, slow: map[string]int{}, since: map[string]time.Time{}}
}

func (l *networks) driver() *metal.Driver {
	return metal.New(metal.Config{Ledger: l, Power: func(m substrate.Machine) (power.Driver, error) {
		return control{l, m.ID}, nil
	}})
}

func (l *networks) Machine(_ context.Context, ref string) (substrate.Machine, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return substrate.Machine{Machine: inventory.Machine{ID: ref, Name: ref}, OffSince: l.since[ref]}, nil
}

func (l *networks) WaitForOff(_ context.Context, machine string, waits bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !waits:
		delete(l.since, machine)
	case l.since[machine].IsZero():
		l.since[machine] = time.Now()
	}
	return nil
}

func (l *networks) BootOn(_ context.Context, machine string) (substrate.Boot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.boots[machine]
	if !ok {
		return b, substrate.ErrNoBoot
	}
	return b, nil
}

func (l *networks) BootOf(_ context.Context, subject string) (substrate.Boot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.boots {
		if b.Subject == subject {
			return b, nil
		}
	}
	return substrate.Boot{}, substrate.ErrNoBoot
}

func (l *networks) Begin(_ context.Context, b substrate.Boot) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.Number < l.highest[b.Subject] {
		return substrate.ErrStale
	}
	l.highest[b.Subject] = b.Number
	l.boots[b.Machine] = b
	return nil
}

func (l *networks) change(subject string, number int64, f func(machine string, b substrate.Boot)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for machine, b := range l.boots {
		if b.Subject == subject && b.Number <= number {
			f(machine, b)
		}
	}
	return nil
}

func (l *networks) Powered(_ context.Context, b substrate.Boot) error {
	return l.change(b.Subject, b.Number, func(machine string, b substrate.Boot) { b.Powered = time.Now(); l.boots[machine] = b })
}

func (l *networks) End(context.Context, string, int64) error { return nil }

func (l *networks) Drop(_ context.Context, subject string, number int64) error {
	return l.change(subject, number, func(machine string, _ substrate.Boot) {
		delete(l.boots, machine)
		if number == math.MaxInt64 {
			delete(l.highest, subject)
		}
	})
}

func (l *networks) Nodes(context.Context) ([]substrate.Ref, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var refs []substrate.Ref
	for machine, b := range l.boots {
		if b.Subject != machine {
			cluster, _, _ := cut(b.Subject)
			refs = append(refs, substrate.Ref{Cluster: cluster, Node: b.Subject, Boot: b.Number})
		}
	}
	return refs, nil
}

// cut takes the cluster off a node's ID as the contract makes it: "c1-node-2".
func cut(node string) (cluster, rest string, ok bool) { return node[:2], node[2:], true }

// control switches one machine.
type control struct {
	*networks
	machine string
}

func (c control) State(context.Context) (power.State, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on[c.machine] {
		return power.On, nil
	}
	if c.slow[c.machine] > 0 {
		c.slow[c.machine]--
		return power.On, nil
	}
	return power.Off, nil
}

func (c control) set(on bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stuck[c.machine] {
		return errors.New("the BMC does not answer")
	}
	if c.on[c.machine] && !on {
		c.offs++
	}
	c.on[c.machine] = on
	return nil
}

func (c control) On(context.Context) error              { return c.set(true) }
func (c control) Off(context.Context) error             { return c.set(false) }
func (c control) BootFromNetwork(context.Context) error { return power.ErrUnsupported }

// open makes the driver as a site does.
func (l *networks) open(t *testing.T) substrate.Substrate {
	t.Helper()
	opened, err := metal.Factory().Open(t.Context(), substrate.Env{Boots: l, Images: anyImage{}, Keys: noKeys{},
		Power: func(m substrate.Machine) (power.Driver, error) { return control{l, m.ID}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// anyImage is a store with an image of every name.
type anyImage struct{}

func (anyImage) Named(name string) (string, error)          { return "sha256:" + name, nil }
func (anyImage) Files(string) (substrate.ImageFiles, error) { return substrate.ImageFiles{}, nil }

type noKeys struct{}

func (noKeys) AgentsPEM() string { return "" }

// find is what the agent of a machine does that has booted the inspector: it comes, and tells what it finds.
func (l *networks) find(t *testing.T, m inventory.Machine) {
	facts, err := json.Marshal(inventory.Facts{Arch: "amd64", CPUs: 2, MemoryMiB: 1024})
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if b, boots := l.boots[m.ID]; boots && l.on[m.ID] && b.Subject == m.ID {
		b.Joined, b.Key, b.Findings = true, "key", &protocol.Findings{Done: true, Facts: facts}
		l.boots[m.ID] = b
	}
}

func TestContract(t *testing.T) {
	substratetest.Test(t, func(t *testing.T) substratetest.Harness {
		l := newTestbed()
		opened := l.open(t)
		return substratetest.Harness{
			Caps: metal.Factory().Caps, Substrate: opened, Inspector: opened.(substrate.Inspector),
			HypervisorBooter: opened.(substrate.HypervisorBooter), Image: "sha256:00",
			Kernel: func(t *testing.T, r substrate.Ref) string {
				b, err := l.BootOf(t.Context(), r.Node)
				if err != nil {
					t.Fatal(err)
				}
				return b.Image
			},
			CPUs: func(t *testing.T, r substrate.Ref) []string {
				b, err := l.BootOf(t.Context(), r.Node)
				if err != nil {
					t.Fatal(err)
				}
				return []string{b.Machine}
			},
			Powered: func(t *testing.T, r substrate.Ref) bool {
				b, err := l.BootOf(t.Context(), r.Node)
				if err != nil {
					t.Fatal(err)
				}
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.on[b.Machine]
			},
			Agent: l.find,
			Crash: func(t *testing.T, r substrate.Ref) {
				b, err := l.BootOf(t.Context(), r.Node)
				if err != nil {
					t.Fatal(err)
				}
				_ = control{l, b.Machine}.Off(t.Context())
				b.Powered = b.Powered.Add(-time.Hour) // it has run for a while
				l.mu.Lock()
				defer l.mu.Unlock()
				l.boots[b.Machine] = b
			},
			HalfMake: func(t *testing.T, n substrate.Node) {
				if err := l.Begin(t.Context(), substrate.Boot{Machine: n.Machine, Subject: n.Node, Number: n.Boot}); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

func TestAMachineThatIsOnIsSwitchedOffBeforeItBoots(t *testing.T) {
	l := newTestbed()
	l.on["m1"] = true
	n := substrate.Node{Ref: substrate.Ref{Cluster: "c1", Node: "c1-node-1", Boot: 1}, Machine: "m1"}
	for range 3 {
		if err := l.driver().Ensure(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if l.offs != 1 || !l.on["m1"] {
		t.Errorf("switched off %d times, is on: %v", l.offs, l.on["m1"])
	}
}

func TestATokenStandsNowhere(t *testing.T) {
	l := newTestbed()
	n := substrate.Node{Ref: substrate.Ref{Cluster: "c1", Node: "c1-node-1", Boot: 1}, Machine: "m1",
		File: protocol.BootFile{Node: "x", Token: "secret"}}
	if err := l.driver().Ensure(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if b := l.boots["m1"]; b.File.Token != "" || b.File.Node != "x" {
		t.Errorf("%+v", b.File)
	}
}

func TestAMachineThatCannotBeSwitchedOffIsKeptOnlyIfTheNodeRanThere(t *testing.T) {
	for _, joined := range []bool{false, true} {
		l := newTestbed()
		l.on["m1"], l.stuck["m1"] = true, true
		l.boots["m1"] = substrate.Boot{Machine: "m1", Subject: "c1-node-1", Number: 1, Joined: joined}
		err := l.driver().Remove(t.Context(), substrate.Ref{Node: "c1-node-1"})
		if _, kept := l.boots["m1"]; kept != joined || (err != nil) != joined {
			t.Errorf("joined %v: kept %v, %v", joined, kept, err)
		}
	}
}

func TestAFreeMachineIsOff(t *testing.T) {
	l := newTestbed()
	l.on["m1"] = true
	for _, want := range []bool{true, false} {
		found, err := l.driver().EnsureOff(t.Context(), inventory.Machine{Name: "m1"})
		if err != nil || (found != "") != want || l.on["m1"] {
			t.Errorf("%q, %v, on: %v", found, err, l.on["m1"])
		}
	}
	l.on["m1"], l.boots["m1"] = true, substrate.Boot{Machine: "m1", Subject: "c1-node-1", Number: 1}
	if found, err := l.driver().EnsureOff(t.Context(), inventory.Machine{Name: "m1"}); found != "" || err != nil || !l.on["m1"] {
		t.Errorf("a node's machine was touched: %q, %v", found, err)
	}
}

// TestToGoOffIsAWaitThatHoldsNobody: a handler says "off" and goes, and one that comes later looks.
func TestToGoOffIsAWaitThatHoldsNobody(t *testing.T) {
	n := substrate.Node{Ref: substrate.Ref{Cluster: "c1", Node: "c1-node-1", Boot: 1}, Machine: "m1"}
	for what, step := range map[string]func(*metal.Driver) error{
		"boot":   func(d *metal.Driver) error { return d.Ensure(t.Context(), n) },
		"remove": func(d *metal.Driver) error { return d.Remove(t.Context(), n.Ref) },
		"rest": func(d *metal.Driver) error {
			_, err := d.EnsureOff(t.Context(), inventory.Machine{Name: "m1"})
			return err
		},
		"host": func(d *metal.Driver) error { return d.End(t.Context(), inventory.Machine{ID: "m1", Name: "m1"}) },
	} {
		l := newTestbed()
		l.on["m1"], l.slow["m1"] = true, 2
		switch what {
		case "remove":
			l.boots["m1"] = substrate.Boot{Machine: "m1", Subject: n.Node, Number: 1, Joined: true}
		case "host":
			l.boots["m1"] = substrate.Boot{Machine: "m1", Subject: "m1", Number: 1, Joined: true}
		}
		if err := step(l.driver()); !errors.Is(err, substrate.ErrUnderway) || l.since["m1"].IsZero() {
			t.Errorf("%s: %v, since %s", what, err, l.since["m1"])
		}
		if err := step(l.driver()); err != nil || !l.since["m1"].IsZero() || l.offs != 1 {
			t.Errorf("%s: %v, since %s, switched off %d times", what, err, l.since["m1"], l.offs)
		}
		if on := l.on["m1"]; on != (what == "boot") {
			t.Errorf("%s: it is on: %v", what, on)
		}
	}
}

func TestAMachineThatStaysOnIsSaidToBe(t *testing.T) {
	for _, joined := range []bool{false, true} {
		l := newTestbed()
		l.on["m1"], l.slow["m1"], l.since["m1"] = true, math.MaxInt, time.Now().Add(-time.Minute)
		l.boots["m1"] = substrate.Boot{Machine: "m1", Subject: "c1-node-1", Number: 1, Joined: joined}
		err := l.driver().Remove(t.Context(), substrate.Ref{Node: "c1-node-1"})
		if _, kept := l.boots["m1"]; kept != joined || (err != nil) != joined || errors.Is(err, substrate.ErrUnderway) {
			t.Errorf("joined %v: kept %v, %v", joined, kept, err)
		}
	}
}
