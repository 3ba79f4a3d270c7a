package powertest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"muster/internal/drivers/power"
	"muster/internal/inventory"
	"muster/internal/kit/netns"
)

// MAC is that of every Target.
const MAC = "52:54:00:00:00:01"

// Target is a machine with a control.
func Target(namespace, control, credentials string) power.Target {
	return power.Target{
		Machine: "n1", MACs: []string{MAC},
		Power:   inventory.Power{Control: control, Credentials: credentials},
		Network: inventory.Network{Namespace: namespace},
	}
}

// secrets is the folder of the test program, which goes with it.
func secrets(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(self)
}

// SecretFile writes credentials as an administrator should, and returns what names them. They go with the test.
func SecretFile(t *testing.T, text string) string {
	t.Helper()
	file, err := os.CreateTemp(secrets(t), "bmc-")
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	t.Cleanup(func() { os.Remove(file.Name()) })
	Write(t, file.Name(), 0o600, text+"\nfor 0.0.0.0/0 ::/0 localhost command:pdu command:hang\n")
	return "secret:" + filepath.Base(file.Name())
}

// Secret is the right one.
func Secret(t *testing.T) string {
	t.Helper()
	return SecretFile(t, User+":"+Password)
}

// openFile writes them as one should not.
func openFile(t *testing.T, text string) string {
	t.Helper()
	reference := SecretFile(t, text)
	if err := os.Chmod(filepath.Join(secrets(t), strings.TrimPrefix(reference, "secret:")), 0o644); err != nil {
		t.Fatal(err)
	}
	return reference
}

// Write writes a file of a peer.
func Write(t *testing.T, name string, mode os.FileMode, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// NeedRoot skips what needs namespaces.
func NeedRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: network namespaces need root")
	}
}

// Namespace makes a network namespace with its loopback up. It ends with the test.
func Namespace(t *testing.T) string {
	t.Helper()
	NeedRoot(t)
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

// Start runs a program of a peer in a namespace until the end of the test.
func Start(t *testing.T, space string, c *exec.Cmd) {
	t.Helper()
	var said strings.Builder
	c.Stdout, c.Stderr, c.WaitDelay = &said, &said, time.Second
	if err := netns.Do(space, c.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
		if t.Failed() {
			t.Logf("%s said: %s", c.Path, said.String())
		}
	})
}

// Answers waits for a peer to be ready.
func Answers(t *testing.T, d power.Driver) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		_, err := d.State(t.Context())
		if err == nil {
			return
		}
		if time.Now().After(deadline) || errors.Is(err, power.ErrCredentials) {
			t.Fatal("the peer does not answer: ", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Accounts lists who may log in at a BMC, as an inspection does.
func Accounts(t *testing.T, d power.Driver) []string {
	t.Helper()
	got, err := d.(power.Accountant).Accounts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// WantUsers says which lines about users there have to be; others tell of channels.
func WantUsers(t *testing.T, got []string, want ...string) {
	t.Helper()
	users := slices.DeleteFunc(slices.Clone(got), func(line string) bool { return !strings.Contains(line, "user ") })
	if !slices.Equal(users, want) {
		t.Errorf("users %q, want %q", users, want)
	}
}
