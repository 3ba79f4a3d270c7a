package kinds_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/fabric/diags"
	"muster/internal/drivers/fabric/fabrictest"
	"muster/internal/drivers/fabric/opensm"
	"muster/internal/drivers/fabric/opensm/ibsim"
	"muster/internal/drivers/fabric/opensm/opensmtest"
	"muster/internal/drivers/substrate"
	"muster/internal/fabric"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
)

// subnet is a simulated fabric with a real opensm on its first host; the others are machines'.
type subnet struct {
	*testing.T
	simulator *ibsim.Simulator
	driver    *opensm.OpenSM
}

// Driver makes it life.Fabrics.
func (s *subnet) Driver(fabrics.Fabric) (fabric.Driver, error) { return s.driver, nil }

func simulated(host int) string { return fmt.Sprintf("H-%016x", uint64(fabrictest.HostNode(host))) }

func newSubnet(t *testing.T, hosts int) *subnet {
	t.Helper()
	folder := t.TempDir()
	simulator, err := ibsim.Start(folder, []byte(fabrictest.FatTree(hosts, 4, 2)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(simulator.Stop)
	real := opensmtest.New(t, simulator, folder, 0, 14,
		opensm.Render(fabric.Intent{Managers: []fabric.GUID{fabrictest.HostPort(0)}}))
	real.Start(t)
	manager := opensm.Host{GUID: real.GUID, File: real.File, Logs: real.Logs, Signal: real.Signal}
	observer := diags.Programs{Shell: slices.Concat([]string{"env"}, real.Environment, []string{"/bin/sh", "-s"})}
	driver, err := opensm.New(opensm.Config{Managers: []opensm.Manager{manager}, Observer: observer, Scratch: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return &subnet{t, simulator, driver}
}

// tables is what the machines' ports hold, their default entries aside.
func (s *subnet) tables(hosts int) map[fabric.GUID][]fabric.Entry {
	s.Helper()
	seen, err := s.driver.Observe(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	all := map[fabric.GUID][]fabric.Entry{}
	for i := 1; i < hosts; i++ {
		all[fabrictest.HostPort(i)] = slices.DeleteFunc(slices.Clone(seen[fabrictest.HostPort(i)].Entries),
			func(e fabric.Entry) bool { return e == 0x7fff })
	}
	return all
}

// TestClustersComeAndGoOnARealSubnetManager is the whole way but for the machines: rows, handlers, files, opensm, and what is
// read from the ports.
func TestClustersComeAndGoOnARealSubnetManager(t *testing.T) {
	const hosts = 8
	net := newSubnet(t, hosts)
	s := newFixture(t, t.TempDir()+"/db", hosts-1)
	s.deps.Fabrics, s.deps.Pace = net, life.FabricPace{Apply: 20 * time.Second, Observe: 2 * time.Second, Again: time.Second}
	s.limit(func(l *substrate.Deadlines) { l.Join = time.Minute })
	s.update(func(ctx context.Context, tx *core.Tx) error {
		if err := fabrics.Add(ctx, tx, fabrics.Fabric{ID: fabric0, Name: "ib0", Driver: "opensm",
			Managers: []fabric.GUID{fabrictest.HostPort(0)}}); err != nil {
			return err
		}
		machines, err := machine.List(ctx, tx)
		for i, m := range machines {
			port := fabrics.Port{GUID: fabrictest.HostPort(i + 1), Adapter: fabrictest.HostNode(i + 1)}
			if err == nil {
				err = fabrics.PutPorts(ctx, tx, fabric0, []fabrics.Port{port}, "")
			}
			if err == nil {
				err = fabrics.GivePort(ctx, tx, port.GUID, m.ID, true)
			}
		}
		return err
	})
	s.run(1)
	s.untilFree(hosts - 1)
	began := time.Now()
	a, b := s.create("a", 2), s.create("b", 1)
	s.untilReady(a, 2)
	s.untilReady(b, 1)
	t.Logf("two clusters are ready %s after they were asked for", time.Since(began).Round(10*time.Millisecond))
	w := &weave{fixture: s}
	count := func() map[string]int {
		counts := map[string]int{}
		for _, entries := range net.tables(hosts) {
			counts[fmt.Sprint(entries)]++
		}
		return counts
	}
	keyA, keyB := fmt.Sprint([]fabric.Entry{w.keyOf(a).In(fabric.Full)}), fmt.Sprint([]fabric.Entry{w.keyOf(b).In(fabric.Full)})
	if c := count(); keyA == keyB || c[keyA] != 3 || c[keyB] != 2 || c["[]"] != 2 {
		t.Errorf("%v", c)
	}
	m := w.machineOf(a, "n1")
	var rogue fabric.GUID
	s.view(func(ctx context.Context, tx *core.Tx) error {
		ports, err := fabrics.NodePorts(ctx, tx, m.Holder)
		rogue = ports[0].GUID
		return err
	})
	began = time.Now()
	writeKey(t, net, rogue, w.keyOf(b).In(fabric.Full))
	w.wait("the rogue is set apart", func(ctx context.Context, tx *core.Tx) (bool, error) {
		now, err := machine.Get(ctx, tx, m.ID)
		return strings.Contains(now.QuarantineReason, "keys that are not its own"), err
	})
	t.Logf("a port that root wrote a key into: its machine is set apart %s later", time.Since(began).Round(10*time.Millisecond))
}

// writeKey has root on a port's host write an entry into the port's own table.
func writeKey(t *testing.T, s *subnet, port fabric.GUID, entry fabric.Entry) {
	t.Helper()
	host := 1
	for fabrictest.HostPort(host) != port {
		host++
	}
	client, err := s.simulator.Connect(simulated(host))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for lid := uint16(1); lid < 64; lid++ {
		guid, _, err := client.Port(lid)
		if err != nil || guid != port {
			continue
		}
		slots, err := client.Block(lid, 0)
		if err != nil {
			t.Fatal(err)
		}
		slots[len(slots)-1] = entry
		if err := client.SetBlock(lid, 0, slots); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no local identifier of port %s", port)
}
