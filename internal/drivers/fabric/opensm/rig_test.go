package opensm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/drivers/fabric/diags"
	"muster/internal/drivers/fabric/fabrictest"
	"muster/internal/drivers/fabric/opensm/ibsim"
	"muster/internal/drivers/fabric/opensm/opensmtest"
	"muster/internal/fabric"
)

// rig is a simulated fabric with real opensm processes, and a driver that tells them.
type rig struct {
	*ibsim.Simulator
	folder   string
	hosts    int
	managers []*running
	driver   *OpenSM
}

// running is one opensm; host i's adapter is its own.
type running struct {
	*opensmtest.Manager
	manager Host
}

func node(host int) string { return fmt.Sprintf("H-%016x", uint64(fabrictest.HostNode(host))) }

// newRig starts a fabric with managers on its first hosts. Programs of infiniband-diags, found on a path of its own, see it.
func newRig(t *testing.T, hosts, perLeaf, spines, managers int) *rig {
	t.Helper()
	r := &rig{folder: t.TempDir(), hosts: hosts}
	var err error
	if r.Simulator, err = ibsim.Start(r.folder, []byte(fabrictest.FatTree(hosts, perLeaf, spines))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	var config Config
	for host := range managers {
		folder := filepath.Join(r.folder, fmt.Sprintf("sm%d", host))
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		opensm := opensmtest.New(t, r.Simulator, folder, host, 14-host, Render(fabric.Intent{Managers: ports(0, managers)}))
		m := &running{opensm, Host{GUID: opensm.GUID, File: opensm.File, Logs: opensm.Logs, Signal: opensm.Signal}}
		m.start(t)
		r.managers = append(r.managers, m)
		config.Managers = append(config.Managers, m.manager)
	}
	config.Observer, config.Scratch, config.Settle = fast{r.diags(t), r}, t.TempDir(), 300*time.Millisecond
	if r.driver, err = New(config); err != nil {
		t.Fatal(err)
	}
	return r
}

func ports(from, to int) []fabric.GUID {
	var all []fabric.GUID
	for i := from; i < to; i++ {
		all = append(all, fabrictest.HostPort(i))
	}
	return all
}

// start runs opensm, and waits until it has swept the fabric once.
func (m *running) start(t *testing.T) {
	t.Helper()
	before := m.said() // nothing if it never ran
	m.Start(t)
	m.swept(t, before)
}

// said is opensm's log; "" while there is none.
func (m *running) said() string {
	text, _ := os.ReadFile(m.Logs)
	return string(text)
}

// swept waits until opensm has swept the fabric, or stands by, since its log was as before.
func (m *running) swept(t *testing.T, before string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		since := strings.TrimPrefix(m.said(), before)
		if sweptLine.MatchString(since) || strings.Contains(since, "Entering STANDBY") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("opensm at port %s did not sweep:\n%s", m.GUID, since)
		}
	}
}

// diags are the real programs, which see the simulated fabric from the first host.
func (r *rig) diags(t *testing.T) diags.Programs {
	t.Helper()
	environment, err := r.Environment(node(0))
	if err != nil {
		t.Fatal(err)
	}
	return diags.Programs{Shell: diags.Shell{"env", "PATH=" + opensmtest.Programs(t, r.folder, environment), "sh", "-s"}}
}

// fast reads tables by the simulator's own words, in one process: for many steps on many ports.
type fast struct {
	diags.Programs
	rig *rig
}

func (f fast) Tables(ctx context.Context, snapshot []byte) (fabric.Tables, error) {
	places, err := diags.Places(snapshot)
	if err != nil {
		return nil, err
	}
	c, err := f.rig.Connect(node(0))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	seen := fabric.Tables{}
	for port, at := range places {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if who, table, err := c.Port(at.LID); err == nil && who == port {
			seen[port] = table
		}
	}
	return seen, nil
}

// link takes the link of the host with a port down or up.
func (r *rig) link(t *testing.T, port fabric.GUID, up bool) {
	t.Helper()
	command := "Unlink"
	if up {
		command = "ReLink"
	}
	if err := r.Console(fmt.Sprintf("%s \"H-%016x\"[1]", command, uint64(port)-1)); err != nil {
		t.Fatal(err)
	}
}

// write has a host add an entry to its own port's table.
func (r *rig) write(t *testing.T, port fabric.GUID, e fabric.Entry) {
	t.Helper()
	snapshot, err := r.driver.Observer.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	places, err := diags.Places(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Connect(node(0)) // the simulator has no M_Keys, so that it does not matter who writes
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	slots, err := c.Block(places[port].LID, 1)
	if err != nil {
		t.Fatal(err)
	}
	for n := range slots {
		if slots[n] == 0 {
			slots[n] = e
			break
		}
	}
	if err := c.SetBlock(places[port].LID, 1, slots); err != nil {
		t.Fatal(err)
	}
}
