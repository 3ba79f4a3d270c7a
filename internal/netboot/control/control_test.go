package control_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"muster/internal/core"
	"muster/internal/identity"
	"muster/internal/inventory"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
	"muster/internal/netboot"
	"muster/internal/netboot/control"
	"muster/internal/netboot/onlink"
	"muster/internal/protocol"
)

const known, strange = "52:54:00:00:00:01", "52:54:00:00:00:99"

type oneImage struct{}

func (oneImage) Inspector() (string, error) { return "sha256:1d", nil }

func (oneImage) BootFiles(digest string) (control.Files, error) {
	if digest != "sha256:1d" {
		return control.Files{}, errors.New("no such image")
	}
	return control.Files{Root: protocol.Blob{Digest: digest}, Agent: protocol.Blob{Digest: "sha256:a"}, Kernel: "sha256:ce",
		Drivers: "sha256:d1"}, nil
}

// testbed is a site with one machine on one network of three addresses.
type testbed struct {
	*testing.T
	*control.Controller
	machine string
}

func newTestbed(t *testing.T, url string, unknown inventory.Unknown) *testbed {
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		t.Fatal(err)
	}
	c := &testbed{t, &control.Controller{DB: kindstest.Open(t, url), Authority: authority, Images: oneImage{}}, "m1"}
	c.update(func(ctx context.Context, tx *core.Tx) error {
		err := network.Put(ctx, tx, inventory.Network{
			Name: "boot", Interface: "br0", Address: netip.MustParsePrefix("10.78.0.1/16"), Mode: inventory.ModeOwn,
			Unknown: unknown,
			First:   netip.MustParseAddr("10.78.0.10"), Last: netip.MustParseAddr("10.78.0.12"),
		})
		if err != nil {
			return err
		}
		return machine.Add(ctx, tx, inventory.Machine{ID: c.machine, Name: "r1", Substrate: "metal", Network: "boot",
			MACs: []string{known}})
	})
	return c
}

func (c *testbed) update(f func(context.Context, *core.Tx) error) {
	c.Helper()
	if err := c.DB.Update(context.Background(), func(tx *core.Tx) error { return f(context.Background(), tx) }); err != nil {
		c.Fatal(err)
	}
}

func mac(text string) net.HardwareAddr {
	m, err := net.ParseMAC(text)
	if err != nil {
		panic(err)
	}
	return m
}

// ask asks for one address; it gives "" and the error where there is none.
func (c *testbed) ask(text string, commit bool, want string) (string, error) {
	c.Helper()
	ask := netboot.Ask{MAC: mac(text), Commit: commit, For: time.Hour}
	if want != "" {
		ask.Want = netip.MustParseAddr(want)
	}
	granted, err := c.Leases(context.Background(), "boot", []netboot.Ask{ask})
	if err != nil {
		c.Fatal(err)
	}
	if granted[0].Err != nil {
		return "", granted[0].Err
	}
	return granted[0].Lease.Address.String(), nil
}

func TestAnAddressIsGivenOnce(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		c := newTestbed(t, url, inventory.UnknownEnrol)
		mine, err := c.ask(known, true, "")
		if err != nil {
			t.Fatal(err)
		}
		if again, err := c.ask(known, false, "10.78.0.12"); again != mine || err != nil {
			t.Errorf("an enrolled machine's address changed from %s to %s, %v", mine, again, err)
		}
		if _, err := c.ask(strange, true, mine); !errors.Is(err, netboot.ErrTaken) {
			t.Errorf("another machine's address was given: %v", err)
		}
		offers := map[string]bool{mine: true}
		for i := range 2 {
			address, err := c.ask(fmt.Sprintf("52:54:00:00:01:%02x", i), false, "")
			if err != nil || offers[address] {
				t.Errorf("offer %d is %s, %v; offered before: %v", i, address, err, offers)
			}
			offers[address] = true
		}
		contended, err := c.ask("52:54:00:00:01:77", false, "") // the machine that asks for it first has it
		if err != nil || contended == mine || !offers[contended] {
			t.Errorf("there are three addresses, and a fourth machine is offered %s, %v", contended, err)
		}
		for i := range 2 {
			if _, err := c.ask(fmt.Sprintf("52:54:00:00:01:%02x", i), true, ""); err != nil {
				t.Error(err)
			}
		}
		if _, err := c.ask("52:54:00:00:01:77", true, contended); !errors.Is(err, netboot.ErrFull) {
			t.Errorf("an address is given a second time: %v", err)
		}
	})
}

func TestUnknownMachinesGetSilenceWhereTheSiteWantsIt(t *testing.T) {
	c := newTestbed(t, t.TempDir()+"/db", inventory.UnknownIgnore)
	if _, err := c.ask(strange, false, ""); !errors.Is(err, netboot.ErrUnknown) {
		t.Errorf("an address for nobody: %v", err)
	}
	if _, err := c.BootConfig(t.Context(), "boot", mac(strange)); !errors.Is(err, netboot.ErrUnknown) {
		t.Errorf("a boot for nobody: %v", err)
	}
}

func TestADeclinedAddressIsNotGivenAgain(t *testing.T) {
	c := newTestbed(t, t.TempDir()+"/db", inventory.UnknownEnrol)
	first, err := c.ask(strange, true, "")
	if err != nil {
		t.Fatal(err)
	}
	decline := func(who string) {
		asks := []netboot.Ask{{MAC: mac(who), Want: netip.MustParseAddr(first), Decline: true, For: time.Hour}}
		if _, err := c.Leases(t.Context(), "boot", asks); err != nil {
			t.Fatal(err)
		}
	}
	decline(known) // not its own: nothing happens
	if again, err := c.ask(strange, true, ""); again != first || err != nil {
		t.Errorf("somebody else declined my address %s: now it is %s, %v", first, again, err)
	}
	decline(strange)
	if second, err := c.ask(strange, true, ""); second == first || err != nil {
		t.Errorf("%s was declined and is given again: %v", second, err)
	}
}

// begin makes the machine boot something of its own.
func (c *testbed) begin() (number int64, token string) {
	c.update(func(ctx context.Context, tx *core.Tx) error {
		if err := machine.StartInspection(ctx, tx, c.machine, false); err != nil {
			return err
		}
		m, err := machine.Get(ctx, tx, c.machine)
		if err != nil {
			return err
		}
		number = m.Boot
		begun, err := machine.BeginBoot(ctx, tx, machine.Boot{MachineID: c.machine, Subject: c.machine, Number: number,
			Image: "sha256:1d"})
		if !begun {
			return errors.Join(err, errors.New("the boot has not begun"))
		}
		return err
	})
	return number, c.Authority.Token(c.machine, number)
}

func TestATokenIsGivenOnlyToAMachineThatIsToBoot(t *testing.T) {
	c := newTestbed(t, t.TempDir()+"/db", inventory.UnknownEnrol)
	asks := func() (string, error) {
		b, err := c.BootConfig(t.Context(), "boot", mac(known))
		return b.Token, err
	}
	if token, err := asks(); token != "" || !errors.Is(err, netboot.ErrNothing) {
		t.Errorf("a machine that is to be off got %q, %v", token, err)
	}
	number, want := c.begin()
	if token, err := asks(); token != want || err != nil {
		t.Errorf("got %q, %v", token, err)
	}
	if b, err := c.BootConfig(t.Context(), "boot", mac(strange)); b.Token != "" || b.Kernel == "" || err != nil {
		t.Errorf("an unknown machine got %+v, %v", b, err)
	}
	c.update(func(ctx context.Context, tx *core.Tx) error {
		used, err := machine.UseInspectionToken(ctx, tx, c.machine, number, "key")
		if !used {
			t.Error("the token cannot be used")
		}
		return err
	})
	if token, err := asks(); token != "" || !errors.Is(err, netboot.ErrNothing) {
		t.Errorf("a token that was used is given again: %q, %v", token, err)
	}
	c.update(func(ctx context.Context, tx *core.Tx) error {
		if used, _ := machine.UseInspectionToken(ctx, tx, c.machine, number, "another key"); used {
			t.Error("the token was used twice")
		}
		return nil
	})
}

func TestAScriptIsNotHandedOutForEver(t *testing.T) {
	c := newTestbed(t, t.TempDir()+"/db", inventory.UnknownEnrol)
	c.begin()
	given := 0
	for range 100 {
		if _, err := c.BootConfig(t.Context(), "boot", mac(known)); err == nil {
			given++
		}
		if err := c.Seen(t.Context(), "boot", protocol.BootProgress{MAC: known, Step: protocol.StepScript}, ""); err != nil {
			t.Fatal(err)
		}
	}
	if given > 10 {
		t.Errorf("handed out %d times", given)
	}
}

func TestOnlyTheBootItselfIsBelieved(t *testing.T) {
	c := newTestbed(t, t.TempDir()+"/db", inventory.UnknownEnrol)
	_, token := c.begin()
	sum := sha256.Sum256([]byte(token))
	proof := hex.EncodeToString(sum[:])
	problem := protocol.BootProgress{MAC: known, Step: protocol.StepProblem, Detail: "root image arrived damaged\x1b[31m\n"}
	for _, wrong := range []string{"", "00", token} {
		if err := c.Seen(t.Context(), "boot", problem, wrong); !errors.Is(err, netboot.ErrProof) {
			t.Errorf("proof %q: %v", wrong, err)
		}
	}
	if err := c.Seen(t.Context(), "boot", problem, proof); err != nil {
		t.Fatal(err)
	}
	c.update(func(ctx context.Context, tx *core.Tx) error {
		b, err := machine.BootOn(ctx, tx, c.machine)
		if b.Step != protocol.StepProblem || b.Detail != "cannot boot: root image arrived damaged [31m " {
			t.Errorf("%q %q", b.Step, b.Detail)
		}
		return err
	})
	for i := range 30 { // a caller with the token makes up problems
		problem.Detail = fmt.Sprintf("problem %d", i)
		if err := c.Seen(t.Context(), "boot", problem, proof); err != nil {
			t.Fatal(err)
		}
	}
	c.update(func(ctx context.Context, tx *core.Tx) error {
		var events int
		b, err := machine.BootOn(ctx, tx, c.machine)
		err = errors.Join(err, tx.Row(ctx, `SELECT COUNT(*) FROM event WHERE type LIKE '%.boot.problem'`).Scan(&events))
		if b.Detail != "cannot boot: problem 29" || events != 1 {
			t.Errorf("%q, %d events", b.Detail, events)
		}
		return err
	})
}

// TestABootWhoseFilesTakeLongShowsSignsOfLife hears how far a first stage is with its files: no events, and the step began
// when it began.
func TestABootWhoseFilesTakeLongShowsSignsOfLife(t *testing.T) {
	c := newTestbed(t, t.TempDir()+"/db", inventory.UnknownEnrol)
	_, token := c.begin()
	sum := sha256.Sum256([]byte(token))
	var boots []machine.Boot
	for _, detail := range []string{"", "root image: 10 of 232 MiB", "root image: 86 of 232 MiB"} {
		said := protocol.BootProgress{MAC: known, Step: protocol.StepInit, Detail: detail, Took: 3 * time.Second}
		if err := c.Seen(t.Context(), "boot", said, hex.EncodeToString(sum[:])); err != nil {
			t.Fatal(err)
		}
		c.update(func(ctx context.Context, tx *core.Tx) error {
			b, err := machine.BootOn(ctx, tx, c.machine)
			boots = append(boots, b)
			return err
		})
		time.Sleep(5 * time.Millisecond)
	}
	first, last := boots[0], boots[2]
	if last.Detail != "runs its first stage: root image: 86 of 232 MiB, 3.0 s after its kernel began" ||
		!last.HeardAt.After(first.HeardAt) || !last.StepAt.Equal(first.StepAt) {
		t.Errorf("%+v, then %+v", first, last)
	}
	c.update(func(ctx context.Context, tx *core.Tx) error {
		events, err := tx.Events(ctx, core.EventsOf{Limit: 100})
		told := 0
		for _, e := range events {
			if strings.Contains(e.Text, "first stage") {
				told++
			}
		}
		if told != 1 {
			t.Errorf("%d events tell of its first stage", told)
		}
		return err
	})
}

func TestAnAddressThatAnotherServerGaveIsLearntFromTheBootItself(t *testing.T) {
	c := newTestbed(t, t.TempDir()+"/db", inventory.UnknownEnrol)
	c.update(func(ctx context.Context, tx *core.Tx) error {
		on, err := network.Get(ctx, tx, "boot")
		if err != nil {
			return err
		}
		on.Mode = inventory.ModeProxy
		return network.Put(ctx, tx, on)
	})
	_, token := c.begin()
	sum := sha256.Sum256([]byte(token))
	said := protocol.BootProgress{MAC: known, Step: protocol.StepInit, From: netip.MustParseAddr("10.78.3.4")}
	if err := c.Seen(t.Context(), "boot", said, "wrong"); err == nil {
		t.Error("believed without proof")
	}
	if err := c.Seen(t.Context(), "boot", said, hex.EncodeToString(sum[:])); err != nil {
		t.Fatal(err)
	}
	c.update(func(ctx context.Context, tx *core.Tx) error {
		l, err := network.LeaseOf(ctx, tx, "boot", known)
		if l.Address != said.From {
			t.Errorf("learnt %s", l.Address)
		}
		return err
	})
}

func TestUnknownMachinesAreRememberedUntilTheyAreEnrolled(t *testing.T) {
	c := newTestbed(t, t.TempDir()+"/db", inventory.UnknownEnrol)
	if err := c.Seen(t.Context(), "boot", protocol.BootProgress{MAC: strange, Step: protocol.StepScript}, ""); err != nil {
		t.Fatal(err)
	}
	e := protocol.Enrolment{MACs: []string{strange}, Facts: []byte(`{"cpus": 4}`)}
	if err := c.Enrol(t.Context(), "boot", mac(strange), e); err != nil {
		t.Fatal(err)
	}
	mine := protocol.Enrolment{MACs: []string{known}, Facts: []byte(`{"cpus": 4}`)}
	if err := c.Enrol(t.Context(), "boot", mac(known), mine); err != nil {
		t.Fatal(err)
	}
	c.update(func(ctx context.Context, tx *core.Tx) error {
		all, err := network.DiscoveredMachines(ctx, tx)
		if len(all) != 1 || all[0].MAC != strange || all[0].Facts.CPUs != 4 || !slices.Equal(all[0].MACs, e.MACs) {
			t.Errorf("%+v", all)
		}
		return err
	})
}

// TestWhatMachinesSayIsBounded sends facts of megabytes where words belong.
func TestWhatMachinesSayIsBounded(t *testing.T) {
	c := newTestbed(t, t.TempDir()+"/db", inventory.UnknownEnrol)
	if err := c.Seen(t.Context(), "boot", protocol.BootProgress{MAC: strange, Step: protocol.StepScript}, ""); err != nil {
		t.Fatal(err)
	}
	facts, err := json.Marshal(inventory.Facts{CPUs: 4, System: inventory.System{Product: strings.Repeat("ä", 1<<20)},
		Disks: []inventory.Disk{{Name: strings.Repeat("x", 1<<20)}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Enrol(t.Context(), "boot", mac(strange), protocol.Enrolment{MACs: []string{strange}, Facts: facts}); err != nil {
		t.Fatal(err)
	}
	c.update(func(ctx context.Context, tx *core.Tx) error {
		all, err := network.DiscoveredMachines(ctx, tx)
		if len(all) != 1 || len(all[0].Facts.System.Product) > 256 || len(all[0].Facts.Disks[0].Name) > 256 ||
			!utf8.ValidString(all[0].Facts.System.Product) {
			t.Errorf("%d bytes of a product's name are kept", len(all[0].Facts.System.Product))
		}
		return err
	})
}

// TestWhereAnotherServerGivesAddressesOnlyFramesTell who somebody is: no machine is known behind a relay, and only what boots now
// has what is for its address to itself.
func TestWhereAnotherServerGivesAddressesOnlyFramesTell(t *testing.T) {
	c := newTestbed(t, t.TempDir()+"/db", inventory.UnknownIgnore)
	const relay = "52:54:00:00:00:fe"
	var on inventory.Network
	c.update(func(ctx context.Context, tx *core.Tx) (err error) {
		if on, err = network.Get(ctx, tx, "boot"); err != nil {
			return err
		}
		on.Mode, on.Relays = inventory.ModeProxy, relay
		return network.Put(ctx, tx, on)
	})
	from := func(sender, address string) (hold net.HardwareAddr, err error) {
		c.update(func(ctx context.Context, tx *core.Tx) error {
			m, wrong := machine.Get(ctx, tx, c.machine)
			who := onlink.Caller{Address: netip.MustParseAddr(address), Sender: mac(sender)}
			hold, err = control.AdmitMachine(ctx, tx, on, m, who)
			return wrong
		})
		return hold, err
	}
	if _, err := from(relay, "192.0.2.7"); !errors.Is(err, onlink.ErrUnknownMachine) {
		t.Errorf("whoever comes by the relay is the machine: %v", err)
	}
	if hold, err := from(known, "10.78.3.4"); err != nil || hold != nil {
		t.Errorf("of a machine that does not boot is held: %s, %v", hold, err)
	}
	number, token := c.begin()
	if hold, err := from(known, "10.78.3.4"); err != nil || hold != nil {
		t.Errorf("of a machine that is not yet switched on for its boot is held: %s, %v", hold, err)
	}
	c.update(func(ctx context.Context, tx *core.Tx) error { return machine.PowerBoot(ctx, tx, c.machine, number) })
	if hold, err := from(known, "10.78.3.4"); err != nil || hold.String() != known {
		t.Errorf("of a machine that boots is held: %s, %v", hold, err)
	}
	if hold, err := from(known, "192.0.2.7"); err != nil || hold != nil {
		t.Errorf("an address of elsewhere is held: %s, %v", hold, err)
	}
	sum := sha256.Sum256([]byte(token))
	for _, step := range []protocol.BootStep{protocol.StepInit, protocol.StepAgent} {
		said := protocol.BootProgress{MAC: known, Step: step, From: netip.MustParseAddr("10.78.3.4")}
		if err := c.Seen(t.Context(), "boot", said, hex.EncodeToString(sum[:])); err != nil {
			t.Fatal(err)
		}
	}
	if hold, err := from(known, "10.78.9.9"); err != nil || hold != nil {
		t.Errorf("root of a machine in use holds another address: %s, %v", hold, err)
	}
}

// TestTheLastAddressLeavesTheOthers: one who asks for the end of the range has not all the range.
func TestTheLastAddressLeavesTheOthers(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		c := newTestbed(t, url, inventory.UnknownEnrol)
		if got, err := c.ask(strange, true, "10.78.0.12"); got != "10.78.0.12" || err != nil {
			t.Fatalf("%s, %v", got, err)
		}
		for _, want := range []string{"10.78.0.10", "10.78.0.11"} {
			if got, err := c.ask("52:54:00:00:02:"+want[len(want)-2:], true, ""); got != want || err != nil {
				t.Errorf("%s, %v; want %s", got, err, want)
			}
		}
	})
}

// TestUnknownMachinesAreNewsOnlyWhileTheyAreFew: MACs are made up easily.
func TestUnknownMachinesAreNewsOnlyWhileTheyAreFew(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		c := newTestbed(t, url, inventory.UnknownEnrol)
		for i := range 61 {
			said := protocol.BootProgress{MAC: fmt.Sprintf("52:54:00:00:02:%02x", i%60), Step: protocol.StepScript}
			if err := c.Seen(t.Context(), "boot", said, ""); err != nil {
				t.Fatal(err)
			}
		}
		c.update(func(ctx context.Context, tx *core.Tx) error {
			var all, last int
			err := errors.Join(tx.Row(ctx, `SELECT COUNT(*) FROM event WHERE type = 'machine.unknown'`).Scan(&all),
				tx.Row(ctx, `SELECT COUNT(*) FROM event WHERE text LIKE '%of more within this hour%'`).Scan(&last))
			if all != 50 || last != 1 {
				t.Errorf("%d are news, %d say that there are more", all, last)
			}
			return err
		})
	})
}
