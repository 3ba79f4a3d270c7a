package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/core"
	fabricfake "muster/internal/drivers/fabric/fake"
	"muster/internal/fabric"
	"muster/internal/kinds/cluster"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
)

// weave gives every machine of a stage a port on one fabric, in the order of their names.
type weave struct {
	*fixture
	fabric *fabricfake.Fabric
	ports  map[string]fabric.GUID // by machine's name
}

const (
	manager = fabric.GUID(0xffff)
	fabric0 = "f0"
)

// Driver makes it life.Fabrics.
func (w *weave) Driver(fabrics.Fabric) (fabric.Driver, error) { return w.fabric, nil }

func newWeave(t *testing.T, url string, machines int) *weave {
	w := &weave{fixture: newFixture(t, url, machines), fabric: fabricfake.New(manager), ports: map[string]fabric.GUID{}}
	w.deps.Fabrics = w
	w.deps.Pace = life.FabricPace{Apply: 2 * time.Second, Observe: 100 * time.Millisecond, Again: 50 * time.Millisecond}
	w.update(func(ctx context.Context, tx *core.Tx) error {
		clear(w.ports)
		if err := fabrics.Add(ctx, tx,
			fabrics.Fabric{ID: fabric0, Name: "ib0", Driver: "fake", Managers: []fabric.GUID{manager}}); err != nil {
			return err
		}
		all, err := machine.List(ctx, tx)
		if err != nil {
			return err
		}
		for i, m := range all {
			guid := fabric.GUID(i + 1)
			w.ports[m.Name] = guid
			if err := fabrics.PutPorts(ctx, tx, fabric0, []fabrics.Port{{GUID: guid, Adapter: guid + 1000, Number: 1}},
				""); err != nil {
				return err
			}
			if err := fabrics.GivePort(ctx, tx, guid, m.ID, true); err != nil {
				return err
			}
		}
		return nil
	})
	for _, guid := range w.ports {
		w.fabric.Add(guid)
	}
	return w
}

// tables is what the ports hold now, their default entries aside.
func (w *weave) tables() map[fabric.GUID][]fabric.Entry {
	w.Helper()
	seen, err := w.fabric.Observe(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	all := map[fabric.GUID][]fabric.Entry{}
	for guid, p := range seen {
		if guid != manager {
			all[guid] = slices.DeleteFunc(slices.Clone(p.Entries), func(e fabric.Entry) bool { return e == 0x7fff })
		}
	}
	return all
}

// keyOf is the key of a cluster.
func (w *weave) keyOf(cluster string) (key fabric.Key) {
	w.Helper()
	w.view(func(ctx context.Context, tx *core.Tx) error {
		all, err := fabrics.Partitions(ctx, tx, fabric0)
		for _, p := range all {
			if p.ClusterID == cluster {
				key = p.Key
			}
		}
		return err
	})
	return key
}

// machineOf is the machine of a cluster's node.
func (w *weave) machineOf(cluster, nodeID string) (m machine.Machine) {
	w.Helper()
	w.view(func(ctx context.Context, tx *core.Tx) error {
		nodes, err := node.Of(ctx, tx, cluster)
		for _, n := range nodes {
			if n.Name == nodeID && err == nil {
				m, err = machine.Get(ctx, tx, n.MachineID)
			}
		}
		return err
	})
	if m.ID == "" {
		w.Fatalf("there is no node %s", nodeID)
	}
	return m
}

func (w *weave) wait(what string, ok func(ctx context.Context, tx *core.Tx) (bool, error)) {
	w.Helper()
	if !w.eventually(func() (is bool) {
		w.view(func(ctx context.Context, tx *core.Tx) (err error) {
			is, err = ok(ctx, tx)
			return err
		})
		return is
	}) {
		w.Fatalf("waited in vain: %s", what)
	}
}

func TestClustersComeAndGoWithPartitionsOfTheirOwn(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		w := newWeave(t, url, 6)
		w.run(1)
		w.untilFree(6)
		a, b := w.create("a", 2), w.create("b", 1)
		w.untilReady(a, 2)
		w.untilReady(b, 1)
		if w.keyOf(a) == w.keyOf(b) || w.keyOf(a) == 0 {
			t.Fatalf("keys %s and %s", w.keyOf(a), w.keyOf(b))
		}
		counts := map[string]int{}
		for _, entries := range w.tables() {
			counts[fmt.Sprint(entries)]++
		}
		if counts[fmt.Sprint([]fabric.Entry{w.keyOf(a).In(fabric.Full)})] != 3 ||
			counts[fmt.Sprint([]fabric.Entry{w.keyOf(b).In(fabric.Full)})] != 2 || counts["[]"] != 1 {
			t.Errorf("%v", counts)
		}
		w.scale(a, 1)
		w.untilReady(a, 1)
		w.remove(a)
		w.untilDeleted(a, 4)
		w.remove(b)
		w.untilClean(b)
		w.wait("keys free", func(ctx context.Context, tx *core.Tx) (bool, error) {
			left, err := fabrics.Partitions(ctx, tx, fabric0)
			return len(left) == 0, err
		})
		for guid, entries := range w.tables() {
			if len(entries) > 0 {
				t.Errorf("port %s holds %v", guid, entries)
			}
		}
	})
}

// untilDeleted waits for a cluster's end while others live, and so many free machines.
func (w *weave) untilDeleted(id string, free int) {
	w.Helper()
	w.until(id, "deleted", func(c cluster.Cluster, _ []node.Node) bool { return c.Phase == core.Deleted })
	w.untilFree(free)
}

func TestANodeBootsOnlyWhenItsPortWasSeenWithItsKey(t *testing.T) {
	t.Parallel()
	w := newWeave(t, t.TempDir()+"/db", 3)
	w.run(1)
	w.untilFree(3)
	w.fabric.Refuse(errors.New("it rains"))
	id := w.create("a", 1)
	w.until(id, "waiting", func(_ cluster.Cluster, nodes []node.Node) bool {
		return !slices.ContainsFunc(nodes, func(n node.Node) bool {
			return n.Phase != node.Attaching || !strings.Contains(n.Reason, "waits until fabric ib0")
		})
	})
	if refs, _ := w.substrate.List(context.Background()); len(refs) > 0 {
		t.Errorf("%v boot", refs)
	}
	w.wait("fabric degraded", func(ctx context.Context, tx *core.Tx) (bool, error) {
		f, err := fabrics.Get(ctx, tx, "ib0")
		return f.Phase == core.Degraded && strings.Contains(f.Reason, "it rains"), err
	})
	w.fabric.Rogue(1, 0x8009)
	w.wait("what ports hold is read all the same", func(ctx context.Context, tx *core.Tx) (bool, error) {
		seen, err := fabrics.PortsSeen(ctx, tx, fabric0)
		return slices.Contains(seen[1].Entries, 0x8009) && len(seen[1].Surplus) == 0, err
	})
	w.view(func(ctx context.Context, tx *core.Tx) error {
		f, err := fabrics.Get(ctx, tx, fabric0)
		if f.Seen != 0 {
			t.Errorf("what is read while the manager cannot be told counts as revision %d", f.Seen)
		}
		return err
	})
	w.fabric.Rogue(1)
	w.wait("that it is gone, too", func(ctx context.Context, tx *core.Tx) (bool, error) {
		seen, err := fabrics.PortsSeen(ctx, tx, fabric0)
		return !slices.Contains(seen[1].Entries, 0x8009), err
	})
	w.fabric.Refuse(nil)
	w.untilReady(id, 1)
}

func TestAMachineIsGivenOnOnlyWhenItsPortWasSeenWithoutTheKey(t *testing.T) {
	t.Parallel()
	w := newWeave(t, t.TempDir()+"/db", 2)
	w.run(1)
	w.untilFree(2)
	id := w.create("a", 1)
	w.untilReady(id, 1)
	m := w.machineOf(id, "n1")
	w.fabric.Rogue(w.ports[m.Name], w.keyOf(id).In(fabric.Full)) // it keeps its key whatever it is told
	w.remove(id)
	w.until(id, "deleting", func(c cluster.Cluster, nodes []node.Node) bool {
		return len(nodes) == 1 && nodes[0].Phase == core.Releasing && strings.Contains(nodes[0].Reason, "is seen without key")
	})
	w.fabric.Silence(w.ports[m.Name], true) // off: then nothing can be read, and its node may go; its machine may not
	w.untilFree(1)
	w.wait("the machine is held back", func(ctx context.Context, tx *core.Tx) (bool, error) {
		now, err := machine.Get(ctx, tx, m.ID)
		return now.Phase == machine.Inspecting && strings.Contains(now.Reason, "is seen without key"), err
	})
	w.view(func(ctx context.Context, tx *core.Tx) error {
		left, err := fabrics.Partitions(ctx, tx, fabric0)
		if len(left) != 1 {
			t.Errorf("its key is free: %+v", left)
		}
		return err
	})
	w.fabric.Rogue(w.ports[m.Name])
	w.fabric.Silence(w.ports[m.Name], false)
	w.untilClean(id)
}

func TestARoguePortEndsItsOwnNodeAlone(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		w := newWeave(t, url, 9)
		w.run(1)
		w.untilFree(9)
		a, b := w.create("a", 2), w.create("b", 2)
		w.untilReady(a, 2)
		w.untilReady(b, 2)
		m := w.machineOf(a, "n1")
		began := time.Now()
		w.fabric.Rogue(w.ports[m.Name], w.keyOf(b).In(fabric.Full))
		w.wait("the rogue is set apart", func(ctx context.Context, tx *core.Tx) (bool, error) {
			now, err := machine.Get(ctx, tx, m.ID)
			return strings.Contains(now.QuarantineReason, "keys that are not its own"), err
		})
		t.Logf("set apart %s after it wrote", time.Since(began).Round(time.Millisecond))
		w.wait("there is an alarm", func(ctx context.Context, tx *core.Tx) (bool, error) {
			alarms, err := host.Alarms(ctx, tx)
			return len(alarms) == 1 && alarms[0].Place == "fabric ib0" && strings.Contains(alarms[0].Text, m.Name), err
		})
		c := w.create("c", 1) // others come and go meanwhile
		w.untilReady(c, 1)
		w.wait("its node is ended", func(ctx context.Context, tx *core.Tx) (bool, error) {
			n, err := node.Get(ctx, tx, m.Holder)
			return n.Phase == core.Failed && strings.Contains(n.Reason, "is seen without key"), err
		})
		w.fabric.Silence(w.ports[m.Name], true)
		w.fabric.Rogue(w.ports[m.Name]) // it has lost its power, and with it what was written there
		w.untilReady(a, 2)
		w.view(func(ctx context.Context, tx *core.Tx) error {
			now, err := machine.Get(ctx, tx, m.ID)
			if !strings.HasPrefix(now.QuarantineReason, "on fabric ib0 its port was seen with keys that are not its own") {
				t.Errorf("the rogue's machine is set apart for another reason: %s", now.QuarantineReason)
			}
			return err
		})
		w.fabric.Silence(w.ports[m.Name], false)
		w.wait("the alarm is over", func(ctx context.Context, tx *core.Tx) (bool, error) {
			alarms, err := host.Alarms(ctx, tx)
			return len(alarms) == 0, err
		})
		w.untilFree(1)
		w.view(func(ctx context.Context, tx *core.Tx) error {
			for _, id := range []string{b, c} {
				now, err := cluster.Get(ctx, tx, id)
				if err != nil || now.Phase != core.Ready {
					t.Errorf("cluster %s is %s: %v", now.Name, now.Phase, err)
				}
			}
			return nil
		})
	})
}

func TestAManagerThatLetsAllInEndsNoNode(t *testing.T) {
	t.Parallel()
	w := newWeave(t, t.TempDir()+"/db", 6)
	w.run(1)
	w.untilFree(6)
	id := w.create("a", 4)
	w.untilReady(id, 4)
	for _, guid := range w.ports {
		w.fabric.Rogue(guid, 0xffff)
	}
	w.wait("there is an alarm", func(ctx context.Context, tx *core.Tx) (bool, error) {
		alarms, err := host.Alarms(ctx, tx)
		return len(alarms) == 1 && strings.Contains(alarms[0].Text, "look at the subnet manager"), err
	})
	time.Sleep(300 * time.Millisecond)
	w.view(func(ctx context.Context, tx *core.Tx) error {
		machines, err := machine.List(ctx, tx)
		for _, m := range machines {
			if m.QuarantineReason != "" {
				t.Errorf("machine %s is set apart: %s", m.Name, m.QuarantineReason)
			}
		}
		return err
	})
}
