// Package fabric tries fabrics from the command line on: a real controller and a real opensm, on a simulated fabric.
package fabric

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/drivers/fabric/fabrictest"
	"muster/internal/drivers/fabric/opensm"
	"muster/internal/drivers/fabric/opensm/ibsim"
	"muster/internal/drivers/fabric/opensm/opensmtest"
	"muster/internal/fabric"
	"muster/internal/kit/testall"
	"muster/test/rig"
)

const hosts = 8

func TestAFabricIsKeptFromTheCommandLine(t *testing.T) {
	r, _ := withFabric(t)
	if again := r.Muster("fabric", "add", "ib0", "--manager", "0x1"); again.Code != 5 || !strings.Contains(again.Err, "exists") {
		t.Errorf("a second one of the name: exit %d\n%s", again.Code, again.Err)
	}
	if wrong := r.Muster("fabric", "add", "ib1", "--driver", "sm", "--manager", "0x1"); wrong.Code != 2 ||
		!strings.Contains(wrong.Err, "there are opensm, ufm") {
		t.Errorf("an unknown driver: exit %d\n%s", wrong.Code, wrong.Err)
	}
	storage := fabrictest.HostPort(1)
	began := time.Now()
	r.Run("fabric", "infra", "set", "ib0", "storage", "--member", storage.String())
	var f apiv1.Fabric
	r.Until("the storage's port was seen with its key", func() bool {
		r.Get(&f, "fabric", "get", "ib0")
		for _, p := range f.Ports {
			if p.Port == storage.String() && len(p.Entries) == 2 && p.Entries[1] == fabric.Key(0x7000).In(fabric.Full).String() {
				return f.Phase == apiv1.Ready
			}
		}
		return false
	})
	t.Logf("a partition of the site's own was read back %s after it was asked for; %s", time.Since(began).Round(time.Millisecond),
		f.Reason)
	if said := r.Muster("fabric", "diff", "ib0"); !strings.Contains(said.Out+said.Err, "no port differs") {
		t.Errorf("%+v", said)
	}
	t.Log("\n" + r.Run("fabric", "get", "ib0"))
	r.Run("fabric", "forget", "ib0", fabrictest.HostPort(hosts-1).String())
	r.Run("fabric", "infra", "remove", "ib0", "storage")
	r.Until("its key is free", func() bool {
		r.Get(&f, "fabric", "get", "ib0")
		return len(f.Partitions) == 0
	})
	if len(f.Ports) != hosts-1 {
		t.Errorf("%d ports are known, of which one was forgotten", len(f.Ports))
	}
	if wrong := r.Muster("fabric", "forget", "ib0", "0x12"); wrong.Code == 0 || !strings.Contains(wrong.Err, "port") {
		t.Errorf("a port that is none: exit %d\n%s", wrong.Code, wrong.Err)
	}
	r.Run("fabric", "remove", "ib0")
}

// TestClustersHaveKeysOfTheirOwn is a user's whole way: clusters on machines whose ports are on a fabric, each with a key
// of its own in its ports' tables; a tenant who writes another's key into his own port loses his node; and no table holds a
// key of a cluster that has been deleted.
func TestClustersHaveKeysOfTheirOwn(t *testing.T) {
	testall.Only(t)
	r, simulator := withFabric(t)
	const machines = 5
	r.Run("machines", "add", "--local", fmt.Sprint(machines), "--wait")
	port := map[string]fabric.GUID{} // by machine
	for i := range machines {
		machine := fmt.Sprintf("local-%d", i+1)
		port[machine] = fabrictest.HostPort(i + 1)
		r.Run("fabric", "assign", "ib0", port[machine].String(), machine)
	}
	table := func(machine string) []fabric.Entry { return read(t, simulator, port[machine]) }

	clusters := map[string]apiv1.Cluster{}
	for _, name := range []string{"air", "ice"} {
		began := time.Now()
		r.Run("create", "-f", r.File(name+".yaml", "name: "+name+"\nnodes: 1\nsoftware: {scheduler: none}\n"), "--wait",
			"--timeout", "2m")
		t.Logf("cluster %s was ready after %s", name, time.Since(began).Round(time.Millisecond))
		var c apiv1.Cluster
		r.Get(&c, "get", name)
		clusters[name] = c
		if len(c.Keys) != 1 || c.Keys[0].Fabric != "ib0" {
			t.Fatalf("cluster %s has keys %+v", name, c.Keys)
		}
		for _, n := range c.Nodes {
			if got, want := table(n.Machine), []fabric.Entry{0x7fff, full(t, c.Keys[0])}; !slices.Equal(got, want) {
				t.Errorf("%s/%s on %s: its port holds %v, not %v", name, n.Name, n.Machine, got, want)
			}
		}
	}
	air, ice := clusters["air"], clusters["ice"]
	if air.Keys[0].Key == ice.Keys[0].Key {
		t.Fatalf("both have key %s", air.Keys[0].Key)
	}
	t.Log("\n" + r.Run("fabric", "get", "ib0"))

	// Root on a node of air writes ice's key into its own port.
	thief := air.Nodes[1]
	write(t, simulator, port[thief.Machine], full(t, ice.Keys[0]))
	began := time.Now()
	r.Until("the thief's machine is set apart", func() bool {
		var m apiv1.Machine
		r.Get(&m, "machines", "get", thief.Machine)
		return m.Phase == apiv1.Quarantined
	})
	t.Logf("%s was set apart %s after it held another's key", thief.Machine, time.Since(began).Round(100*time.Millisecond))
	r.Eventually(2*time.Minute, "its node is replaced, on another machine", func() bool {
		var c apiv1.Cluster
		r.Get(&c, "get", "air")
		return c.Phase == apiv1.Ready && len(c.Nodes) == 2 && c.Nodes[1].Machine != thief.Machine
	})
	var now apiv1.Cluster
	if r.Get(&now, "get", "ice"); now.Phase != apiv1.Ready || now.Nodes[1].ID != ice.Nodes[1].ID {
		t.Errorf("the other cluster has not stayed as it was: %+v", now)
	}
	for _, name := range []string{"air", "ice"} {
		r.Run("delete", name, "--wait", "--timeout", "2m")
	}
	for machine := range port {
		if got := table(machine); !slices.Equal(got, []fabric.Entry{0x7fff}) {
			t.Errorf("no cluster is there, and the port of %s holds %v", machine, got)
		}
	}
	var f apiv1.Fabric
	r.Until("all keys are free", func() bool {
		r.Get(&f, "fabric", "get", "ib0")
		return len(f.Partitions) == 0 && f.Phase == apiv1.Ready
	})
	t.Log("\n" + r.Run("events"))
}

// full is the entry of a full member of a cluster's partition.
func full(t *testing.T, of apiv1.ClusterKey) fabric.Entry {
	t.Helper()
	var key fabric.Key
	if err := key.UnmarshalText([]byte(of.Key)); err != nil {
		t.Fatal(err)
	}
	return key.In(fabric.Full)
}

// withFabric is a controller that keeps fabric ib0, a simulated one with a real opensm on its first host.
func withFabric(t *testing.T) (*rig.Rig, *ibsim.Simulator) {
	t.Helper()
	r := rig.New(t, "")
	folder := t.TempDir()
	snapshot := fabrictest.FatTree(hosts, 4, 2)
	simulator, err := ibsim.Start(folder, []byte(snapshot))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(simulator.Stop)
	manager := opensmtest.New(t, simulator, folder, 0, 14,
		opensm.Render(fabric.Intent{Managers: []fabric.GUID{fabrictest.HostPort(0)}}))
	manager.Start(t)
	t.Setenv("PATH", opensmtest.Programs(t, folder, manager.Environment))
	// What the managers' files are called and how they are signalled is root's to say; the signal by a file of root's in
	// signal.d.
	r.Site = r.File("site.yaml", fmt.Sprintf(`
site: home
defaults: {project: default, image: debian13-hpc, class: local, head_class: service}
classes:
  - {name: local, select: ["substrate = local"]}
  - {name: service, select: ["substrate = local"]}
fabrics: {ib0: {partitions: %q, log: %q}}
`, manager.File, manager.Logs))
	signals := filepath.Join(r.Data, "signal.d")
	if err := errors.Join(os.MkdirAll(signals, 0o700), os.WriteFile(filepath.Join(signals, "reload"), []byte(manager.Signal+"\n"),
		0o600)); err != nil {
		t.Fatal(err)
	}
	r.Start()
	r.Run("fabric", "add", "ib0", "--driver", "opensm", "--manager", manager.GUID.String(), "--config", "signal=reload")
	said := r.Muster("fabric", "import", "ib0", r.File("snapshot.txt", snapshot))
	if said.Code != 0 || !strings.Contains(said.Out+said.Err, fmt.Sprintf("%d ports", hosts)) {
		t.Fatalf("%+v", said)
	}
	return r, simulator
}

// read is the table of a port, as it stands on the fabric.
func read(t *testing.T, s *ibsim.Simulator, port fabric.GUID) []fabric.Entry {
	t.Helper()
	var entries []fabric.Entry
	at(t, s, port, func(c *ibsim.Client, lid uint16) {
		_, p, err := c.Port(lid)
		if err != nil {
			t.Fatal(err)
		}
		entries = slices.Sorted(slices.Values(p.Entries))
	})
	return entries
}

// write adds a key to the table of a port, as root on its host can.
func write(t *testing.T, s *ibsim.Simulator, port fabric.GUID, key fabric.Entry) {
	t.Helper()
	at(t, s, port, func(c *ibsim.Client, lid uint16) {
		slots, err := c.Block(lid, 0)
		free := slices.Index(slots, 0)
		if err != nil || free < 0 {
			t.Fatal(slots, err)
		}
		slots[free] = key
		if err := c.SetBlock(lid, 0, slots); err != nil {
			t.Fatal(err)
		}
	})
}

// at finds a port by asking all.
func at(t *testing.T, s *ibsim.Simulator, port fabric.GUID, do func(*ibsim.Client, uint16)) {
	t.Helper()
	c, err := s.Connect(fmt.Sprintf("H-%016x", uint64(fabrictest.HostNode(0))))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Patience = time.Second
	for lid := range uint16(2 * hosts) {
		if who, _, err := c.Port(lid + 1); err == nil && who == port {
			do(c, lid+1)
			return
		}
	}
	t.Fatalf("port %s is nowhere", port)
}
