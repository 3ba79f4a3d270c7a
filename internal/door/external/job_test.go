package external_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/door/external"
	"muster/internal/identity"
	externals "muster/internal/kinds/external"
	"muster/internal/kinds/task"
	"muster/internal/protocol"
)

// slurm is a batch system whose queue is a file: what the commands have that jobs are handled with.
const slurm = `mkdir bin
cat > bin/sbatch <<'END'
#!/bin/bash
echo "$@" >> ~/submitted
[[ ! -e ~/full ]] || { echo 'sbatch: error: Batch job submission failed: Invalid partition' >&2; exit 1; }
echo 'PENDING|Resources|7' > ~/queue
echo 'sbatch: a word of the site'
echo '7;arc'
END
cat > bin/squeue <<'END'
#!/bin/bash
[[ ! -e ~/down ]] || { echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1; }
[[ ! -e ~/queue ]] || cat ~/queue
END
cat > bin/scancel <<'END'
#!/bin/bash
echo "$@" >> ~/cancelled; rm -f ~/queue
END
cat > bin/scontrol <<'END'
#!/bin/bash
case "$2 $3" in
hostnames*) printf '%s\n' c1 c2 ;;
*) cat ~/record 2>/dev/null ;;
esac
END
cat > bin/sinfo <<'END'
#!/bin/bash
[[ $5 != c1,c2 || $7 != down,fail ]] || cat ~/broken
END
chmod +x bin/*
echo 'echo Welcome; PATH=~/bin:$PATH' > .bash_profile
`

// login is a login host with that batch system, and what is done there by hand.
type login struct {
	*testing.T
	door external.Door
	c    externals.Cluster
	home string
}

func newLogin(t *testing.T) login {
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, authority, "")
	h.home = t.TempDir()
	l := login{T: t, door: external.Door{Authority: authority}, home: h.home, c: externals.Cluster{Name: "arc", Login: h.address,
		HostKeys: []string{line(h.key.PublicKey())},
		Projects: []externals.Project{{Project: "aero", Rule: externals.SameAccount}}}}
	l.sh(slurm)
	return l
}

func (l login) sh(script string) string {
	l.Helper()
	c := exec.Command("bash", "-ec", script)
	c.Dir, c.Env = l.home, []string{"HOME=" + l.home, "PATH=" + l.home + "/bin:/usr/bin:/bin", "SLURM_JOB_NODELIST=c[1-2]"}
	out, err := c.CombinedOutput()
	if err != nil {
		l.Fatalf("%s: %v %s", script, err, out)
	}
	return string(out)
}

func (l login) follow(id string, cancel bool) (task.Said, string) {
	l.Helper()
	said, output, err := l.door.Follow(l.Context(), l.c, "aero", task.Task{ID: id, Account: "mia", Cancel: cancel,
		Work: task.Work{Script: "echo its done; exit ${status:-0}\n", Queue: "it's", Nodes: 2, Limit: 90 * time.Second}})
	if err != nil {
		l.Fatal(err)
	}
	return said, string(output)
}

// TestAJobIsBegunOnceAndFollowedToItsEnd, however often it is asked for.
func TestAJobIsBegunOnceAndFollowedToItsEnd(t *testing.T) {
	l := newLogin(t)
	if said, _ := l.follow("b1.0", false); said.Stage != protocol.TaskWaits || said.Job != "7" {
		t.Errorf("%+v", said)
	}
	if said, _ := l.follow("b1.0", false); said.Stage != protocol.TaskWaits || said.Job != "7" || said.Text != "Resources" {
		t.Errorf("%+v", said)
	}
	l.sh(`rm .muster-bench/b1.0/job`) // the controller was killed before it was written
	l.follow("b1.0", false)
	got := l.sh(`cat submitted; cat .muster-bench/b1.0/job`)
	if !strings.HasSuffix(got, "\n7\n") || strings.Count(got, "\n") != 2 ||
		!strings.Contains(got, "-J muster-b1.0 -N 2 -t 3 -p it's ") {
		t.Errorf("%s", got)
	}
	l.sh(`echo 'RUNNING|None|7' > queue; cd .muster-bench/b1.0; touch go; { echo "$EPOCHREALTIME" > began; echo c1 c2 > nodes; }`)
	said, _ := l.follow("b1.0", false)
	if said.Stage != protocol.TaskRuns || !slices.Equal(said.Nodes, []string{"c1", "c2"}) ||
		time.Since(said.Began).Abs() > time.Minute {
		t.Errorf("%+v", said)
	}
	l.sh(`cd .muster-bench/b1.0; status=3 bash batch > output; rm ~/queue`)
	for range 2 {
		said, output := l.follow("b1.0", false)
		if said.Stage != protocol.TaskEnded || said.Outcome != protocol.TaskFailed || said.Exit == nil || *said.Exit != 3 ||
			said.Ended.Before(said.Began) || output != "its done\n" {
			t.Errorf("%+v %q", said, output)
		}
	}
	l.follow("b1.1", false)
	if left := l.sh(`ls .muster-bench`); left != "b1.1\n" {
		t.Errorf("there are %q", left)
	}
	l.sh(`cd .muster-bench/b1.1; bash batch > output; rm ~/queue`)
	if said, _ := l.follow("b1.1", false); said.Outcome != protocol.TaskOK {
		t.Errorf("%+v", said)
	}
	for range 2 {
		if err := l.door.Forget(t.Context(), l.c, "aero", "mia", "b1"); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(l.home, ".muster-bench")); err == nil {
		t.Errorf("there are %v", left)
	}
}

// TestAJobThatEndsOtherwise: by somebody, by time, and by nothing that anybody knows.
func TestAJobThatEndsOtherwise(t *testing.T) {
	l := newLogin(t)
	if said, _ := l.follow("b1.0", true); said.Outcome != protocol.TaskCancelled {
		t.Errorf("one that was never begun: %+v", said)
	}
	for record, want := range map[string]protocol.TaskOutcome{"JobId=7 JobState=CANCELLED Reason=None": protocol.TaskCancelled,
		"JobId=7 JobState=TIMEOUT Reason=TimeLimit": protocol.TaskTimedOut, "JobId=7 JobState=NODE_FAIL": protocol.TaskLost,
		"": protocol.TaskLost} {
		l.follow("b2.0", false)
		l.sh("rm queue; echo '" + record + "' > record")
		if said, _ := l.follow("b2.0", false); said.Outcome != want || !strings.Contains(record, said.Text) {
			t.Errorf("%s: %+v", record, said)
		}
		l.sh("rm -r .muster-bench record")
	}
	l.follow("b2.1", false)
	l.sh("rm queue; echo 'JobId=7 JobState=NODE_FAIL' > record; echo c2 > broken; echo c1 c2 > .muster-bench/b2.1/nodes")
	if said, _ := l.follow("b2.1", false); said.Outcome != protocol.TaskLost || said.Text != "c2 was down: NODE_FAIL" {
		t.Errorf("which node is down is not said: %+v", said)
	}
	l.sh("rm -r .muster-bench record")
	l.follow("b3.0", false)
	if said, _ := l.follow("b3.0", true); said.Outcome != protocol.TaskCancelled {
		t.Errorf("%+v, %s", said, l.sh("cat cancelled"))
	}
	l.sh("touch full")
	said, _ := l.follow("b4.0", false)
	if said.Outcome != protocol.TaskFailed || said.Text != "sbatch: error: Batch job submission failed: Invalid partition" {
		t.Errorf("%+v", said)
	}
	l.sh("touch down")
	for name, want := range map[string]string{"mia": "arc: its batch system does not answer: slurm_load_jobs error: Unable to contact " +
		"slurm controller", "": " has no account at external cluster arc"} {
		_, _, err := l.door.Follow(t.Context(), l.c, "aero", task.Task{ID: "b5.0", Account: name, Work: task.Work{Nodes: 1}})
		if err == nil || !strings.Contains("arc: "+err.Error(), want) {
			t.Errorf("%v, not %s", err, want)
		}
	}
	l.sh("echo 'exit 1' > .bash_profile")
	_, _, err := l.door.Follow(t.Context(), l.c, "aero", task.Task{ID: "b5.0", Account: "mia"})
	if err == nil {
		t.Error("a shell that ends is a job that goes on")
	}
}
