package toy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/drivers"
	fabrics "muster/internal/drivers/fabric"
	"muster/internal/drivers/fabric/fabrictest"
	fakefabric "muster/internal/drivers/fabric/fake"
	"muster/internal/drivers/scheduler"
	"muster/internal/drivers/scheduler/schedulertest"
	fakeswitch "muster/internal/drivers/switch/fake"
	"muster/internal/drivers/switch/switchtest"
	"muster/internal/fabric"
	"muster/internal/inventory"
	"muster/internal/protocol"
	"muster/test/toy/patch"
	"muster/test/toy/spool"
	"muster/test/toy/subnet"
)

func TestAToySwitchIsAFolderAndALine(t *testing.T) {
	var ports []string
	for _, n := range switchtest.Names() {
		ports = append(ports, "p-"+n)
	}
	all := append(drivers.Switches(),
		patch.Factory(ports...),
	)
	on := inventory.Network{Name: "boot", Interface: "br0", Switch: "patch"}
	if err := all.Check(on); err != nil || !all.Isolates(on) || all.Warning(on) != "" {
		t.Error(err, all.Isolates(on), all.Warning(on))
	}
	switchtest.Test(t, func(t *testing.T) switchtest.Subject {
		s, err := all.Open(on)
		if err != nil {
			t.Fatal(err)
		}
		return switchtest.Subject{Factory: all.Named("patch"), Switch: s, Hear: s.(*fakeswitch.Switch).Hear}
	})
}

func TestAToyFabricIsAFolderAndALine(t *testing.T) {
	ports := make([]fabric.GUID, 12)
	for i := range ports {
		ports[i] = fabrictest.HostPort(i + 1)
	}
	all := append(drivers.Fabrics(),
		subnet.Factory(ports...),
	)
	manager := fabrictest.HostPort(0)
	told := func(rack string) fabrics.Directives {
		return fabrics.Directives{Fabric: "ib0", Managers: []fabric.GUID{manager}, Given: map[string]string{"rack": rack}}
	}
	if _, err := all.Open("subnet", told("")); err == nil || !strings.Contains(err.Error(), "driver subnet: it is told rack") {
		t.Error(err)
	}
	fabrictest.Contract(t, func(t *testing.T) fabrictest.Fixture {
		driver, err := all.Open("subnet", told("r1"))
		if err != nil {
			t.Fatal(err)
		}
		f := driver.(*fakefabric.Fabric)
		return fabrictest.Fixture{
			Driver: driver, Manager: manager, Ports: ports, Room: 15,
			Link:  func(_ *testing.T, p fabric.GUID, up bool) { f.Silence(p, !up) },
			Write: func(_ *testing.T, p fabric.GUID, e fabric.Entry) { f.Rogue(p, e) },
		}
	})
}

func TestAToySchedulerIsAFolderAndALine(t *testing.T) {
	all := append(drivers.Schedulers(),
		spool.Factory(),
	)
	f, found := all.Find("spool")
	if !found || !f.Caps.Jobs {
		t.Fatalf("%v, %+v", found, f)
	}
	if os.Geteuid() != 0 {
		schedulertest.Contract(t, f, nil)
		t.Skip("needs root, to run jobs of users")
	}
	homes := t.TempDir()
	if err := os.Chmod(filepath.Dir(homes), 0o755); err != nil {
		t.Fatal(err)
	}
	host := schedulertest.Host(schedulertest.NewFiles(t))
	host.Running = func(string) bool { return true }
	driver := f.Open(host)
	n1 := protocol.Peer{Name: "n1", Role: protocol.Compute, Ready: true}
	if _, err := driver.Apply(&protocol.Config{Peers: []protocol.Peer{n1}}); err != nil {
		t.Fatal(err)
	}
	users := schedulertest.Users{
		Homes: homes, Run: func(context.Context, int, ...string) ([]byte, error) {
			return nil, errors.New("a spool runs no programs")
		},
	}
	const never = "a spool's nodes are in service as long as they are listed"
	schedulertest.Contract(t, f, &schedulertest.Live{
		Runner: func(t *testing.T) { schedulertest.RunnerContract(t, driver.(scheduler.Runner), users) },
		Control: func(t *testing.T) {
			unseen := map[protocol.State]string{protocol.NodeDown: never, protocol.NodeLost: never, protocol.NodeUnknown: never}
			schedulertest.ControlContract(t, driver, schedulertest.Rig{Users: users, Node: "n1", Unseen: unseen})
		},
	})
}
