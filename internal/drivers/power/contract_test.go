package power_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"muster/internal/drivers/power"
	"muster/internal/inventory"
	"muster/internal/netns"
)

const (
	user     = "ADMIN"
	password = "s3cret:Never/Shown"
	wrong    = "wr0ng:Never/Shown"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is a machine with its power control, as a driver finds it.
type peer struct {
	opener power.Opener
	target power.Target // with the right credentials, if the control has any
	// dead is the same control where nobody answers.
	dead power.Target
	// boots says that the peer has understood a boot from the network, once. nil: it cannot.
	boots func() error
	// unplug takes the power away where the control cannot.
	unplug func()
}

// TestEveryDriverKeepsTheContract runs each driver against real peers where there are any.
func TestEveryDriverKeepsTheContract(t *testing.T) {
	for _, c := range []struct {
		name string
		peer func(*testing.T) peer
	}{
		{"wol, two namespaces and a machine between them", wolPeer},
		{"ipmi, go-ipmi's BMC", goIPMIPeer},
		{"ipmi, OpenIPMI's BMC", openIPMIPeer},
		{"redfish, our own service", fakeRedfishPeer},
		{"redfish, sushy-tools", sushyPeer},
		{"command, a shell script", commandPeer},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := c.peer(t)
			t.Run("it switches", func(t *testing.T) { switches(t, p) })
			t.Run("it ends with its context", func(t *testing.T) { ends(t, p) })
			t.Run("it refuses wrong credentials and does not tell them", func(t *testing.T) { refuses(t, p) })
		})
	}
}

func switches(t *testing.T, p peer) {
	d := open(t, p.opener, p.target)
	becomes(t, d, power.Off)
	for range 2 {
		if err := d.On(t.Context()); err != nil {
			t.Fatal(err)
		}
		becomes(t, d, power.On)
	}
	switch err := d.BootFromNetwork(t.Context()); {
	case p.boots == nil && !errors.Is(err, power.ErrUnsupported):
		t.Fatalf("boot from the network: %v; it cannot, and has to say so", err)
	case p.boots != nil && err != nil:
		t.Fatal(err)
	case p.boots != nil:
		if err := p.boots(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		switch err := d.Off(t.Context()); {
		case p.unplug != nil && !errors.Is(err, power.ErrUnsupported):
			t.Fatalf("off: %v; it cannot, and has to say so", err)
		case p.unplug != nil:
			p.unplug()
		case err != nil:
			t.Fatal(err)
		}
		becomes(t, d, power.Off)
	}
}

func ends(t *testing.T, p peer) {
	d := open(t, p.opener, p.dead)
	for name, call := range map[string]func(context.Context) error{
		"on":    d.On,
		"state": func(ctx context.Context) error { _, err := d.State(ctx); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		began := time.Now()
		err := call(ctx)
		took := time.Since(began)
		cancel()
		if took > 2*time.Second {
			t.Errorf("%s: %v after the end of its context", name, took)
		}
		if p.unplug != nil && name == "on" {
			continue // a magic packet is sent and forgotten
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, not the end of the context", name, err)
		}
	}
}

func refuses(t *testing.T, p peer) {
	if p.target.Power.Credentials == "" {
		return
	}
	for name, credentials := range map[string]string{
		"wrong password": secretFile(t, user+":"+wrong),
		"wrong user":     secretFile(t, "nobody:"+password),
		"no file":        "file:/nonexistent/" + user,
		"no variable":    "env:BMC_NO_SUCH_VARIABLE",
		"open to others": openFile(t, user+":"+password),
		"no password":    secretFile(t, password),
		"two lines":      secretFile(t, user+":"+password+"\n"+password),
	} {
		target := p.target
		target.Power.Credentials = credentials
		d := open(t, p.opener, target)
		_, err := d.State(t.Context())
		for what, err := range map[string]error{
			"state": err, "on": d.On(t.Context()), "off": d.Off(t.Context()), "boot": d.BootFromNetwork(t.Context()),
		} {
			if !errors.Is(err, power.ErrCredentials) {
				t.Errorf("%s: %s: %v; it is about credentials", name, what, err)
			}
			if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, password) || strings.Contains(text, wrong) {
				t.Errorf("%s: %s: the error tells a password: %s", name, what, text)
			}
		}
		if text := fmt.Sprintf("%v %+v %#v", d, d, target); strings.Contains(text, password) || strings.Contains(text, wrong) {
			t.Errorf("%s: the driver tells a password: %s", name, text)
		}
	}
}

func open(t *testing.T, o power.Opener, target power.Target) power.Driver {
	t.Helper()
	if path, is := strings.CutPrefix(target.Power.Credentials, "file:"); is { // each test's secrets have a folder of their own
		o.SecretDir = filepath.Dir(path)
	}
	d, err := o.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// becomes waits until the state is seen.
func becomes(t *testing.T, d power.Driver, wanted power.State) {
	t.Helper()
	deadline := time.Now().Add(8 * time.Second)
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

// secretFile writes credentials as an administrator should.
func secretFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "bmc")
	if err := os.WriteFile(name, []byte(text+"\nfor 0.0.0.0/0 ::/0 localhost command:pdu command:hang\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file:" + name
}

// openFile writes them as one should not.
func openFile(t *testing.T, text string) string {
	t.Helper()
	reference := secretFile(t, text)
	if err := os.Chmod(strings.TrimPrefix(reference, "file:"), 0o644); err != nil {
		t.Fatal(err)
	}
	return reference
}

// target is a machine with a control.
func target(namespace, control, credentials string) power.Target {
	return power.Target{
		Machine: "n1", MACs: []string{"52:54:00:00:00:01"},
		Power:   inventory.Power{Control: control, Credentials: credentials},
		Network: inventory.Network{Namespace: namespace},
	}
}

// needRoot skips what needs namespaces.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: network namespaces need root")
	}
}

// namespace makes a network namespace with its loopback up. It ends with the test.
func namespace(t *testing.T) string {
	t.Helper()
	needRoot(t)
	path := filepath.Join(t.TempDir(), "net")
	err := netns.New(path, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return path
}
