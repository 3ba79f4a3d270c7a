package ufm_test

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/internal/drivers/fabric/fabrictest"
	"muster/internal/drivers/fabric/ufm"
	"muster/internal/drivers/fabric/ufm/ufmtest"
	"muster/internal/fabric"
)

// fixture is a UFM with a fabric of 12 ports, and how it is reached.
type fixture struct {
	*ufmtest.Server
	manager fabric.GUID
	ports   []fabric.GUID
	config  ufm.Config
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{manager: fabrictest.HostPort(0)}
	for i := range 12 {
		f.ports = append(f.ports, fabrictest.HostPort(i+1))
	}
	f.Server = ufmtest.New(f.manager, f.ports...)
	web := httptest.NewTLSServer(f.Server)
	t.Cleanup(web.Close)
	f.config = ufm.Config{
		URL: web.URL, User: ufmtest.User, Password: said(ufmtest.Password + "\n"),
		CA:    said(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}))),
		Ports: f.Fabric.Observe, Timeout: 5 * time.Second, Patience: 50 * time.Millisecond, Pause: time.Millisecond,
	}
	return f
}

// said is a secret, or a certificate, as it is read.
func said(text string) func() (string, error) { return func() (string, error) { return text, nil } }

func (f *fixture) driver(t *testing.T) *ufm.Driver {
	t.Helper()
	d, err := ufm.New(f.config)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// intent has one partition a key, with full members.
func (f *fixture) intent(members map[fabric.Key][]fabric.GUID) fabric.Intent {
	i := fabric.Intent{Managers: []fabric.GUID{f.manager}}
	for key, ports := range members {
		p := fabric.Partition{Key: key, Members: map[fabric.GUID]fabric.Membership{}}
		for _, g := range ports {
			p.Members[g] = fabric.Full
		}
		i.Partitions = append(i.Partitions, p)
	}
	return i
}

// holds wants the ports' tables to be those of the intent.
func (f *fixture) holds(t *testing.T, i fabric.Intent) {
	t.Helper()
	seen, err := f.Fabric.Observe(t.Context())
	if d := fabric.Compare(i, seen); d != nil || err != nil {
		t.Errorf("%v %v", d, err)
	}
}

func TestTheDriverKeepsTheContractOnAServerThatPretendsToBeUFM(t *testing.T) {
	fabrictest.Contract(t, func(t *testing.T) fabrictest.Fixture {
		f := newFixture(t)
		for _, g := range f.ports {
			f.Fabric.Narrow(g, 16)
		}
		return fabrictest.Fixture{
			Driver: f.driver(t), Manager: f.manager, Ports: f.ports, Room: 15,
			Link:  func(_ *testing.T, g fabric.GUID, up bool) { f.Down(g, !up) },
			Write: func(_ *testing.T, g fabric.GUID, e fabric.Entry) { f.Fabric.Rogue(g, e) },
		}
	})
}

// Each request fails in each way once, at each place: in the end all is as it was to be, and on the way no port held a key that
// was meant for it neither before nor after.
func TestWhateverFailsOnceIsDoneInTheEnd(t *testing.T) {
	for name, fault := range map[string]ufmtest.Fault{
		"broken": ufmtest.Broken, "broken when done": ufmtest.BrokenDone, "half": ufmtest.Half,
		"half, and broken": ufmtest.HalfBroken, "cut": ufmtest.Cut,
	} {
		t.Run(name, func(t *testing.T) {
			for at := range 8 {
				f := newFixture(t)
				p := f.ports
				before := f.intent(map[fabric.Key][]fabric.GUID{1: p[0:4], 2: p[4:8], 3: p[8:10]})
				after := f.intent(map[fabric.Key][]fabric.GUID{1: p[2:6], 2: p[8:12], 4: p[0:2]}) // 2 has none of its ports left
				d := f.driver(t)
				if err := d.Apply(t.Context(), before); err != nil {
					t.Fatal(err)
				}
				count := 0
				f.Server.Fault = func(*http.Request) ufmtest.Fault {
					if err := f.trespass(before, after); err != nil {
						t.Error(err)
					}
					if count++; count-1 == at {
						return fault
					}
					return ufmtest.None
				}
				if err := d.Apply(t.Context(), after); err != nil {
					t.Errorf("fault at request %d: %v", at, err)
				}
				f.holds(t, after)
			}
		})
	}
}

func (f *fixture) trespass(intents ...fabric.Intent) error {
	seen, err := f.Fabric.Observe(context.Background())
	if err != nil {
		return err
	}
	return fabrictest.Trespass(seen, intents...)
}

func TestRemovalsAreSeenBeforeAdditions(t *testing.T) {
	f := newFixture(t)
	p := f.ports
	d := f.driver(t)
	if err := d.Apply(t.Context(), f.intent(map[fabric.Key][]fabric.GUID{1: p[0:3], 2: p[3:6], 9: p[6:7]})); err != nil {
		t.Fatal(err)
	}
	read := len(f.Asked())
	// The key 1 comes to other ports. While it does, at no request may an old and a new one hold it.
	f.Server.Fault = func(*http.Request) ufmtest.Fault {
		seen, _ := f.Fabric.Observe(context.Background())
		old, fresh := slices.Contains(seen[p[0]].Entries, 0x8001), slices.Contains(seen[p[5]].Entries, 0x8001)
		if old && fresh {
			t.Error("the old and the new members of partition 1 hear each other")
		}
		return ufmtest.None
	}
	if err := d.Apply(t.Context(), f.intent(map[fabric.Key][]fabric.GUID{1: p[3:6]})); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(f.Asked()[read:], ", "); got != "DELETE 0x1, DELETE 0x2, DELETE 0x9, POST 0x1" {
		t.Error(got)
	}
}

func TestWhatSomebodyElseToldUFMIsUndone(t *testing.T) {
	f := newFixture(t)
	d := f.driver(t)
	i := f.intent(map[fabric.Key][]fabric.GUID{1: f.ports[0:2]})
	f.Put(1, f.ports[0], "limited")
	f.Put(1, f.ports[7], "full")
	f.Put(0x55, f.ports[7], "full")
	if err := d.Apply(t.Context(), i); err != nil {
		t.Error(err)
	}
	f.holds(t, i)
	// What is in the default partition may be a gateway: it is told, and left as it is.
	f.Put(fabric.DefaultKey, f.ports[3], "full")
	var r *fabric.Resisted
	if err := d.Apply(t.Context(), i); !errors.As(err, &r) || len(r.Ports) != 1 || r.Ports[0].Port != f.ports[3] {
		t.Error(err)
	}
}

func TestAPortThatUFMDoesNotKnowKeepsNoOtherOut(t *testing.T) {
	f := newFixture(t)
	f.Strict()
	nobody := fabric.GUID(0xdead)
	i := f.intent(map[fabric.Key][]fabric.GUID{1: append(slices.Clone(f.ports[0:7]), nobody)})
	err := f.driver(t).Apply(t.Context(), i)
	var r *fabric.Resisted
	if !errors.As(err, &r) || len(r.Ports) != 1 || r.Ports[0].Port != nobody {
		t.Errorf("%v", err)
	}
	f.holds(t, f.intent(map[fabric.Key][]fabric.GUID{1: f.ports[0:7]}))
}

func TestAFabricThatIsOpenByConfigurationIsRefused(t *testing.T) {
	f := newFixture(t)
	f.Open()
	err := f.driver(t).Apply(t.Context(), f.intent(map[fabric.Key][]fabric.GUID{1: f.ports[0:2]}))
	if !errors.Is(err, fabric.ErrRefused) || !strings.Contains(err.Error(), "default_membership = limited") {
		t.Error(err)
	}
	if asked := f.Asked(); asked != nil {
		t.Error(asked)
	}
}

func TestWithoutAReaderOfPortsUFMsOwnViewIsTold(t *testing.T) {
	f := newFixture(t)
	f.config.Ports = nil
	d := f.driver(t)
	i := f.intent(map[fabric.Key][]fabric.GUID{1: f.ports[0:2]})
	if err := d.Apply(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	f.Fabric.Rogue(f.ports[5], 0x8001) // which UFM knows nothing of
	seen, err := d.Observe(t.Context())
	if err != nil || fabric.Compare(i, seen) != nil || len(seen) != 13 {
		t.Errorf("%v %v", seen, err)
	}
	f.Down(f.ports[5], true)
	if seen, err = d.Observe(t.Context()); err != nil || len(seen) != 12 {
		t.Errorf("%v %v", seen, err)
	}
}

func TestATokenHasADoorOfItsOwn(t *testing.T) {
	f := newFixture(t)
	f.config.User, f.config.Password, f.config.Token = "", nil, said(ufmtest.Token)
	if err := f.driver(t).Apply(t.Context(), f.intent(nil)); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotWorkIsNotTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		fault ufmtest.Fault
		says  string
		asks  int
	}{
		"not let in": {ufmtest.LoggedOut, "does not let this user in", 1},
		"a page":     {ufmtest.Page, "a page for people", 1},
		"broken":     {ufmtest.Broken, "500 Internal Server Error", 4},
		"no answer":  {ufmtest.Slow, "Client.Timeout", 4},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if c.fault == ufmtest.Slow {
				f.config.Timeout = 2 * time.Second
			}
			var asked atomic.Int64
			f.Server.Fault = func(*http.Request) ufmtest.Fault { asked.Add(1); return c.fault }
			err := f.driver(t).Apply(t.Context(), f.intent(nil))
			asks := int(asked.Load())
			if err == nil || !strings.Contains(err.Error(), c.says) || asks != c.asks {
				t.Errorf("asked %d times: %v", asks, err)
			}
			if err != nil && strings.Contains(err.Error(), ufmtest.Password) {
				t.Errorf("the password is in an error: %v", err)
			}
		})
	}
}

func TestAServerThatOnlyPromisesIsNotBelieved(t *testing.T) {
	f := newFixture(t)
	f.Server.Fault = func(r *http.Request) ufmtest.Fault {
		if r.Method == http.MethodPost {
			return ufmtest.Half // of one port: nothing
		}
		return ufmtest.None
	}
	err := f.driver(t).Apply(t.Context(), f.intent(map[fabric.Key][]fabric.GUID{1: f.ports[0:1]}))
	if err == nil || !strings.Contains(err.Error(), "asked 4 times and has not done it: add [0x") {
		t.Error(err)
	}
}

func TestARedirectLeadsNowhere(t *testing.T) {
	f := newFixture(t)
	var heard bool
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard = true }))
	defer thief.Close()
	door := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer door.Close()
	f.config.URL = door.URL
	if err := f.driver(t).Apply(t.Context(), f.intent(nil)); err == nil || heard {
		t.Errorf("followed: %v, %v", heard, err)
	}
}

func TestAConfigurationThatCannotWorkIsRefusedAtOnce(t *testing.T) {
	f := newFixture(t)
	good, password := f.config, f.config.Password
	for says, change := range map[string]func(*ufm.Config){
		"one looks like":               func(c *ufm.Config) { c.URL = "ufm.example.org" },
		"names neither user nor path":  func(c *ufm.Config) { c.URL = "https://admin:secret@ufm.example.org" },
		"at another host":              func(c *ufm.Config) { c.Elsewhere = true },
		"only https is spoken":         func(c *ufm.Config) { c.URL = "http://ufm.example.org" },
		"it needs a user and the name": func(c *ufm.Config) { c.User = "" },
		"give one of them":             func(c *ufm.Config) { c.Token = password },
		"is one line":                  func(c *ufm.Config) { c.Password = said("\n") },
		"file does not exist":          func(c *ufm.Config) { c.Password = func() (string, error) { return "", os.ErrNotExist } },
		"has none in PEM":              func(c *ufm.Config) { c.CA = password },
	} {
		c := good
		change(&c)
		if _, err := ufm.New(c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	good.CA = nil
	d, err := ufm.New(good)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(t.Context(), f.intent(nil)); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server that nobody vouches for: %v", err)
	}
}
