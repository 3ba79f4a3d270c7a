// Package ovs runs a real Open vSwitch for tests, in a network namespace, with its datapath in user space.
//
// What enters: a test, the namespace, ports that are there. What leaves: where the switch has its database and files. It
// ends with the test.
package ovs

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/netns"
)

// Bridge is the bridge that has the ports.
const Bridge = "machines"

// Start runs one with these ports on its bridge. Dir is its folder, for what a test does to its daemons.
func Start(t testing.TB, namespace string, ports ...string) (database, dir string) {
	t.Helper()
	if _, err := exec.LookPath("ovs-vswitchd"); err != nil {
		t.Fatal("Open vSwitch is missing; `make setup` installs it:", err)
	}
	dir, err := os.MkdirTemp("", "ovs") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	socket := filepath.Join(dir, "db.sock")
	database = "unix:" + socket
	environment := append(os.Environ(), "OVS_RUNDIR="+dir, "OVS_LOGDIR="+dir, "OVS_DBDIR="+dir)
	run := func(args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), args[0], args[1:]...)
		c.Env = environment
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	start := func(args ...string) {
		t.Helper()
		c := exec.Command(args[0], args[1:]...)
		c.Env = environment
		if err := netns.Do(namespace, c.Start); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait() // it was killed
		})
	}
	file := filepath.Join(dir, "conf.db")
	run("ovsdb-tool", "create", file, "/usr/share/openvswitch/vswitch.ovsschema")
	start("ovsdb-server", file, "--remote=p"+database, "--pidfile", "--log-file="+filepath.Join(dir, "db.log"), "-vconsole:off")
	for end := time.Now().Add(2 * time.Minute); !listens(socket); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("ovsdb-server does not begin to listen")
		}
	}
	run("ovs-vsctl", "--db="+database, "--timeout=20", "--no-wait", "init")
	start("ovs-vswitchd", database, "--pidfile", "--log-file="+filepath.Join(dir, "ovs.log"), "-vconsole:off")
	args := []string{"ovs-vsctl", "--db=" + database, "--timeout=20", "add-br", Bridge, "--", "set", "Bridge", Bridge,
		"datapath_type=netdev"}
	for _, port := range ports {
		args = append(args, "--", "add-port", Bridge, port)
	}
	run(args...)
	return database, dir
}

func listens(socket string) bool {
	c, err := net.Dial("unix", socket)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}
