// Package powertest is the contract of power controls: what every driver does with a real peer, and what its declaration says of
// it. A driver's own test calls Test with its factory and its peers; what such tests need besides is here too.
package powertest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/drivers/drivertest"
	"muster/internal/drivers/power"
	"muster/internal/kit/private"
)

// Who may switch peers. An IPMI password has at most 20 bytes.
const (
	User     = "ADMIN"
	Password = "s3cret:Never/Shown"
	wrong    = "wr0ng:Never/Shown"
)

// Peer is a machine with its power control, as a driver finds it.
type Peer struct {
	Programs string       // directory of the site's programs
	Target   power.Target // with the right credentials, if the control has any
	// Dead is the same control where nothing answers.
	Dead power.Target
	// Boots says that the peer has understood a boot from the network, once. nil: it cannot.
	Boots func() error
	// Unplug takes the power away where the control cannot.
	Unplug func()
}

// Test runs a driver against a peer.
func Test(t *testing.T, f power.Factory, peer func(*testing.T) Peer) {
	t.Helper()
	p := peer(t)
	drivertest.Run(t, parts(), func(t *testing.T) contract {
		c := contract{Factory: f, Capabilities: f.Capabilities, peer: &p}
		c.Driver = c.open(t, p.Target)
		if control, err := f.Parse(p.Target.Power.Control[len(f.Scheme):]); err == nil {
			opened, err := control.Open(power.Opening{Target: p.Target, Programs: private.Dir(p.Programs)})
			if err == nil {
				c.Accountant, _ = opened.(power.Accountant)
			}
		}
		return c
	}, nil)
}

// contract is a driver with all that it is, and a peer.
type contract struct {
	Factory      power.Factory
	Capabilities power.Capabilities
	Driver       power.Driver
	Accountant   power.Accountant // nil: it knows of no users
	peer         *Peer
}

// parts are the promises, and what each of them tries.
func parts() []drivertest.Part[contract] {
	part := func(name string, run func(contract, *testing.T), tries ...string) drivertest.Part[contract] {
		return drivertest.Part[contract]{Name: name, Tries: tries, Run: func(t *testing.T, c contract) { run(c, t) }}
	}
	return []drivertest.Part[contract]{
		part("it is what it says that it is", contract.declares, "Factory.Scheme", "Factory.Title", "Factory.Usage",
			"Factory.Form", "Factory.About", "Factory.Parse"),
		part("it can what it says that it can", contract.declares, "Factory.Capabilities"),
		part("it switches", contract.switches, "Driver.State", "Driver.On", "Driver.Off", "Driver.BootFromNetwork"),
		part("it takes the power away", contract.switches, "Capabilities.SwitchesOff"),
		part("it ends with its context", contract.ends, "Driver.State", "Driver.On"),
		part("it sees the power of who is silent", contract.sees, "Capabilities.SeesPower"),
		part("it refuses wrong credentials and does not tell them", contract.refuses, "Capabilities.Credentials"),
		part("it lists users, and always the same", contract.lists, "Accountant.Accounts"),
	}
}

// sees looks at a machine that has no address of its own: what is asked knows of the power itself.
func (c contract) sees(t *testing.T) {
	target := c.peer.Target
	target.Address = netip.Addr{}
	d := c.open(t, target)
	for _, want := range []power.State{power.On, power.Off} {
		do := d.On
		if want == power.Off {
			do = d.Off
		}
		if err := do(t.Context()); err != nil {
			t.Fatal(err)
		}
		Becomes(t, d, want)
	}
}

// lists asks twice. What lists none says that it cannot.
func (c contract) lists(t *testing.T) {
	a := c.open(t, c.peer.Target).(power.Accountant)
	first, err := a.Accounts(t.Context())
	again, err2 := a.Accounts(t.Context())
	if err != nil && !errors.Is(err, power.ErrUnsupported) || (err == nil) != (err2 == nil) || !slices.Equal(first, again) {
		t.Errorf("it lists %q (%v), and then %q (%v)", first, err, again, err2)
	}
	if len(first) > power.MaxAccounts {
		t.Errorf("it lists %d users", len(first))
	}
}

func (c contract) open(t *testing.T, target power.Target) power.Driver {
	t.Helper()
	return Open(t, c.Factory, c.peer.Programs, target)
}

// declares compares the declaration with the peer.
func (c contract) declares(t *testing.T) {
	f, text := c.Factory, c.peer.Target.Power.Control
	for name, s := range map[string]string{"scheme": f.Scheme, "title": f.Title, "usage": f.Usage, "form": f.Form,
		"about": f.About} {
		if s == "" || strings.ContainsAny(s, "\n\t") {
			t.Errorf("its %s is %q", name, s)
		}
	}
	if !strings.HasPrefix(f.Usage, f.Scheme) || !strings.HasPrefix(f.Form, f.Scheme) || strings.Contains(f.Scheme, ":") {
		t.Errorf("it is written %q or %q, and its scheme is %q", f.Usage, f.Form, f.Scheme)
	}
	all := power.Registry{f}
	control, err := all.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	again := control.String()
	if !strings.HasPrefix(again, f.Scheme) {
		t.Errorf("%q is called %q in messages", text, again)
	}
	if _, err := all.Parse(again); err != nil {
		t.Errorf("%q is called %q in messages, which is none: %v", text, again, err)
	}
	if needs := f.Capabilities.Credentials != power.Never; needs != (control.To() != "") {
		t.Errorf("it has credentials: %v, and shows them to %q", needs, control.To())
	}
	if f.Capabilities.SwitchesOff != (c.peer.Unplug == nil) {
		t.Errorf("it says that it switches off: %v", f.Capabilities.SwitchesOff)
	}
	without := c.peer.Target.Power
	without.Credentials = ""
	if err := all.Validate(without); (err != nil) != (f.Capabilities.Credentials == power.Required) {
		t.Errorf("without credentials: %v", err)
	}
	with := c.peer.Target.Power
	with.Credentials = "secret:bmc"
	if err := all.Validate(with); (err != nil) != (f.Capabilities.Credentials == power.Never) {
		t.Errorf("with credentials: %v", err)
	}
}

func (c contract) switches(t *testing.T) {
	p, d := *c.peer, c.open(t, c.peer.Target)
	Becomes(t, d, power.Off)
	for range 2 {
		if err := d.On(t.Context()); err != nil {
			t.Fatal(err)
		}
		Becomes(t, d, power.On)
	}
	switch err := d.BootFromNetwork(t.Context()); {
	case p.Boots == nil && !errors.Is(err, power.ErrUnsupported):
		t.Fatalf("boot from the network: %v; it cannot, and has to say so", err)
	case p.Boots != nil && err != nil:
		t.Fatal(err)
	case p.Boots != nil:
		if err := p.Boots(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		switch err := d.Off(t.Context()); {
		case p.Unplug != nil && !errors.Is(err, power.ErrUnsupported):
			t.Fatalf("off: %v; it cannot, and has to say so", err)
		case p.Unplug != nil:
			p.Unplug()
		case err != nil:
			t.Fatal(err)
		}
		Becomes(t, d, power.Off)
	}
}

func (c contract) ends(t *testing.T) {
	d := c.open(t, c.peer.Dead)
	seen := power.Unknown
	for name, call := range map[string]func(context.Context) error{
		"on": d.On,
		"state": func(ctx context.Context) (err error) {
			seen, err = d.State(ctx)
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		began := time.Now()
		err := call(ctx)
		took := time.Since(began)
		cancel()
		if took > 30*time.Second {
			t.Errorf("%s: %v after the end of its context", name, took)
		}
		if !c.Factory.Capabilities.SeesPower && name == "on" {
			continue // it is called and gets no answer, as ever
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, not the end of the context", name, err)
		}
	}
	if seen != power.Unknown {
		t.Errorf("nobody answered, and it saw that the machine is %s", seen)
	}
}

func (c contract) refuses(t *testing.T) {
	if c.peer.Target.Power.Credentials == "" {
		t.Fatal("it shows credentials, and its peer has none")
	}
	for name, credentials := range map[string]string{
		"wrong password": SecretFile(t, User+":"+wrong),
		"wrong user":     SecretFile(t, "nobody:"+Password),
		"no file":        "secret:nonexistent",
		"no variable":    "env:BMC_NO_SUCH_VARIABLE",
		"open to others": openFile(t, User+":"+Password),
		"no password":    SecretFile(t, "bare"),
		"two lines":      SecretFile(t, User+":"+Password+"\n"+Password),
	} {
		target := c.peer.Target
		target.Power.Credentials = credentials
		d := c.open(t, target)
		_, err := d.State(t.Context())
		for what, err := range map[string]error{
			"state": err, "on": d.On(t.Context()), "off": d.Off(t.Context()), "boot": d.BootFromNetwork(t.Context()),
		} {
			if !errors.Is(err, power.ErrCredentials) {
				t.Errorf("%s: %s: %v; it is about credentials", name, what, err)
			}
			if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, Password) ||
				strings.Contains(text, wrong) {
				t.Errorf("%s: %s: the error tells a password: %s", name, what, text)
			}
		}
		if text := fmt.Sprintf("%v %+v %#v", d, d, target); strings.Contains(text, Password) || strings.Contains(text, wrong) {
			t.Errorf("%s: the driver tells a password: %s", name, text)
		}
	}
}

// Open opens a target's control by one driver alone.
func Open(t *testing.T, f power.Factory, programs string, target power.Target) power.Driver {
	t.Helper()
	d, err := power.Registry{f}.Open(power.Site{Programs: private.Dir(programs), Secrets: private.Dir(secrets(t))}, target)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Becomes waits until the state is seen.
func Becomes(t *testing.T, d power.Driver, wanted power.State) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		state, err := d.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if state == wanted {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the state is %s, not %s", state, wanted)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
