package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// variant adds an image to the rig: the tests' own with one more file in its root.
func variant(r *rig.Rig, name, file string) {
	r.Helper()
	dir := r.TempDir()
	add, squashfs := filepath.Join(dir, "add"), filepath.Join(dir, "root.squashfs")
	if err := os.Mkdir(add, 0o755); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(add, file), []byte(file+"\n"), 0o644); err != nil {
		r.Fatal(err)
	}
	for _, args := range [][]string{
		{"cp", filepath.Join(rig.Image(r), "root.squashfs"), squashfs},
		{"mksquashfs", add, squashfs, "-no-progress", "-quiet", "-no-recovery"}, // which appends
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			r.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	r.Run("images", "import", squashfs, "--name", name)
	if err := os.RemoveAll(dir); err != nil {
		r.Fatal(err)
	}
}

// job submits a batch job that ends when ~/NAME is there, waits until it runs, and returns what must not change of it.
func job(r *rig.Rig, node, name string) (standing func() string) {
	r.Helper()
	r.Run("ssh", "hello", "--", "sbatch -w "+node+" -J "+name+" -o "+name+".out --wrap 'while ! test -e "+name+
		"; do sleep 0.2; done; srun hostname && echo ended'")
	standing = func() string {
		r.Helper()
		return r.Run("ssh", "hello", "--", "scontrol show job $(squeue -h -t all -n "+name+
			" -o %i) | grep -oE '(Restarts|StartTime|JobState)=[^ ]*'")
	}
	r.Until(name+" runs", func() bool { return strings.Contains(standing(), "RUNNING") })
	return standing
}

func TestAnotherImageIsRolledOutUnderRunningJobs(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	controller := r.Start()
	variant(r, "next", "is-next")
	r.Run("machines", "add", "--local", "5", "--wait")
	file := r.File("hello.yaml", "name: hello\nnodes: 3\n")
	next := r.File("next.yaml", "name: hello\nnodes: 3\nimage: next\n")
	r.Run("create", "-f", file, "--wait")
	after := lastEvent(r)
	witness := job(r, "n3", "witness") // on the old image, to its end
	began := witness()

	r.Until("the controller knows of the witness", func() bool { return strings.Contains(r.Run("plan", "-f", next), "job") })
	plan := r.Run("plan", "-f", next)
	for _, want := range []string{`image +debian13-hpc +→ +next +rolling`, `n1 +reboot +1 +now +image next`,
		`n2 +reboot +2 +after wave 1`, `n3 +reboot +3 +after wave 2, once 1 job has ended`, `head +reboot +4 +last`} {
		if !regexp.MustCompile(want).MatchString(plan) {
			t.Errorf("no %q in\n%s", want, plan)
		}
	}
	r.Run("apply", "-f", next)
	r.Until("n1 is on its way", func() bool { return strings.Contains(r.Run("events", "hello"), "n1       attaching") })
	controller.Kill()
	controller = r.Start()
	r.Until("all nodes without jobs have it", func() bool {
		return strings.Contains(r.Run("describe", "hello"), "rollout to image next: 2 of 4 nodes, waits for jobs on n3")
	})
	if out := r.Run("ssh", "hello", "--", "srun -w n1,n2 -N2 cat /is-next"); out != "is-next\nis-next\n" {
		t.Errorf("%q", out)
	}
	if now := witness(); now != began {
		t.Errorf("the witness was %q and is %q", began, now)
	}
	beyond := job(r, "n1", "beyond") // runs on while the head reboots
	begun := beyond()
	r.Run("ssh", "hello", "--", "touch witness")
	r.Run("apply", "-f", next, "--wait")
	if now := beyond(); now != begun {
		t.Errorf("the job beyond the head's boot was %q and is %q", begun, now)
	}
	r.Run("ssh", "hello", "--", "touch beyond")
	r.Until("both jobs have ended as they should", func() bool {
		return r.Run("ssh", "hello", "--", "cat witness.out beyond.out /is-next") == "n3\nended\nn1\nended\nis-next\n" &&
			strings.Contains(beyond(), "Restarts=0") && strings.Contains(witness(), "Restarts=0")
	})
	if down := mostDown(r, after); down != 1 {
		t.Errorf("%d nodes were down at a time", down)
	}
	var now cluster
	r.Get(&now, "get", "hello")
	for i, want := range []string{"local-1", "local-2", "local-3", "local-4"} {
		if now.Nodes[i].Machine != want {
			t.Errorf("%s is on %s and was on %s", now.Nodes[i].Name, now.Nodes[i].Machine, want)
		}
	}

	variant(r, "next", "is-newer")
	if out := r.Run("plan", "-f", next); !strings.Contains(out, "newer build") || !strings.Contains(out, "nothing to change") {
		t.Error(out)
	}
	r.Run("apply", "-f", next, "--refresh-image", "--wait")
	if out := r.Run("ssh", "hello", "--", "srun -N3 cat /is-newer; cat /is-newer"); out != strings.Repeat("is-newer\n", 4) {
		t.Errorf("%q", out)
	}
	r.Run("delete", "hello", "--wait")
	r.NothingLeft()
	controller.Stop()
}

func TestARolloutOfAnImageWithoutSlurmStopsAndGoesBack(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	controller := r.Start()
	if out := r.Run("images", "list"); !strings.Contains(out, "inspector") {
		t.Skip("a rollout is not seen to fail: there is no image inspector; `make image` builds it")
	}
	r.Run("machines", "add", "--local", "4", "--wait")
	r.Run("create", "-f", r.File("hello.yaml", "name: hello\nnodes: 2\n"), "--wait")
	witness := job(r, "n2", "witness")
	began := witness()
	got := r.Muster("apply", "-f", r.File("bad.yaml", "name: hello\nnodes: 2\nimage: inspector\n"), "--wait")
	if got.Code != 1 || !strings.Contains(got.Err, "n1 did not come up with image inspector") ||
		!strings.Contains(got.Err, "`muster rollout back hello` goes back") {
		t.Errorf("exit %d\n%s", got.Code, got.Err)
	}
	r.Until("the cluster works on the old image", func() bool {
		var now cluster
		r.Get(&now, "get", "hello")
		return now.Phase == "degraded" && strings.HasPrefix(now.Reason, "rollout stopped: ") &&
			strings.Contains(now.Reason, "head and 2 nodes ready")
	})
	if out := r.Run("ssh", "hello", "--", "srun -w n1 hostname"); out != "n1\n" {
		t.Errorf("%q", out)
	}
	if now := witness(); now != began {
		t.Errorf("the witness was %q and is %q", began, now)
	}
	r.Run("rollout", "back", "hello", "--wait")
	if got := r.Muster("rollout", "resume", "hello"); got.Code != 5 {
		t.Error(got)
	}
	if now := witness(); now != began {
		t.Errorf("the witness was %q and is %q", began, now)
	}
	r.Run("delete", "hello", "--wait")
	r.NothingLeft()
	controller.Stop()
}

func TestAQueueThatGoesLetsItsJobsEnd(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	controller := r.Start()
	r.Run("machines", "add", "--local", "4", "--wait")
	one := r.File("one.yaml", "name: hello\nqueues:\n  - {name: main, nodes: 1}\n")
	r.Run("create", "-f", r.File("two.yaml", "name: hello\nqueues:\n  - {name: main, nodes: 1}\n  - {name: debug, nodes: 1}\n"),
		"--wait")
	r.Run("ssh", "hello", "--", "sbatch -p debug -J witness -o witness.out --wrap 'while ! test -e witness; do sleep 0.2; "+
		"done; srun hostname && echo ended'")
	running := func() bool {
		return strings.Contains(r.Run("ssh", "hello", "--", "squeue -h -n witness -o '%T %P'"), "RUNNING debug")
	}
	r.Until("the witness runs", running)
	r.Until("the plan knows of the job", func() bool { // from the head's next report on
		return regexp.MustCompile(`debug1 +remove +1 +now, once 1 job has ended +queue debug is removed`).
			MatchString(r.Run("plan", "-f", one))
	})
	r.Run("apply", "-f", one)
	r.Until("the queue takes no new jobs", func() bool {
		return r.Muster("ssh", "hello", "--", "sbatch -p debug --wrap hostname").Code != 0
	})
	if !running() {
		t.Error("the witness was ended")
	}
	r.Run("ssh", "hello", "--", "touch witness") // its next step begins after slurmctld was restarted for the queues
	r.Run("apply", "-f", one, "--wait")
	if out := r.Run("ssh", "hello", "--", "cat witness.out; sinfo -h -o %P"); out != "debug1\nended\nmain*\n" {
		t.Errorf("%q", out)
	}
	r.Run("delete", "hello", "--wait")
	r.NothingLeft()
	controller.Stop()
}

func events(r *rig.Rig) (all []event) {
	r.Helper()
	var list struct{ Items []event }
	r.Get(&list, "events", "hello")
	return list.Items
}

// mostDown is how many compute nodes were not ready at the same time, by the events after one.
func mostDown(r *rig.Rig, after int64) (most int) {
	r.Helper()
	var down []string
	for _, e := range events(r) {
		if e.Seq <= after || e.Type != "node.phase" || e.Node == "head" {
			continue
		}
		down = slices.DeleteFunc(down, func(n string) bool { return n == e.Node })
		if e.Phase != "ready" {
			down = append(down, e.Node)
		}
		most = max(most, len(down))
	}
	return most
}
