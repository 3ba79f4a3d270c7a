// Package fabric tries fabrics from the command line on: a real controller and a real opensm, on a simulated fabric.
package fabric

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/api"
	"muster/internal/fabric"
	"muster/internal/fabric/fabrictest"
	"muster/internal/fabric/infiniband"
	"muster/internal/fabric/infiniband/ibsim"
	"muster/internal/fabric/infiniband/opensmtest"
	"muster/internal/store"
	"muster/test/rig"
)

const hosts = 8

func TestAFabricIsKeptFromTheCommandLine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("fabrics are not tried from the command line: the controller needs root")
	}
	folder, err := os.MkdirTemp("", "muster-fabric-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	r := &rig.Rig{TB: t, Binary: filepath.Join(folder, "muster"), Data: filepath.Join(folder, "data")}
	build := exec.Command("go", "build", "-o", r.Binary, "muster/cmd/muster")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	manager := start(t, folder)
	if err := os.Mkdir(r.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	r.Start()

	r.Run("fabric", "add", "ib0", "--driver", "opensm", "--manager", manager.GUID.String(), "--config", "partitions="+manager.File, "--config", "log="+manager.Logs, "--config", "signal="+manager.Signal)
	if again := r.Muster("fabric", "add", "ib0", "--manager", "0x1"); again.Code != 5 || !strings.Contains(again.Err, "exists") {
		t.Errorf("a second one of the name: exit %d\n%s", again.Code, again.Err)
	}
	if wrong := r.Muster("fabric", "add", "ib1", "--driver", "sm", "--manager", "0x1"); wrong.Code != 2 || !strings.Contains(wrong.Err, "there are opensm, ufm") {
		t.Errorf("an unknown driver: exit %d\n%s", wrong.Code, wrong.Err)
	}
	snapshot := filepath.Join(folder, "snapshot.txt")
	if err := os.WriteFile(snapshot, []byte(fabrictest.FatTree(hosts, 4, 2)), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := r.Muster("fabric", "import", "ib0", snapshot); !strings.Contains(said.Out+said.Err, fmt.Sprintf("%d ports", hosts)) {
		t.Errorf("%+v", said)
	}
	storage := fabrictest.HostPort(1)
	began := time.Now()
	r.Run("fabric", "infra", "set", "ib0", "storage", "--member", storage.String())
	var f api.Fabric
	r.Eventually(time.Minute, "the storage's port was seen with its key", func() bool {
		r.Get(&f, "fabric", "get", "ib0")
		for _, p := range f.Ports {
			if p.Port == storage && len(p.Entries) == 2 && p.Entries[1] == fabric.Key(0x7000).In(fabric.Full) {
				return f.Phase == store.Ready
			}
		}
		return false
	})
	t.Logf("a partition of the site's own was read back %s after it was asked for; %s", time.Since(began).Round(time.Millisecond), f.Reason)
	if said := r.Muster("fabric", "diff", "ib0"); !strings.Contains(said.Out+said.Err, "no port differs") {
		t.Errorf("%+v", said)
	}
	t.Log("\n" + r.Run("fabric", "get", "ib0"))
	r.Run("fabric", "infra", "remove", "ib0", "storage")
	r.Eventually(time.Minute, "its key is free", func() bool {
		r.Get(&f, "fabric", "get", "ib0")
		return len(f.Partitions) == 0
	})
	r.Run("fabric", "remove", "ib0")
}

// start runs a simulated fabric and an opensm on its first host; from here on programs of this process see it from there.
func start(t *testing.T, folder string) *opensmtest.Manager {
	t.Helper()
	simulator, err := ibsim.Start(folder, []byte(fabrictest.FatTree(hosts, 4, 2)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(simulator.Stop)
	m := opensmtest.New(t, simulator, folder, 0, 14, infiniband.Render(fabric.Intent{Managers: []fabric.GUID{fabrictest.HostPort(0)}}))
	m.Start(t)
	for _, setting := range m.Environment {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
	t.Chdir(folder)
	return m
}
