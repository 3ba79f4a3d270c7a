package crash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/kinds"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/meter"
	"muster/internal/kit/testall"
	"muster/test/rig"
)

// walk leads real controllers and real nodes through random operations, with the command line: what users and operators ask
// for, jobs on queues that grow, nodes that fail in every way, controllers that are killed and joined by others. What must
// always be true is looked at after each step. internal/kinds has the same on a fake substrate, with many more steps a
// minute and a closer look at the rows.
type walk struct {
	*rig.Rig
	rnd         *rand.Rand
	controllers []*rig.Controller
	done        map[string]int
	refused     map[string]int
}

const (
	walkMachines = 10
	walkQuota    = 8
	walkSite     = `
site: home
defaults: {project: default, image: debian13-hpc, class: local, head_class: service}
limits: {silence: 15s}
projects:
  default: {quota: {nodes: 8}}
classes:
  - {name: local, select: ["substrate = local"], price: 3600 EUR}
  - {name: service, select: ["substrate = local"], price: 3600 EUR}
`
)

type owned struct {
	ID, Name, Phase, Desired, Reason, Lacks string
	Generation, Reached                     int64
	Nodes                                   []struct{ ID, Name, Queue, Machine, Phase, Reason string }
	Spec                                    struct {
		Queues []struct {
			Name     string
			Min, Max int
		}
	}
}

// TestCrashRandomOperationsOnRealNodes repeats a walk with MUSTER_SEED. MUSTER_OPERATIONS makes it longer, and lets it be made
// on both databases.
func TestCrashRandomOperationsOnRealNodes(t *testing.T) {
	testall.Only(t)
	number := func(name string, otherwise uint64) uint64 {
		if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
			return n
		}
		return otherwise
	}
	seed, operations := number("MUSTER_SEED", uint64(time.Now().UnixNano())), int(number("MUSTER_OPERATIONS", 30))
	test := func(t *testing.T, db string) {
		t.Logf("MUSTER_SEED=%d MUSTER_OPERATIONS=%d", seed, operations)
		w := &walk{Rig: rig.New(t, db), rnd: rand.New(rand.NewPCG(seed, 0)), done: map[string]int{}, refused: map[string]int{}}
		w.Site = w.File("site.yaml", walkSite)
		w.join()
		w.Run("machines", "add", "--local", strconv.Itoa(walkMachines), "--wait")
		for i := range operations {
			w.step()
			w.look()
			if i%25 == 24 {
				w.settle()
			}
			if t.Failed() {
				t.FailNow()
			}
			time.Sleep(time.Duration(w.rnd.IntN(800)) * time.Millisecond)
		}
		w.end()
		t.Logf("done: %v\nrefused: %v", w.done, w.refused)
	}
	if os.Getenv("MUSTER_OPERATIONS") == "" {
		test(t, "")
		return
	}
	databases(t, test)
}

func (w *walk) join() { w.controllers = append(w.controllers, w.Start()) }

// leave kills a controller; another comes if it was the last.
func (w *walk) leave() {
	i := w.rnd.IntN(len(w.controllers))
	w.controllers[i].Kill()
	w.controllers = append(w.controllers[:i:i], w.controllers[i+1:]...)
	if len(w.controllers) == 0 {
		w.join()
	} else { // the command line finds the one that stays
		text, err := json.Marshal(map[string]any{"url": w.controllers[0].URL, "pid": w.controllers[0].Process.Pid})
		if err == nil {
			err = os.WriteFile(filepath.Join(w.Data, "controller.json"), text, 0o600)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
}

// ask runs a command. It may be refused, for a reason, and never fails.
func (w *walk) ask(args ...string) {
	w.Helper()
	got := w.Muster(args...)
	w.Logf("%s: exit %d %s", strings.Join(args, " "), got.Code, strings.TrimSpace(got.Err))
	switch {
	case got.Code == 0:
		w.done[args[0]]++
	case got.Code == 1:
		w.Errorf("muster %s: exit 1: %s", strings.Join(args, " "), got.Err)
	default:
		w.refused[args[0]]++
	}
}

func (w *walk) step() {
	all := w.list()
	name := []string{"a", "b", "c"}[w.rnd.IntN(3)]
	var it *owned
	for i := range all {
		if all[i].Name == name && all[i].Desired != "deleted" {
			it = &all[i]
		}
	}
	if it == nil && w.rnd.IntN(10) < 8 {
		if w.rnd.IntN(4) == 0 {
			w.ask("create", name, "--from-snapshot", "s")
		} else {
			w.ask("create", "-f", w.file(name))
		}
		return
	}
	drain := []string{"--drain-timeout", "1s"}
	switch w.rnd.IntN(19) {
	case 0, 1:
		w.ask(append([]string{"apply", "-f", w.file(name)}, drain...)...)
	case 2, 3:
		w.ask(append([]string{"scale", name, strconv.Itoa(w.rnd.IntN(4))}, drain...)...)
	case 4:
		w.ask(append([]string{"pause", name}, drain...)...)
	case 5, 6:
		w.ask("resume", name)
	case 7:
		w.ask("extend", name, "--for", strconv.Itoa(5+w.rnd.IntN(20))+"s")
	case 8:
		w.ask("delete", name)
	case 9:
		if w.ask("snapshot", name, "--name", "s"); w.rnd.IntN(2) == 0 {
			w.ask("snapshots", "delete", "s")
		}
	case 10:
		w.ask("machines", "quarantine", "local-"+strconv.Itoa(1+w.rnd.IntN(walkMachines)))
	case 11, 18:
		w.submit(it)
	case 12, 13, 17:
		w.fault(it)
	case 14:
		if w.DB != "" && len(w.controllers) < 3 {
			w.done["join"]++
			w.join()
			return
		}
		fallthrough
	default:
		w.done["kill"]++
		w.leave()
	}
}

func (w *walk) file(name string) string {
	text := "name: " + name + "\nqueues:\n"
	if w.rnd.IntN(2) == 0 {
		text += fmt.Sprintf("  - {name: cpu, min: 0, max: %d, idle_after: 5s}\n", 1+w.rnd.IntN(3))
	} else {
		text += fmt.Sprintf("  - {name: cpu, max: %d}\n", 1+w.rnd.IntN(3))
	}
	switch w.rnd.IntN(5) {
	case 0:
		text += fmt.Sprintf("lease: {for: %ds, on_end: %s}\n", 10+w.rnd.IntN(30), []string{"pause", "delete"}[w.rnd.IntN(2)])
	case 1:
		text += fmt.Sprintf("budget: {limit: %d EUR}\n", 10+w.rnd.IntN(100))
	}
	return w.File(name+".yaml", text)
}

// submit gives a cluster's Slurm a job that may have to wait for nodes.
func (w *walk) submit(c *owned) {
	if c == nil || c.Phase != "ready" && c.Phase != "degraded" {
		return
	}
	got := w.Muster("ssh", c.Name, "--", fmt.Sprintf("sbatch -N%d -o /dev/null --wrap 'sleep %d'", 1+w.rnd.IntN(2),
		w.rnd.IntN(4)))
	w.Logf("sbatch on %s: exit %d %s", c.Name, got.Code, strings.TrimSpace(got.Out+got.Err))
	w.done["sbatch"]++
}

// fault strikes a node behind the controllers' back.
func (w *walk) fault(c *owned) {
	if c == nil || len(c.Nodes) == 0 {
		return
	}
	n := c.Nodes[w.rnd.IntN(len(c.Nodes))]
	if n.Phase != "ready" {
		return
	}
	faults := []struct {
		name   string
		strike func(rig.Node)
	}{{"killed", rig.Node.KillAgent}, {"ended", rig.Node.KillAll}, {"frozen", rig.Node.Freeze}, {"cut off", rig.Node.Cut}}
	f := faults[w.rnd.IntN(len(faults))]
	node, there := w.Find(c.ID, n.ID)
	w.Logf("%s/%s is %s: %t", c.Name, n.Name, f.name, there)
	if there {
		w.done[f.name]++
		f.strike(node)
	}
}

func (w *walk) list() []owned {
	w.Helper()
	var list struct{ Items []owned }
	w.Get(&list, "list")
	return list.Items
}

// look: every machine has one owner, no cluster has more than it asked for, the project no more than its quota.
func (w *walk) look() {
	w.Helper()
	holder := map[string]string{}
	for _, c := range w.list() {
		for _, n := range c.Nodes {
			if other, taken := holder[n.Machine]; taken {
				w.Errorf("machine %s is given to %s and %s/%s", n.Machine, other, c.Name, n.Name)
			}
			holder[n.Machine] = c.Name + "/" + n.Name
		}
	}
	var quota struct{ Nodes struct{ Used int } }
	if w.Get(&quota, "quota", "default"); quota.Nodes.Used > walkQuota {
		w.Errorf("the project has %d of %d nodes", quota.Nodes.Used, walkQuota)
	}
}

// settle waits until all is as asked for.
func (w *walk) settle() {
	w.Helper()
	var left []string
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(300 * time.Millisecond) {
		w.look()
		if left = w.unsettled(); len(left) == 0 || w.Failed() {
			return
		}
	}
	w.Fatalf("it does not come to what was asked for:\n%s\n%s", strings.Join(left, "\n"), w.Run("machines", "list"))
}

func (w *walk) unsettled() (left []string) {
	for _, c := range w.list() {
		steady := true
		for _, n := range c.Nodes {
			steady = steady && n.Phase == "ready"
		}
		least := 1
		for _, q := range c.Spec.Queues {
			least += q.Min
		}
		switch {
		case c.Desired == "paused" && c.Phase == "paused" && len(c.Nodes) == 0:
		case c.Desired == "present" && c.Phase == "ready" && c.Reached == c.Generation && steady && len(c.Nodes) >= least:
		case c.Desired == "present" && steady && c.Lacks != "":
		default:
			left = append(left, fmt.Sprintf("%+v", c))
		}
	}
	return left
}

// end deletes everything and sees that nothing is left, on the host and in the rows.
func (w *walk) end() {
	w.Helper()
	w.settle()
	for _, c := range w.list() {
		if c.Desired != "deleted" {
			w.ask("delete", c.Name)
		}
	}
	if strings.Contains(w.Run("snapshots", "list"), "s ") {
		w.ask("snapshots", "delete", "s")
	}
	w.Eventually(2*time.Minute, "every cluster is gone and every machine is free again", func() bool {
		var status struct{ Alarms []struct{ Name string } }
		w.Get(&status, "status")
		return len(w.list()) == 0 && strings.Count(w.Run("machines", "list"), "available") == walkMachines &&
			len(status.Alarms) == 0
	})
	w.Until("every snapshot is gone", func() bool {
		var list struct{ Items []json.RawMessage }
		w.Get(&list, "snapshots", "list")
		return len(list.Items) == 0
	})
	for _, c := range w.controllers {
		c.Stop()
	}
	w.NothingLeft()
	url := w.DB
	if url == "" {
		url = filepath.Join(w.Data, "muster.db")
	}
	db, err := kinds.Open(context.Background(), url, nil)
	if err != nil {
		w.Fatal(err)
	}
	kindstest.Metered(w, db)
	if err := db.View(context.Background(), func(tx *core.Tx) error {
		open, err := meter.Rows(context.Background(), tx, meter.Of{Open: true})
		if len(open) > 0 {
			w.Errorf("meters of nothing: %+v", open)
		}
		return err
	}); err != nil {
		w.Error(err)
	}
	if err := db.Close(); err != nil {
		w.Error(err)
	}
}
