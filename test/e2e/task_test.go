package e2e_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/test/rig"
)

type task struct {
	ID, Phase, Outcome, Account, Reason string
	Exit                                *int
	Nodes                               []string
	Samples                             []struct {
		Name, Unit string
		Value      float64
	}
}

// TestProgramsAreRunFromOutside goes through docs/run-a-program.md.
func TestProgramsAreRunFromOutside(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "")
	outer, controller := r, r.Start()
	r.Run("machines", "add", "--local", "4", "--wait")
	r.Run("create", "-f", r.File("hello.yaml", "name: hello\nnodes: 2\n"), "--wait")

	began := time.Now()
	r.Run("run", "hello", "--", "true")
	t.Logf("a program that does nothing took %v", time.Since(began))
	if out := r.Run("run", "hello", "--nodes", "2", "--", "hostname"); out != "n1\nn2\n" && out != "n2\nn1\n" {
		t.Errorf("hostname on two nodes: %q", out)
	}
	if got := r.Muster("run", "hello", "--", "sh", "-c", "echo out; echo err >&2; exit 37"); got.Code != 37 ||
		got.Out != "out\nerr\n" {
		t.Errorf("%+v", got)
	}
	if out := r.Run("run", "hello", "--ranks", "2", "--nodes", "2", "--",
		"mpi-pingpong"); !regexp.MustCompile(`(?i)latency.* [0-9.]+`).MatchString(out) {
		t.Errorf("MPI: %s", out)
	}
	if out := r.Run("run", "hello", "--", "head", "-c", "2000000", "/dev/zero"); len(out) != 2000000 {
		t.Errorf("%d bytes came", len(out))
	}
	var told task
	// Open MPI 5 says so where a program has ended before its standard input is passed on (openpmix/prrte, issue 2431).
	early := regexp.MustCompile(`\[.*\] PRTE ERROR: A message is attempting to be sent to a process whose .* iof_hnp\.c.*\n`)
	for _, starts := range []string{"srun hostname", "mpirun hostname"} {
		out := r.Run("run", "hello", "--on", "n2", "--script", r.File("starts.sh", starts+"\n"))
		if early.ReplaceAllString(out, "") != "n2\n" {
			t.Errorf("a script that says %s: %q", starts, out)
		}
	}
	// As people have them for sbatch, with what a login has.
	r.Run("ssh", "hello", "--", "echo 'export SITE_DATA=/data' >>~/.profile")
	if out := r.Run("run", "hello", "--script", r.File("batch.sh", "#!/bin/bash\n#SBATCH --nodes=2 --ntasks=4\n#SBATCH -J 'my job' -t 5\n"+
		"srun hostname | sort | uniq -c | xargs\necho $SLURM_JOB_NAME, $SITE_DATA\n")); out != "2 n1 2 n2\nmy job, /data\n" {
		t.Errorf("a script with directives: %q", out)
	}
	if out := r.Run("run", "hello", "--nodes", "1", "--ranks", "1", "--script",
		r.File("batch.sh", "#!/bin/bash\n#SBATCH -N2 -n4\nsrun hostname | wc -l\n")); out != "1\n" {
		t.Errorf("the command line goes before directives: %q", out)
	}
	// What Slurm users type, and what they get elsewhere.
	r.Run("ssh", "hello", "--", "printf '#!/bin/bash\\nsbatch -o inner.out --mem=300M --wrap \"srun hostname; echo inner\"\\n' "+
		">outer.sh; sbatch -o outer.out outer.sh")
	out := ""
	r.Until("a job that is submitted in a job ends", func() bool {
		out = r.Run("ssh", "hello", "--", "cat outer.out inner.out 2>/dev/null || true")
		return strings.HasSuffix(out, "inner\n")
	})
	if strings.Contains(out, "error") {
		t.Errorf("a job that is submitted in a job: %q", out)
	}
	if got := r.Muster("ssh", "hello", "--", "sbatch -o /dev/null --mail-type=END --wrap true"); got.Code != 0 ||
		!strings.Contains(got.Err, "sends no mail") {
		t.Errorf("mail: %+v", got)
	}
	if out := r.Run("ssh", "hello", "--", "srun --tmp=1M true && sbatch -o /dev/null --array=5000-5001 --wrap true >/dev/null && "+
		"echo both; echo $LANG; locale 2>&1 | grep -c warn || true"); out != "both\nC.UTF-8\n0\n" {
		t.Errorf("/tmp, numbers of arrays, language: %q", out)
	}
	for script, says := range map[string]string{
		"#!/bin/bash\n#SBATCH --output=out.%j\nhostname\n": "line 2: #SBATCH: --output cannot be honoured",
		"#!/bin/bash\r\nhostname\r\n":                      "line 1 ends with a carriage return",
		"echo gr\xfc\xdfe\n":                               "bad.sh:1: is not UTF-8",
	} {
		if got := r.Muster("run", "hello", "--script", r.File("bad.sh", script)); got.Code != 2 ||
			!strings.Contains(got.Err, says) {
			t.Errorf("%q: %+v", script, got)
		}
	}
	r.Get(&told, "run", "hello", "--script", r.File("job.sh", "id -un\nid -u\necho rate 2.5 GB/s >>$MUSTER_SAMPLES\n"))
	if told.Outcome != "ok" || len(told.Samples) != 1 || told.Samples[0].Value != 2.5 || told.Samples[0].Unit != "GB/s" {
		t.Errorf("%+v", told)
	}
	if out := r.Run("tasks", "output", told.ID); !strings.HasPrefix(out, told.Account+"\n") || strings.Contains(out, "\n0\n") {
		t.Errorf("it ran as\n%s", out)
	}
	for _, c := range []struct{ args, want string }{
		{"--nodes 3 -- true", "has 2 nodes at most"}, {"--on n7 -- true", "no compute node"},
		{"--limit 8d -- true", "from 1s to 7d"}, {"--nodes 2 --ranks 1 -- true", "too few"},
	} {
		if got := r.Muster(append([]string{"run", "hello"}, strings.Fields(c.args)...)...); got.Code != 2 ||
			!strings.Contains(got.Err, c.want) {
			t.Errorf("run %s: %+v", c.args, got)
		}
	}

	t.Run("a benchmark is run, and what it has measured is shown", func(t *testing.T) {
		r := r.In(t)
		r.Undisturbed("hello", "n1", "n2")
		out := r.Run("bench", "run", "hello", "--suite", "ping-pong", "--rounds", "1", "--wait")
		for _, part := range []string{"cluster hello is ok", "1 ok", "latency bytes=8 ", "bandwidth bytes=1048576 ", "µs"} {
			if !strings.Contains(out, part) {
				t.Errorf("there is no %q in\n%s", part, out)
			}
		}
		if out := r.Run("ssh", "hello", "--", "ls -A | grep muster-bench || true"); out != "" {
			t.Errorf("it left %s", out)
		}
		r.Run("bench", "watch", "hello", "--suite", "ping-pong", "--rounds", "1", "--every", "1d")
		r.Until("the watch has run once, and waits", func() bool {
			return strings.Contains(r.Run("bench", "runs", "hello"), "begins at ")
		})
		var trends struct {
			Items []struct {
				Quantity string
				Points   []struct{ Value float64 }
			}
		}
		r.Get(&trends, "bench", "history", "hello")
		if all := trends.Items; len(all) != 4 || len(all[0].Points) != 2 || all[0].Points[1].Value <= 0 {
			t.Errorf("%+v", trends)
		}
		r.Run("bench", "watch", "hello", "--suite", "ping-pong", "--off")
		if got := r.Muster("bench", "watch", "hello", "--suite", "ping-pong", "--off"); got.Code == 0 {
			t.Errorf("%+v", got)
		}
		r.Until("no run is left", func() bool { return !strings.Contains(r.Run("bench", "runs", "hello"), "begins at ") })
	})
	t.Run("one that passes its limit is ended", func(t *testing.T) {
		r := r.In(t)
		if got := r.Muster("run", "hello", "--limit", "1s", "--", "sleep", "600"); got.Code != 1 ||
			!strings.Contains(got.Err, "at its time limit") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("one goes on while the controller is away, and is cancelled by it when it is back", func(t *testing.T) {
		r := r.In(t)
		first := strings.TrimSpace(r.Run("run", "hello", "--detach", "--on", "n1", "--", "sh", "-c",
			"echo begun; until [ -e go ]; do sleep 0.1; done; echo ended"))
		second := strings.TrimSpace(r.Run("run", "hello", "--detach", "--on", "n2", "--", "sleep", "600"))
		r.Until("both run", func() bool {
			return strings.Count(r.Run("tasks", "list", "hello"), " running ") == 2
		})
		controller.Kill()
		outer.Start() // which lives longer than this part
		r.Run("tasks", "cancel", second)
		r.Run("ssh", "hello", "--", "touch go")
		if got := r.Muster("tasks", "output", "-f", first); got.Code != 0 || got.Out != "begun\nended\n" {
			t.Errorf("%+v", got)
		}
		r.Eventually(time.Minute, "the other is cancelled", func() bool {
			var told task
			return json.Unmarshal([]byte(r.Run("tasks", "get", second, "-o", "json")), &told) == nil &&
				told.Outcome == "cancelled"
		})
		r.Until("no job and no folder is left in the cluster", func() bool {
			return r.Run("ssh", "hello", "--", "squeue -h; ls -A .muster/tasks") == ""
		})
	})

	t.Log(r.Run("tasks", "list", "hello"), r.Run("tasks", "get", told.ID))
	r.Run("delete", "hello", "--wait")
	if got := r.Muster("tasks", "get", told.ID); got.Code != 6 {
		t.Errorf("its cluster is deleted, and the task is still there: %+v", got)
	}
}
