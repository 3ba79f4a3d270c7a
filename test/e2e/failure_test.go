package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/test/rig"
)

// idleWithin is how long a node may be missing from Slurm, with the limit of silence that a site has by itself.
const idleWithin = 45 * time.Second

// TestANodeThatIsLostIsReplacedUnderItsName is case 2 of the paper, once for each way to be lost. Meanwhile a job runs on
// other nodes and must not notice.
func TestANodeThatIsLostIsReplacedUnderItsName(t *testing.T) {
	r := rig.New(t, "")
	c := r.Start()
	r.Run("machines", "add", "--local", "9", "--wait")
	r.Run("create", "-f", r.File("hello.yaml", "name: hello\nnodes: 4\n"), "--wait")
	witness := newWitness(r, "hello", "n1,n2")

	for _, fault := range []struct {
		name, reason string
		strike       func(rig.Node)
	}{
		{"its agent is killed", "killed", rig.Node.KillAgent},
		{"it hangs", "silent for [0-9]+ s", rig.Node.Freeze},
		{"all its processes are killed", "killed", rig.Node.KillAll},
		{"its link is cut", "network: the head does not answer", rig.Node.Cut},
		{"its slurmd is gone for good", "slurmd does not run", func(n rig.Node) { n.Lose("/usr/sbin/slurmd") }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			r := r.In(t)
			lost := r.Node("hello", "n4")
			job := victim(r, "hello", "n4")
			seq, struck := lastEvent(r), time.Now()
			fault.strike(lost)
			backInSlurm(r, "hello", "n4", lost.ID)
			took := time.Since(struck)
			events := eventsAfter(r, seq)
			t.Logf("%s: %s", fault.name, byPhase(events, "n4", struck, took))
			if took > idleWithin {
				t.Errorf("it was idle again after %s", took)
			}
			if why := find(events, "n4", "failed"); !regexp.MustCompile(fault.reason).MatchString(why.Text) {
				t.Errorf("the reason: %q", why.Text)
			}
			machine := find(events, "n4", "failed").Machine
			r.Eventually(time.Minute, "machine "+machine+" is examined and comes back", func() bool {
				for _, e := range eventsAfter(r, seq) {
					if e.Machine == machine && e.Phase == "available" {
						return true
					}
				}
				return false
			})
			r.Eventually(3*time.Minute, "the job was queued again and finishes", func() bool {
				return strings.Contains(r.Run("ssh", "hello", "--", "cat "+job+" 2>/dev/null || true"), "done on n4")
			})
			if err := witness.alive(); err != nil {
				t.Error(err)
			}
		})
	}
	if out := witness.end(); strings.Count(out, "untouched") != 2 {
		t.Errorf("the job on the other nodes: %q", out)
	}
	r.Run("delete", "hello", "--wait")
	r.NothingLeft()
	c.Stop()
}

// witness is a job step that runs on nodes which nothing is done to.
type witness struct {
	rig  *rig.Rig
	srun *exec.Cmd
	out  *strings.Builder
	over chan error
}

func newWitness(r *rig.Rig, cluster, nodes string) *witness {
	r.Helper()
	w := &witness{r, exec.Command(r.Binary, "ssh", cluster, "--",
		"srun -l -N2 -w "+nodes+" sh -c 'touch ~/witness-$(hostname); while [ ! -e ~/enough ]; do sleep 0.2; done; echo untouched'"), &strings.Builder{}, make(chan error, 1)}
	w.srun.Env = append(os.Environ(), "MUSTER_DATA="+r.Data)
	w.srun.Stdout, w.srun.Stderr = w.out, w.out
	if err := w.srun.Start(); err != nil {
		r.Fatal(err)
	}
	go func() { w.over <- w.srun.Wait() }()
	r.Cleanup(func() { _ = w.srun.Process.Kill() })
	r.Eventually(time.Minute, "the witness runs on both nodes", func() bool {
		return strings.Count(r.Run("ssh", cluster, "--", "ls ~"), "witness-") == 2
	})
	return w
}

// alive is an error if the step has ended before its time.
func (w *witness) alive() error {
	select {
	case err := <-w.over:
		w.over <- err
		return fmt.Errorf("the job on other nodes has ended: %w: %s", errors.Join(err), w.out)
	default:
		return nil
	}
}

// end lets the step finish, and returns what it printed.
func (w *witness) end() string {
	w.rig.Helper()
	w.rig.Run("ssh", "hello", "--", "touch ~/enough")
	select {
	case <-w.over:
	case <-time.After(30 * time.Second):
		w.rig.Error("the witness does not end")
	}
	return w.out.String()
}

// victim submits a job to a node that is about to be lost: its first run never ends, the next one does. It returns the
// file that it writes to.
func victim(r *rig.Rig, cluster, node string) string {
	r.Helper()
	file := fmt.Sprintf("victim-%d.out", time.Now().UnixNano())
	r.Run("ssh", cluster, "--", "sbatch -w "+node+" -J victim --open-mode=append -o "+file+
		" --wrap 'echo begun; [ \"${SLURM_RESTART_COUNT:-0}\" -gt 0 ] || sleep 3600; echo done on $(hostname)'")
	r.Eventually(time.Minute, "the job runs on "+node, func() bool {
		return strings.Contains(r.Run("ssh", cluster, "--", "cat "+file+" 2>/dev/null || true"), "begun")
	})
	return file
}

// backInSlurm waits until another node of that name is ready, and idle in Slurm.
func backInSlurm(r *rig.Rig, cluster, name, lost string) {
	r.Helper()
	r.Eventually(2*time.Minute, name+" is replaced", func() bool {
		var c struct {
			Nodes []struct{ ID, Name, Phase string }
		}
		r.Get(&c, "get", cluster)
		for _, n := range c.Nodes {
			if n.Name == name {
				return n.ID != lost && n.Phase == "ready"
			}
		}
		return false
	})
	r.Eventually(time.Minute, name+" is idle in Slurm", func() bool {
		return strings.TrimSpace(r.Run("ssh", cluster, "--", "sinfo -h -n "+name+" -o %T")) == "idle"
	})
}

// event is one of the log.
type event struct {
	Seq                                       int64
	At                                        time.Time
	Type, Cluster, Node, Machine, Phase, Text string
}

func eventsAfter(r *rig.Rig, seq int64) []event {
	r.Helper()
	var list struct{ Items []event }
	r.Get(&list, "events", "--after", fmt.Sprint(seq))
	return list.Items
}

func lastEvent(r *rig.Rig) int64 {
	r.Helper()
	events := eventsAfter(r, 0)
	return events[len(events)-1].Seq
}

// find is the first event of a node that enters a phase.
func find(events []event, node, phase string) event {
	for _, e := range events {
		if e.Node == node && e.Phase == phase {
			return e
		}
	}
	return event{}
}

// byPhase says how long each step of a replacement took.
func byPhase(events []event, node string, struck time.Time, took time.Duration) string {
	var steps []string
	last := struck
	for _, e := range events {
		if e.Node != node || e.Phase == "" {
			continue
		}
		steps = append(steps, fmt.Sprintf("%s +%.2f s", e.Phase, e.At.Sub(last).Seconds()))
		last = e.At
	}
	return fmt.Sprintf("idle in Slurm after %.1f s: %s, idle +%.2f s", took.Seconds(), strings.Join(steps, ", "), took.Seconds()-last.Sub(struck).Seconds())
}
