package noded

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/drivers/scheduler"
	"muster/internal/drivers/scheduler/schedulertest"
	"muster/internal/drivers/scheduler/slurm"
	"muster/internal/kit/testall"
	"muster/internal/protocol"
)

// reaperVariable lets a test run in a process of its own, since a Reaper waits for all children.
const reaperVariable = "MUSTER_TEST_REAPER"

func TestWhatRunsOnTheHeadKeepsTheContractOfRunners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be others")
	}
	if os.Getenv(reaperVariable) == "" {
		command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
		command.Env = append(os.Environ(), reaperVariable+"=1")
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	reaper := NewReaper()
	go reaper.Collect(t.Context())
	homes := t.TempDir()
	must(t, os.Chmod(filepath.Dir(homes), 0o755))
	schedulertest.RunnerContract(t, newStarter(reaper, "head"), schedulertest.Users{
		Homes: homes, Run: func(ctx context.Context, user int, argv ...string) ([]byte, error) {
			return reaper.RunAs(ctx, Account{user, user}, argv...)
		},
	})
}

func TestSlurmKeepsTheContractsOfRunnersAndControls(t *testing.T) {
	testall.Only(t)
	r := newRack(t)
	f := r.controller
	head, n1 := testPeer("head", 0, protocol.Head), testPeer("n1", 1, protocol.Compute)
	r.plug(t, head)
	r.plug(t, n1)
	r.configure(1, []protocol.Queue{{Name: "cpu", Default: true}}, head, n1)
	for _, name := range []string{"head", "n1"} {
		config := *f.configs[name]
		config.Users = append(config.Users, protocol.User{Name: "mallory", UID: 5001})
		f.set(name, config)
	}
	r.boot(t, head)
	r.boot(t, n1)
	f.until(t, "an idle node", func() bool { return f.scheduler("n1").State == protocol.NodeFree })
	inside := func(ctx context.Context, user int, argv ...string) ([]byte, error) {
		as := fmt.Sprintf("%d:%d", user, user)
		command := exec.CommandContext(ctx, "runc", append([]string{"exec", "--user", as, r.net + "head"}, argv...)...)
		var wrong strings.Builder
		command.Stderr = &wrong
		out, err := command.Output()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, wrong.String())
		}
		return out, err
	}
	must(t, os.Mkdir(filepath.Join(r.dir, "home/contract"), 0o755))
	// the head has its /run there
	host := schedulertest.Host(schedulertest.Files{Root: filepath.Join(r.dir, "head"), Owners: map[string]string{}})
	host.Run = func(ctx context.Context, argv ...string) ([]byte, error) {
		return inside(ctx, 0, append([]string{"env"}, argv...)...)
	}
	host.Listening = func(int) bool { return true }
	driver := slurm.Factory().Open(host)
	must(t, driver.Prepare(t.Context(), &protocol.Config{})) // it learns Slurm's version
	users := schedulertest.Users{Homes: filepath.Join(r.dir, "home/contract"), Seen: "/home/contract", Run: inside}
	schedulertest.RunnerContract(t, driver.(scheduler.Runner), users)
	schedulertest.ControlContract(t, driver, schedulertest.Rig{
		Users: users, Node: "n1", Acts: slurm.Factory().Acts,
		Down: func(t *testing.T) {
			if _, err := host.Run(t.Context(), "scontrol", "update", "nodename=n1", "state=down", "reason=a fan"); err != nil {
				t.Fatal(err)
			}
		},
		Unseen: map[protocol.State]string{
			protocol.NodeLost:    "Slurm gives a node up after a minute of silence; what it says then is tested in the driver",
			protocol.NodeUnknown: "Slurm has a word for each state that it can be brought into",
		},
	})
}
