package noded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/kit/testall"
	"muster/internal/protocol"
)

// TestTasksRunOnARealCluster has a head of the real image run tasks by Slurm, in all the ways that they end.
func TestTasksRunOnARealCluster(t *testing.T) {
	testall.Only(t)
	r := newRack(t)
	f := r.controller
	queues := []protocol.Queue{{Name: "cpu", Default: true}}
	head, n1, n2 := testPeer("head", 0, protocol.Head), testPeer("n1", 1, protocol.Compute), testPeer("n2", 2, protocol.Compute)
	for _, p := range []protocol.Peer{head, n1, n2} {
		r.plug(t, p)
	}
	r.configure(1, queues, head, n1, n2)
	for _, p := range []protocol.Peer{head, n1, n2} {
		r.boot(t, p)
	}
	revision := int64(1)
	give := func(tasks ...protocol.Task) {
		revision++
		config := *f.configs["head"]
		config.Revision, config.Tasks = revision, tasks
		f.set("head", config)
	}
	ends := func(id string) protocol.TaskState {
		t.Helper()
		f.until(t, "the end of "+id, func() bool { return f.task(id).Stage == protocol.TaskEnded })
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.task(id)
	}
	task := func(id string, script string) protocol.Task {
		return protocol.Task{ID: id, Account: "alice", Script: script, Limit: time.Minute, Boot: 1}
	}
	f.until(t, "two idle nodes", func() bool {
		return f.scheduler("n1").State == protocol.NodeFree && f.scheduler("n2").State == protocol.NodeFree
	})

	ranks := task("ranks", "")
	ranks.Command, ranks.Nodes = []string{"sh", "-c",
		`echo "$(id -un) on $(hostname) 'as' $1"; echo "rank-$SLURM_PROCID 2.5 GB/s" >>$MUSTER_SAMPLES; pwd`, "x", "it $HOME is"},
		2
	fails := task("fails", "#!/bin/sh\n#SBATCH --nodes=2\necho on $SLURM_JOB_NUM_NODES nodes >&2\nexit 3\n")
	loud := task("loud", "head -c 3000000 /dev/zero | tr '\\0' x; printf 'last \\033[2J'")
	refused := task("refused", "true")
	refused.Queue = "nothing"
	stranger := task("stranger", "true")
	stranger.Account = "mallory"
	root := task("root", "id")
	root.Account = "root"
	steps := task("steps", "srun sh -c 'echo $MUSTER_TASK on $(hostname)'")
	steps.On = []string{"n2"}
	here := task("here", "")
	here.On, here.Command = []string{"head"}, []string{"sh", "-c", `echo "$(id -un) on $(hostname)${SLURM_JOB_ID:+ in a job}"`}
	give(ranks, fails, loud, refused, stranger, root, steps, here)

	s := ends("ranks")
	if got := f.wrote("ranks"); s.Outcome != protocol.TaskOK || *s.Exit != 0 || !slices.Equal(s.Nodes, []string{"n1", "n2"}) ||
		!strings.Contains(got, "alice on n1 'as' it $HOME is\n") || !strings.Contains(got, "alice on n2 'as'") ||
		!strings.Contains(got, "/home/alice\n") {
		t.Errorf("%+v has written\n%s", s, got)
	}
	slices.SortFunc(s.Samples, func(a, b protocol.TaskSample) int { return strings.Compare(a.Name, b.Name) })
	if want := []protocol.TaskSample{{Name: "rank-0", Value: 2.5, Unit: "GB/s"},
		{Name: "rank-1", Value: 2.5, Unit: "GB/s"}}; !slices.Equal(s.Samples, want) {
		t.Errorf("its samples are %v", s.Samples)
	}
	if s := ends("fails"); s.Outcome != protocol.TaskFailed || *s.Exit != 3 || f.wrote("fails") != "on 2 nodes\n" {
		t.Errorf("%+v has written %q", s, f.wrote("fails"))
	}
	if s := ends("loud"); s.Outcome != protocol.TaskOK || s.Bytes != 3000009 ||
		!strings.HasSuffix(f.wrote("loud"), "xlast \x1b[2J") || len(f.wrote("loud")) != 3000009 {
		t.Errorf("%+v has written %d bytes", s, len(f.wrote("loud")))
	}
	if s := ends("refused"); s.Outcome != protocol.TaskFailed || s.Exit != nil || !strings.Contains(s.Text, "refused: ") {
		t.Errorf("%+v", s)
	}
	if s := ends("steps"); s.Outcome != protocol.TaskOK || f.wrote("steps") != "steps on n2\n" {
		t.Errorf("%+v has written %q", s, f.wrote("steps"))
	}
	if s := ends("here"); s.Outcome != protocol.TaskOK || f.wrote("here") != "alice on head\n" {
		t.Errorf("%+v has written %q", s, f.wrote("here"))
	}
	for _, id := range []string{"stranger", "root"} {
		if s := ends(id); s.Outcome != protocol.TaskFailed || !strings.Contains(s.Text, "is no user of the cluster") ||
			f.wrote(id) != "" {
			t.Errorf("%+v has written %q", s, f.wrote(id))
		}
	}

	// What a user puts in the place of the output is read only if it is the user's.
	thief := task("thief", "cd ~/.muster/tasks/thief; rm output; ln -s /etc/shadow output; echo 'n 1' >samples")
	pipe := task("pipe", "cd ~/.muster/tasks/pipe; rm output; mkfifo output")
	slow := task("slow", "echo begun; sleep 600")
	slow.Limit = 2 * time.Second
	unwanted := task("unwanted", "echo begun; sleep 600")
	give(thief, pipe, slow, unwanted)
	for _, id := range []string{"thief", "pipe"} {
		if s := ends(id); s.Outcome != protocol.TaskOK || f.wrote(id) != "" {
			t.Errorf("%+v has written %q", s, f.wrote(id))
		}
	}
	if s := ends("slow"); s.Outcome != protocol.TaskTimedOut || !strings.HasPrefix(f.wrote("slow"), "begun\n") ||
		s.Ended.Sub(s.Began) < slow.Limit {
		t.Errorf("%+v has written %q", s, f.wrote("slow"))
	}
	f.until(t, "the output of what runs", func() bool { return string(f.outputs["unwanted"]) == "begun\n" })
	f.until(t, "the job is told", func() bool {
		return slices.ContainsFunc(f.told.Current.Jobs, func(j protocol.CurrentJob) bool {
			return j.Name == "muster-unwanted" && j.User == "alice" && !j.Began.IsZero() && strings.HasPrefix(j.Nodes, "n") &&
				j.NodeCount == 1 && j.CPUs > 0 && time.Since(j.Submitted) < patience
		})
	})
	unwanted.Cancel = true
	give(thief, pipe, slow, unwanted)
	if s := ends("unwanted"); s.Outcome != protocol.TaskCancelled {
		t.Errorf("%+v", s)
	}

	f.until(t, "jobs that have ended are told", func() bool {
		seen := map[string]protocol.EndedJob{}
		for _, j := range f.told.Ended {
			seen[j.Name] = j
		}
		failed, ended := seen["muster-fails"], seen["muster-unwanted"]
		return failed.Outcome == protocol.JobFailed && failed.Exit == 3 && failed.Nodes == "n[1-2]" && failed.NodeCount == 2 &&
			ended.Outcome == protocol.JobCancelled && !ended.Began.IsZero() && ended.Ended.Sub(ended.Began) < patience
	})

	// A head that reboots goes on with what it has begun, and begins nothing twice.
	on := task("on", "echo one >>~/on; until [ -e ~/go ]; do sleep 0.1; done; echo two >>~/on; cat ~/on; exit 4")
	early := task("early", "echo early >>~/early")
	give(on)
	f.until(t, "a task that runs", func() bool { return f.task("on").Stage == protocol.TaskRuns })
	began := time.Now()
	r.ssh(t, head, "scontrol update job=$(squeue -h -o %i) comment=changed") // or it might not save again before long
	f.until(t, "Slurm has saved that it runs, which takes some seconds", func() bool {
		saved, err := os.Stat(filepath.Join(r.dir, "head/root", protocol.StateDir, "slurmctld/job_state"))
		return err == nil && saved.ModTime().After(began)
	})
	r.reboot(t, head, 2)
	give(on, early)
	if s := ends("early"); s.Outcome != protocol.TaskLost || s.Exit != nil {
		t.Errorf("what an earlier boot of the head was told of, and has noted nothing of, is %+v", s)
	}
	f.until(t, "a head that is well", func() bool { return f.reports["head"].Boot == 2 && f.healthy("head") })
	r.ssh(t, head, "touch go")
	if s := ends("on"); s.Outcome != protocol.TaskFailed || *s.Exit != 4 || f.wrote("on") != "one\ntwo\n" {
		t.Errorf("%+v has written %q", s, f.wrote("on"))
	}
	// What was cancelled is in Slurm's list for as long as its node cleans up.
	if got := r.ssh(t, head, `until [ -z "$(squeue -h)" ]; do sleep 0.1; done; ls`); got != "go\non\n" {
		t.Errorf("in alice's home: %q", got)
	}

	r.hooksRun(t, head, func(id string, limit time.Duration) protocol.TaskState {
		hook := task(id, "")
		hook.Account, hook.System, hook.Command, hook.Boot, hook.Limit = "root", true, []string{protocol.CheckpointHook}, 2, limit
		give(hook)
		return ends(id)
	})

	give()
	f.until(t, "nothing in the report", func() bool {
		return f.reports["head"].Revision == revision && len(f.reports["head"].Tasks) == 0
	})
	f.until(t, "nothing is left", func() bool {
		left, err := filepath.Glob(filepath.Join(r.dir, "home/alice/.muster/tasks/*"))
		records, err2 := filepath.Glob(filepath.Join(r.dir, "head/root", taskRecords, "*"))
		roots, err3 := filepath.Glob(filepath.Join(r.dir, "head", protocol.RunDir, "tasks/*"))
		return errors.Join(err, err2, err3) == nil && len(left)+len(records)+len(roots) == 0
	})
}

// A scheduler that died seconds after a job began knows nothing of it, but its script may run until its node registers again.
func TestAScriptThatStillRunsIsNotLost(t *testing.T) {
	for name, c := range map[string]struct {
		exit    time.Duration // when the script leaves its exit status; 0: never
		outcome protocol.TaskOutcome
		takes   time.Duration
	}{
		"it ends":                   {20 * time.Second, protocol.TaskFailed, 21 * time.Second},
		"it was ended with its job": {0, protocol.TaskLost, taskOrphaned + 2*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &taskDuty{disk: disk{root: t.TempDir()}, console: &console{out: io.Discard}, reporter: newReporter(1, nil)}
				files := taskFiles{disk: d.disk, id: "t1"}.of(protocol.User{Name: "alice", UID: os.Getuid()})
				must(t, os.MkdirAll(d.disk.path(files.dir()), 0o700))
				r := &taskRun{duty: d, files: files, runner: forgetful{}, record: taskRecord{Job: "9"},
					task: protocol.Task{ID: "t1", Limit: time.Hour}}
				if c.exit > 0 {
					left := d.disk.path(files.path("exit"))
					time.AfterFunc(c.exit, func() { must(t, os.WriteFile(left, []byte("4\n"), 0o600)) })
				}
				asked := time.Now()
				r.follow(t.Context())
				if took := time.Since(asked); r.state.Outcome != c.outcome || took < c.exit || took > c.takes ||
					(r.state.Exit != nil) != (c.exit > 0) {
					t.Errorf("after %v: %+v", took, r.state)
				}
			})
		})
	}
}

// TestTheSchedulerIsSeldomAskedForAJobThatRuns, as that takes a program beside it, and its end is still seen soon.
func TestTheSchedulerIsSeldomAskedForAJobThatRuns(t *testing.T) {
	const runs = 10 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		d := &taskDuty{disk: disk{root: t.TempDir()}, console: &console{out: io.Discard}, reporter: newReporter(1, nil),
			deliver: func(_ context.Context, o protocol.TaskOutput) (protocol.TaskKept, error) {
				return protocol.TaskKept{Bytes: o.Start + int64(len(o.Bytes))}, nil
			}}
		files := taskFiles{disk: d.disk, id: "t1"}.of(protocol.User{Name: "alice", UID: os.Getuid()})
		must(t, os.MkdirAll(d.disk.path(files.dir()), 0o700))
		by := &patient{ends: time.Now().Add(runs)}
		r := &taskRun{duty: d, files: files, runner: by, record: taskRecord{Job: "9"},
			task: protocol.Task{ID: "t1", Limit: time.Hour}}
		go func() { // it writes all the time, and how it ended before the scheduler can tell that it did
			for ; time.Now().Before(by.ends.Add(-time.Second)); time.Sleep(time.Second) {
				out, err := os.OpenFile(d.disk.path(files.path("output")), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
				must(t, err)
				_, err = out.WriteString("a line\n")
				must(t, errors.Join(err, out.Close()))
			}
			must(t, os.WriteFile(d.disk.path(files.path("exit")), []byte("0\n"), 0o600))
		}()
		asked := time.Now()
		r.follow(t.Context())
		if took := time.Since(asked); r.state.Outcome != protocol.TaskOK || took > runs+taskSlow+taskFast {
			t.Errorf("after %v: %+v", took, r.state)
		}
		if most := int(runs/taskRuns + 2*taskSpell/taskFast); by.asked > most {
			t.Errorf("asked %d times, and %d are the most", by.asked, most)
		}
	})
}

// patient is a scheduler whose job runs for a while.
type patient struct {
	scheduler.Runner
	ends  time.Time
	asked int
}

func (p *patient) Follow(context.Context, string) (scheduler.JobState, error) {
	if p.asked++; time.Now().Before(p.ends) {
		return scheduler.JobState{Stage: protocol.TaskRuns}, nil
	}
	return scheduler.JobState{Stage: protocol.TaskEnded}, nil
}

// forgetful is a scheduler that knows no job.
type forgetful struct{ scheduler.Runner }

func (forgetful) Follow(context.Context, string) (scheduler.JobState, error) {
	return scheduler.JobState{Forgotten: true}, nil
}

// hooksRun has a head run its image's program, as root: what it is, and what users see of it.
func (r *rack) hooksRun(t *testing.T, head protocol.Peer, run func(id string, limit time.Duration) protocol.TaskState) {
	t.Helper()
	hook := filepath.Join(r.dir, "head/root", protocol.CheckpointHook)
	must(t, os.MkdirAll(filepath.Dir(hook), 0o755))
	for name, c := range map[string]struct {
		text    string
		mode    os.FileMode // 0: there is none
		outcome protocol.TaskOutcome
		exit    int // -1: nothing ran
		wrote   string
	}{
		"hook-none": {"", 0, protocol.TaskOK, -1, ""},
		"hook-text": {"#!/bin/sh\necho ran\n", 0o644, protocol.TaskOK, -1, ""},
		"hook-works": {"#!/bin/sh\nid -un; ls -ld /root >/dev/null && squeue -h && echo saved\n", 0o755, protocol.TaskOK, 0,
			"root\nsaved\n"},
		"hook-fails":   {"#!/bin/sh\necho no disk >&2; exit 2\n", 0o755, protocol.TaskFailed, 2, "no disk\n"},
		"hook-is-slow": {"#!/bin/sh\necho begun; exec sleep 600\n", 0o755, protocol.TaskTimedOut, 128 + 9, "begun\n"},
	} {
		must(t, os.RemoveAll(hook))
		if c.mode != 0 {
			must(t, os.WriteFile(hook, []byte(c.text), c.mode))
		}
		limit := time.Minute
		if c.outcome == protocol.TaskTimedOut {
			limit = time.Second
		}
		s, exit := run(name, limit), -1
		if s.Exit != nil {
			exit = *s.Exit
		}
		if s.Outcome != c.outcome || exit != c.exit || r.controller.wrote(name) != c.wrote ||
			(exit < 0) != strings.Contains(s.Text, "has no ") {
			t.Errorf("%s: %+v, exit status %d, has written %q", name, s, exit, r.controller.wrote(name))
		}
		got := r.ssh(t, head, fmt.Sprintf("(ls %[1]s; cat %[1]s/*/output) 2>&1; true", protocol.RunDir+"/tasks"))
		if c.mode == 0o755 && !strings.Contains(got, "denied") || strings.Contains(got, "begun") {
			t.Errorf("a user sees %q", got)
		}
	}
}

// task is what the head says of a task.
func (f *fakeController) task(id string) protocol.TaskState {
	for _, s := range f.reports["head"].Tasks {
		if s.ID == id {
			return s
		}
	}
	return protocol.TaskState{}
}

func (f *fakeController) wrote(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(bytes.Clone(f.outputs[id]))
}

// reboot ends the node without a word and starts its next boot, with its disk.
func (r *rack) reboot(t testing.TB, p protocol.Peer, boot int) {
	t.Helper()
	dir := filepath.Join(r.dir, p.Name)
	text, err := os.ReadFile(dir + ".boot")
	must(t, err)
	next := bytes.Replace(text, []byte(`"boot":1,`), fmt.Appendf(nil, `"boot":%d,`, boot), 1)
	r.sh(t, `runc delete -f %s%s && cd '%s' && rm -rf run/* && mkdir -p run/muster/controllers`, r.net, p.Name, dir)
	must(t, os.WriteFile(filepath.Join(dir, "run/muster/boot.json"), next, 0o600))
	r.boot(t, p)
}
