package ovs_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	switches "muster/internal/drivers/switch"
	"muster/internal/drivers/switch/ovs"
	"muster/internal/drivers/switch/switchtest"
	"muster/internal/inventory"
	"muster/internal/kit/netns"
	"muster/internal/kit/testall"
	vswitch "muster/test/ovs"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// opened is a real Open vSwitch in the testbed's namespace, with all ports on its bridge.
func opened(t *testing.T, y *switchtest.Testbed) (s switches.Switch, database, dir string) {
	t.Helper()
	database, dir = vswitch.Start(t, y.Namespace, y.Ports()...)
	return ovs.Factory().Open(inventory.Network{
		SwitchBridge: vswitch.Bridge, SwitchDatabase: database, Namespace: y.Namespace, Interface: switchtest.CommonBridge,
	}), database, dir
}

func TestItKeepsTheContract(t *testing.T) {
	testall.Only(t)
	switchtest.Test(t, func(t *testing.T) switchtest.Subject {
		y := switchtest.NewTestbed(t, switchtest.Names()...)
		s, database, _ := opened(t, y)
		add := func(t *testing.T, port string) {
			check(t, exec.Command("ovs-vsctl", "--db="+database, "--timeout=20", "add-port", vswitch.Bridge, port).Run())
		}
		return switchtest.Subject{Factory: ovs.Factory(), Switch: s, Testbed: y, Add: add}
	})
}

// TestASwitchThatWasStartedAnewIsReminded has Open vSwitch's daemon die and come back: the segments stay, the pins do not.
func TestASwitchThatWasStartedAnewIsReminded(t *testing.T) {
	y := switchtest.NewTestbed(t, "a1", "c1")
	s, database, dir := opened(t, y)
	in := switchtest.Subject{Switch: s, Testbed: y}
	placed := []switches.Placed{{Port: in.Port("a1"), In: 5}, {Port: in.Port("c1"), In: switches.Common}}
	for _, p := range placed {
		check(t, s.Put(t.Context(), p.Port, p.In))
	}
	forgetful := s.(switches.Forgetful)
	forgotten := func(want int) {
		t.Helper()
		if all, err := forgetful.Forgotten(t.Context(), placed); err != nil || len(all) != want {
			t.Fatalf("of %+v is not known where they are, %v", all, err)
		}
	}
	forgotten(0)
	text, err := os.ReadFile(filepath.Join(dir, "ovs-vswitchd.pid"))
	check(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	check(t, err)
	check(t, syscall.Kill(pid, syscall.SIGKILL))
	check(t, unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)) // until then it holds the lock on its pidfile
	c := exec.Command("ovs-vswitchd", database, "--pidfile", "--log-file="+filepath.Join(dir, "ovs.log"), "-vconsole:off")
	c.Env = append(os.Environ(), "OVS_RUNDIR="+dir, "OVS_LOGDIR="+dir, "OVS_DBDIR="+dir)
	check(t, netns.Do(y.Namespace, c.Start))
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
	})
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := forgetful.Forgotten(t.Context(), placed); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal("ovs-vswitchd does not answer again:", err)
		}
	}
	forgotten(2)
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) { // it answers before it has its ports
		if err := errors.Join(forgetful.Remind(t.Context(), placed[0]), forgetful.Remind(t.Context(), placed[1])); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	forgotten(0)
	ports, err := s.Ports(t.Context())
	if err != nil || ports[placed[0].Name] != 5 || ports[placed[1].Name] != switches.Common {
		t.Errorf("the ports are elsewhere: %v, %v", ports, err)
	}
}
