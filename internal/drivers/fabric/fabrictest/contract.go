package fabrictest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"muster/internal/drivers/drivertest"
	"muster/internal/fabric"
	"muster/internal/kit/lists"
)

// Fixture is a fabric that nothing else uses, its driver, and what a test can do to it behind the driver's back.
type Fixture struct {
	Driver  fabric.Driver
	Manager fabric.GUID   // port of its subnet manager
	Ports   []fabric.GUID // of tenants, at least 8, all up, in no partition yet
	Room    int           // tenants' keys that each of Ports takes; one more is refused
	// Link takes a port's link down or up.
	Link func(t *testing.T, port fabric.GUID, up bool)
	// Write adds an entry to a port's table from its own host, as somebody does who is root there.
	Write func(t *testing.T, port fabric.GUID, e fabric.Entry)
}

// patience is how long a port may take to be told what it missed.
const patience = 20 * time.Second

// Contract holds a driver to what package fabric promises. Each part gets a world of its own.
func Contract(t *testing.T, fixture func(t *testing.T) Fixture) {
	drivertest.Run(t, parts(), fixture, nil)
}

// parts are the promises, and what each of them tries.
func parts() []drivertest.Part[Fixture] {
	part := func(name string, run func(*testing.T, Fixture), tries ...string) drivertest.Part[Fixture] {
		return drivertest.Part[Fixture]{Name: name, Tries: tries, Run: run}
	}
	const apply, observe = "Driver.Apply", "Driver.Observe"
	return []drivertest.Part[Fixture]{
		part("ATenantsPortsAreInItsPartitionAndNoOther", life, apply, observe),
		part("AnIntentThatCannotBeIsRefusedAndNothingChanges", refusals, apply),
		part("ATablesRoomIsCounted", room, apply),
		part("APortThatDoesNotAnswerHoldsNobodyUp", silence, apply, observe),
		part("APortThatDoesNotObeyHoldsNobodyUp", rogue, apply, observe),
		part("AnApplyThatIsGivenUpCanBeRepeated", givenUp, apply),
		part("AnObservationThatIsGivenUpSaysSo", lookGivenUp, observe),
		part("ClustersComeAndGo", func(t *testing.T, w Fixture) { Churn(t, w, 12, 6, rand.New(rand.NewPCG(1, 2))) }, apply),
	}
}

// lookGivenUp: a look that was not made is no empty fabric, and the next one sees all.
func lookGivenUp(t *testing.T, w Fixture) {
	i := w.intent(map[fabric.Key][]fabric.GUID{1: w.Ports[0:2]})
	w.apply(t, i)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if seen, err := w.Driver.Observe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("given up before it began, it saw %d ports: %v", len(seen), err)
	}
	for range 2 {
		w.holds(t, i)
	}
}

// intent has the world's manager, and partitions with full members by their keys.
func (w Fixture) intent(members map[fabric.Key][]fabric.GUID) fabric.Intent {
	i := fabric.Intent{Managers: []fabric.GUID{w.Manager}}
	for key, ports := range members {
		p := fabric.Partition{Key: key, Members: map[fabric.GUID]fabric.Membership{}}
		for _, port := range ports {
			p.Members[port] = fabric.Full
		}
		i.Partitions = append(i.Partitions, p)
	}
	return i
}

// holds fails the test if a port differs from the intent.
func (w Fixture) holds(t *testing.T, i fabric.Intent) {
	t.Helper()
	seen, err := w.Driver.Observe(t.Context())
	if err != nil {
		t.Fatalf("observe: %v", err)
	}
	if d := fabric.Compare(i, seen); d != nil {
		t.Fatalf("%d ports differ, the first: %s", len(d), d[0])
	}
	for _, p := range append(slices.Clone(w.Ports), w.Manager) {
		if _, answered := seen[p]; !answered {
			t.Fatalf("port %s was not read", p)
		}
	}
}

func (w Fixture) apply(t *testing.T, i fabric.Intent) {
	t.Helper()
	if err := w.Driver.Apply(t.Context(), i); err != nil {
		t.Fatalf("apply: %v", err)
	}
	w.holds(t, i)
}

func life(t *testing.T, w Fixture) {
	p := w.Ports
	w.apply(t, w.intent(nil))
	first := w.intent(map[fabric.Key][]fabric.GUID{1: p[0:2], 2: p[2:4]})
	first.Partitions = append(first.Partitions,
		fabric.Partition{Key: fabric.LastKey, Members: map[fabric.GUID]fabric.Membership{p[0]: fabric.Limited,
			p[2]: fabric.Limited, p[4]: fabric.Full}})
	w.apply(t, first)
	w.apply(t, first) // again
	for _, next := range []map[fabric.Key][]fabric.GUID{
		{1: p[0:3], 2: p[3:4]}, // a port moves
		{1: p[0:1], 2: p[3:6]}, // one shrinks, one grows
		{2: p[3:6]},            // one goes
		{7: p[3:6], 1: p[0:3]}, // its ports are another's
		{1: p[0:3], 2: nil},    // one without ports
		{},
	} {
		w.apply(t, w.intent(next))
	}
}

func refusals(t *testing.T, w Fixture) {
	p := w.Ports
	good := w.intent(map[fabric.Key][]fabric.GUID{1: p[0:2]})
	w.apply(t, good)
	member := map[fabric.GUID]fabric.Membership{p[4]: fabric.Full}
	with := func(managers []fabric.GUID, partitions ...fabric.Partition) fabric.Intent {
		return fabric.Intent{Managers: managers, Partitions: append(partitions, fabric.Partition{Key: 3, Members: member})}
	}
	ours := []fabric.GUID{w.Manager}
	for name, bad := range map[string]fabric.Intent{
		"key zero":                  with(ours, fabric.Partition{Key: 0, Members: member}),
		"the default key":           with(ours, fabric.Partition{Key: fabric.DefaultKey, Members: member}),
		"a key of 16 bits":          with(ours, fabric.Partition{Key: 0x8001, Members: member}),
		"a key twice":               with(ours, fabric.Partition{Key: 3, Members: member}),
		"no manager":                with(nil),
		"a manager that is not one": with([]fabric.GUID{p[5]}),
		"port zero": with(ours,
			fabric.Partition{Key: 4, Members: map[fabric.GUID]fabric.Membership{0: fabric.Full}}),
		"no port's GUID": with(ours,
			fabric.Partition{Key: 4, Members: map[fabric.GUID]fabric.Membership{1<<64 - 1: fabric.Full}}),
		"manager zero":          with([]fabric.GUID{w.Manager, 0}),
		"an unknown membership": with(ours, fabric.Partition{Key: 4, Members: map[fabric.GUID]fabric.Membership{p[1]: 2}}),
	} {
		if err := w.Driver.Apply(t.Context(), bad); !errors.Is(err, fabric.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
		w.holds(t, good)
	}
}

func room(t *testing.T, w Fixture) {
	p := w.Ports
	members := map[fabric.Key][]fabric.GUID{}
	for k := range w.Room {
		members[fabric.Key(k+1)] = p[0:2]
	}
	full := w.intent(members)
	w.apply(t, full)
	members[fabric.Key(w.Room+1)] = p[1:3]
	if err := w.Driver.Apply(t.Context(), w.intent(members)); !errors.Is(err, fabric.ErrRefused) {
		t.Errorf("one partition more than its table has room for: %v", err)
	}
	w.holds(t, full)
}

// resisted fails the test unless exactly these ports differ.
func resisted(t *testing.T, err error, ports ...fabric.GUID) {
	t.Helper()
	var r *fabric.Resisted
	if !errors.As(err, &r) || !errors.Is(err, fabric.ErrResisted) {
		t.Fatalf("it was to say that %v differ, and said: %v", ports, err)
	}
	got := lists.Map(r.Ports, func(d fabric.Difference) fabric.GUID { return d.Port })
	slices.Sort(ports)
	if !reflect.DeepEqual(got, ports) {
		t.Fatalf("it was to say that %v differ, and said that %v do: %v", ports, got, err)
	}
}

func silence(t *testing.T, w Fixture) {
	p := w.Ports
	nowhere := fabric.GUID(0x00ffee0000000001)
	w.apply(t, w.intent(map[fabric.Key][]fabric.GUID{1: p[0:2]}))
	w.Link(t, p[1], false)
	next := w.intent(map[fabric.Key][]fabric.GUID{2: p[1:4], 3: append(slices.Clone(p[4:6]), nowhere)})
	resisted(t, w.Driver.Apply(t.Context(), next), p[1], nowhere)
	seen, err := w.Driver.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, answered := seen[p[1]]; answered {
		t.Errorf("a port whose link is down answered")
	}
	for _, d := range fabric.Compare(next, seen) {
		if !d.Silent {
			t.Errorf("one that answers: %s", d)
		}
	}
	// Its link comes back while the intent is what it was: it is told what it missed, and nothing is left of before.
	w.Link(t, p[1], true)
	next.Partitions = w.intent(map[fabric.Key][]fabric.GUID{2: p[1:4], 3: p[4:6]}).Partitions
	w.settles(t, next)
}

// settles applies the intent until it holds, as a reconciler does.
func (w Fixture) settles(t *testing.T, i fabric.Intent) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		err := w.Driver.Apply(t.Context(), i)
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after %s: %v", patience, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.holds(t, i)
}

func rogue(t *testing.T, w Fixture) {
	p := w.Ports
	first := w.intent(map[fabric.Key][]fabric.GUID{1: p[0:2], 2: p[2:4]})
	w.apply(t, first)
	w.Write(t, p[0], fabric.Key(2).In(fabric.Full))
	seen, err := w.Driver.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []fabric.Difference{{Port: p[0], Surplus: []fabric.Entry{0x8002}}}
	if d := fabric.Compare(first, seen); !reflect.DeepEqual(d, want) {
		t.Fatalf("%v", d)
	}
	next := w.intent(map[fabric.Key][]fabric.GUID{1: p[0:2], 2: p[2:4], 3: p[4:6]})
	if err := w.Driver.Apply(t.Context(), next); err != nil { // where the manager overwrote it, all is well
		resisted(t, err, p[0])
	}
	if seen, err = w.Driver.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, d := range fabric.Compare(next, seen) {
		if d.Port != p[0] || d.Missing != nil {
			t.Errorf("another's rogue port did it harm: %s", d)
		}
	}
}

func givenUp(t *testing.T, w Fixture) {
	p := w.Ports
	first := w.intent(map[fabric.Key][]fabric.GUID{1: p[0:4]})
	second := w.intent(map[fabric.Key][]fabric.GUID{1: p[0:2], 2: p[2:6]})
	w.apply(t, first)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Driver.Apply(ctx, second); !errors.Is(err, context.Canceled) {
		t.Errorf("given up before it began: %v", err)
	}
	for _, after := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		if err := w.Driver.Apply(ctx, second); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("given up after %s: %v", after, err)
		}
		cancel()
		seen, err := w.Driver.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e := Trespass(seen, first, second); e != nil {
			t.Fatalf("given up after %s: %v", after, e)
		}
	}
	w.apply(t, second)
}

// Trespass says which port holds an entry that none of the intents gives it; nil where none does.
func Trespass(seen fabric.Tables, intents ...fabric.Intent) error {
	allowed := map[fabric.GUID][]fabric.Entry{}
	for _, i := range intents {
		for g, entries := range i.Tables() {
			allowed[g] = append(allowed[g], entries...)
		}
	}
	for g, p := range seen {
		for _, e := range p.Entries {
			if e != fabric.DefaultKey.In(fabric.Limited) && !slices.Contains(allowed[g], e) {
				return fmt.Errorf("port %s holds %s, which was never meant for it: %v", g, e, p.Entries)
			}
		}
	}
	return nil
}
