package hostd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/vm"
	"muster/internal/protocol"
)

// dreamers are guests on paper that sleep, in the words of the guests' driver.
type dreamers struct {
	*machine
	dm    sync.Mutex
	fails map[string]error // by what is done, "sleep" or "wake": why it fails
	// closed when a guest begins to fall asleep, which then lasts until the agent ends; nil: it is quick
	standing chan struct{}
	calls    map[string]int
}

func newDreamers(t *testing.T) (*machine, *dreamers) {
	m := newMachine(t)
	d := &dreamers{machine: m, fails: map[string]error{}, calls: map[string]int{}}
	m.sleeps = d
	return m, d
}

func (d *dreamers) called(what string) (standing chan struct{}, err error) {
	d.dm.Lock()
	defer d.dm.Unlock()
	d.calls[what]++
	standing, d.standing = d.standing, nil
	return standing, d.fails[what]
}

func (d *dreamers) count(what string) int {
	d.dm.Lock()
	defer d.dm.Unlock()
	return d.calls[what]
}

func (d *dreamers) Sleep(ctx context.Context, r substrate.Ref) (int64, error) {
	standing, err := d.called("sleep")
	if standing != nil {
		close(standing)
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if err != nil {
		return 0, err
	}
	bytes, err := d.Substrate.Sleep(ctx, r, "")
	if errors.Is(err, substrate.ErrEnded) {
		err = vm.ErrNotHere
	}
	return bytes, err
}

func (d *dreamers) Wake(ctx context.Context, n substrate.Node) error {
	_, err := d.called("wake")
	if err != nil {
		return err
	}
	if err = d.Substrate.Wake(ctx, n, ""); errors.Is(err, substrate.ErrEnded) {
		err = vm.ErrNotHere
	}
	return err
}

// asked is a guest with a request, the try-th.
func asked(node string, do protocol.HostedDo, try int64) protocol.HostedGuest {
	g := wanted(node)
	g.Do, g.Try = do, try
	return g
}

func tried(node string, try int64) func(protocol.HostReport) bool {
	return func(r protocol.HostReport) bool { return state(r, node).Try == try && state(r, node).Doing == "" }
}

func TestAGuestSleepsAndWakesAsItIsAsked(t *testing.T) {
	m, d := newDreamers(t)
	c := newController()
	stop := m.run(t, c)
	c.want(wanted("a"))
	c.until(t, "it runs", runs("a"))
	c.want(asked("a", protocol.DoSleep, 2))
	s := state(c.until(t, "it sleeps", tried("a", 2)), "a")
	if !s.Present || s.Running || s.Bytes == 0 || s.Detail != "it sleeps" || s.Failed+s.Gone+s.Refused+s.NoRoom != "" {
		t.Errorf("asleep it is told as %+v", s)
	}
	if err := stop(); err != nil { // the next agent lets it sleep
		t.Fatal(err)
	}
	c.edit(func() { c.reports = nil })
	m.run(t, c)
	if again := state(c.until(t, "it sleeps on", tried("a", 2)), "a"); again.Bytes != s.Bytes || again.Running ||
		d.count("sleep") != 1 {
		t.Errorf("after a start it is told as %+v, and was put to sleep %d times", again, d.count("sleep"))
	}
	c.want(asked("a", protocol.DoWake, 3))
	c.until(t, "it is awake", func(r protocol.HostReport) bool { return runs("a")(r) && tried("a", 3)(r) })

	m.Die(substrate.Ref{Cluster: "c1", Node: "a"}, "its QEMU has ended")
	c.until(t, "it has ended", func(r protocol.HostReport) bool { return !state(r, "a").Running })
	c.want(asked("a", protocol.DoWake, 4))
	if s := state(c.until(t, "it is asked once more", tried("a", 4)), "a"); s.Gone == "" || s.Running {
		t.Errorf("what ran on and has ended is told as %+v", s)
	}
	if made := m.Calls().Ensure; made != 1 {
		t.Errorf("it was made %d times", made)
	}
	c.want(asked("a", protocol.DoSleep, 5))
	if s := state(c.until(t, "a dead guest is to sleep", tried("a", 5)), "a"); s.Gone == "" {
		t.Errorf("a dead guest that is to sleep is told as %+v", s)
	}
	c.want()
	c.until(t, "nothing is left", func(r protocol.HostReport) bool { return len(r.Guests) == 0 })
}

func TestWhyAGuestCannotSleepIsTold(t *testing.T) {
	m, d := newDreamers(t)
	c := newController()
	m.run(t, c)
	c.want(wanted("a"))
	c.until(t, "it runs", runs("a"))
	for i, one := range []struct {
		fails error
		told  func(protocol.HostedState) string
	}{
		{fmt.Errorf("%w for its memory: 3072 MiB are needed and 5 MiB are free", substrate.ErrNoRoom),
			func(s protocol.HostedState) string { return s.NoRoom }},
		{fmt.Errorf("%w: it has devices", substrate.ErrRefused), func(s protocol.HostedState) string { return s.Refused }},
		{errors.New("write its memory: input/output error"), func(s protocol.HostedState) string { return s.Failed }},
	} {
		d.dm.Lock()
		d.fails["sleep"] = one.fails
		d.dm.Unlock()
		try := int64(i + 2)
		c.want(asked("a", protocol.DoSleep, try))
		s := state(c.until(t, "it is tried", tried("a", try)), "a")
		if one.told(s) != one.fails.Error() || !s.Running || s.Bytes > 0 {
			t.Errorf("%v is told as %+v", one.fails, s)
		}
	}
}

func TestAnAgentThatEndsWhileAGuestFallsAsleepIsFollowedByOneThatGoesOn(t *testing.T) {
	m, d := newDreamers(t)
	c := newController()
	stop := m.run(t, c)
	c.want(wanted("a"))
	c.until(t, "it runs", runs("a"))
	stands := make(chan struct{})
	d.dm.Lock()
	d.standing = stands
	d.dm.Unlock()
	c.want(asked("a", protocol.DoSleep, 2))
	<-stands
	c.until(t, "it falls asleep", func(r protocol.HostReport) bool {
		return state(r, "a").Doing == "writes its memory to disk" && state(r, "a").Try == 1
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	m.run(t, c)
	if s := state(c.until(t, "it sleeps", tried("a", 2)), "a"); s.Running || s.Bytes == 0 || d.count("sleep") != 2 {
		t.Errorf("it is told as %+v after %d calls", s, d.count("sleep"))
	}
}

// What is asked last counts: a guest that falls asleep is not made to stop, and is woken when it sleeps.
func TestAGuestIsWokenThatWasStillFallingAsleep(t *testing.T) {
	m, d := newDreamers(t)
	c := newController()
	m.run(t, c)
	c.want(wanted("a"))
	c.until(t, "it runs", runs("a"))
	c.want(asked("a", protocol.DoSleep, 2))
	c.want(asked("a", protocol.DoWake, 3))
	c.until(t, "it is awake", func(r protocol.HostReport) bool { return runs("a")(r) && tried("a", 3)(r) })
	if made := m.Calls().Ensure; made != 1 || d.count("wake") != 1 {
		t.Errorf("it was made %d times, and woken %d times", made, d.count("wake"))
	}
}

func TestWhereGuestsDoNotSleepThatIsARefusal(t *testing.T) {
	m, c := newMachine(t), newController()
	m.run(t, c)
	c.want(wanted("a"))
	c.until(t, "it runs", runs("a"))
	c.want(asked("a", protocol.DoSleep, 2))
	s := state(c.until(t, "it is tried", tried("a", 2)), "a")
	if !strings.Contains(s.Refused, "guests cannot be suspended here") || !s.Running {
		t.Errorf("%+v", s)
	}
	c.want(asked("a", "dream", 3))
	if s := state(c.until(t, "it is tried", tried("a", 3)), "a"); s.Refused == "" || !s.Running {
		t.Errorf("%+v", s)
	}
}
