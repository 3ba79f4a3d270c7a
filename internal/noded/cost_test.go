package noded

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// asksVersion is what a node's agent runs once, as its configuration depends on it.
const asksVersion = "/usr/sbin/slurmd -V"

// TestWhatANodeOfAHostOfManyRunsToStart holds the number of processes and of calls: fifty nodes may start at once on two
// cores, and each process costs them a fiftieth of that.
func TestWhatANodeOfAHostOfManyRunsToStart(t *testing.T) {
	l := newLab(t)
	l.controller.configs["n1"].SharedCPUs, l.controller.configs["n1"].First = true, true
	l.controller.listen(t, filepath.Join(l.sockets, "one.sock"))
	began := time.Now()
	stop := l.run(t)
	l.untilReady(t)
	const most = 1 + 1 + 5 // the first, the revision that it has applied, and each check that passes
	l.controller.until(t, "it has reported", func() bool {
		again := int(time.Since(began) / answerTimeout) // a busy host answers too late, or until the next report
		if joins := l.controller.joins["n1"]; joins < 1 || joins > 1+again || l.controller.count["n1"] > most+again {
			t.Errorf("it joined %d times and reported %d times", l.controller.joins["n1"], l.controller.count["n1"])
		}
		return true
	})
	if err := stop(); err != nil {
		t.Error(err)
	}
	l.processes.mu.Lock()
	defer l.processes.mu.Unlock()
	started := slices.Sorted(maps.Keys(l.processes.running))
	if want := []string{"munged", "slurmd", "sshd"}; !slices.Equal(started, want) {
		t.Errorf("it started %q, want %q", started, want)
	}
	if !slices.Equal(l.processes.ran, []string{asksVersion}) {
		t.Errorf("it ran %q", l.processes.ran)
	}
	if len(l.machine.banners) > 0 {
		t.Error("sshd was called, which starts a process for each call")
	}
}

// TestANodeThatSlurmMayKnowTellsItOfItsBoot: jobs that died with the earlier boot would run for ever.
func TestANodeThatSlurmMayKnowTellsItOfItsBoot(t *testing.T) {
	l := newLab(t)
	l.controller.configs["n1"].SharedCPUs = true
	l.controller.listen(t, filepath.Join(l.sockets, "one.sock"))
	stop := l.run(t)
	l.untilReady(t)
	if err := stop(); err != nil {
		t.Error(err)
	}
	l.processes.mu.Lock()
	defer l.processes.mu.Unlock()
	const tells = "scontrol update nodename=n1 state=down reason=muster: has a new boot"
	if len(l.processes.ran) != 2 || l.processes.ran[0] != asksVersion || !strings.HasPrefix(l.processes.ran[1], "SLURM_CONF=") ||
		!strings.HasSuffix(l.processes.ran[1], tells) {
		t.Errorf("it ran %q", l.processes.ran)
	}
}
