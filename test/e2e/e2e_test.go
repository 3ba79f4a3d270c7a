// Package e2e_test goes the whole way, with the real binary, real nodes, real Slurm and real MPI, through the command line
// alone.
package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

type cluster struct {
	ID, Name, Phase, Reason string
	Nodes                   []struct{ Name, Phase, Machine, Address string }
}

func TestFromAFileToAnMPIJobAndBackToNothing(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "")
	controller := r.Start()
	r.Run("machines", "add", "--local", "6", "--wait")
	file := r.File("hello.yaml", "name: hello\nnodes: 3\n")

	t.Run("plan and dry run change nothing", func(t *testing.T) {
		r := r.In(t)
		plan := r.Run("plan", "-f", file)
		if !strings.Contains(plan, "n3") || !strings.Contains(plan, "local-4") {
			t.Error(plan)
		}
		r.Run("create", "-f", file, "--dry-run")
		if out := r.Run("list"); strings.Contains(out, "hello") {
			t.Error(out)
		}
	})

	r.Run("create", "-f", file, "--wait")
	t.Run("it is listed and described", func(t *testing.T) {
		r := r.In(t)
		for _, c := range []struct{ args, want string }{
			{"list", `hello +ready`}, {"describe hello", `n3 +ready`}, {"events hello", `create 1 head \+ 3 nodes`},
			{"machines list", `local-4 .*in-use`},
		} {
			if out := r.Run(strings.Fields(c.args)...); !regexp.MustCompile(c.want).MatchString(out) {
				t.Errorf("muster %s: no %q in\n%s", c.args, c.want, out)
			}
		}
	})
	t.Run("Slurm runs on all nodes", func(t *testing.T) {
		r := r.In(t)
		out := r.Run("ssh", "hello", "--", "srun", "-N3", "hostname")
		for _, name := range []string{"n1", "n2", "n3"} {
			if !strings.Contains(out, name+"\n") {
				t.Errorf("%s is missing in\n%s", name, out)
			}
		}
	})
	t.Run("ssh passes exit codes and both outputs through", func(t *testing.T) {
		r := r.In(t)
		got := r.Muster("ssh", "hello", "--", "echo out; echo err >&2; exit 37")
		if got.Code != 37 || got.Out != "out\n" || !strings.Contains(got.Err, "err") {
			t.Error(got)
		}
	})
	t.Run("MPI crosses the cluster's network", func(t *testing.T) {
		r := r.In(t)
		for _, job := range []string{"srun --mpi=pmix -N2 -n2 mpi-pingpong",
			"sbatch --wait -N2 -n2 -o pingpong.out --wrap 'mpirun mpi-pingpong' >/dev/null; cat pingpong.out"} {
			out := r.Run("ssh", "hello", "--", job)
			if !regexp.MustCompile(`(?i)latency.* [0-9.]+`).MatchString(out) {
				t.Errorf("%s:\n%s", job, out)
			}
		}
	})
	t.Run("MPI steps start on any two of a job's nodes, which see the whole job", func(t *testing.T) {
		out := r.In(t).Run("ssh", "hello", "--", `sbatch --wait -t 12 -N3 -o pairs.out --wrap '
			for pair in n1,n2 n1,n3 n2,n3; do
				for i in 1 2 3; do timeout 60 srun -w $pair -N2 -n2 mpi-sweep --short barrier 2 0 && echo $pair; done
			done
			srun -w n2,n3 -N2 -n2 sh -c "scontrol show hostnames | sort | xargs"' >/dev/null; grep ^n pairs.out | sort | uniq -c`)
		if got, want := strings.Join(strings.Fields(out), " "), "2 n1 n2 n3 3 n1,n2 3 n1,n3 3 n2,n3"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
	t.Run("users attach to steps from the head", func(t *testing.T) {
		out := r.In(t).Run("ssh", "hello", "--", `
			J=$(sbatch --parsable --wrap "srun sh -c 'until [ -e go ]; do echo seen; sleep 0.1; done'")
			for i in $(seq 1000); do sattach $J.0 2>&1 | head -1 | grep seen && break; sleep 0.1; done; touch go`) // once it has begun
		if out != "seen\n" {
			t.Errorf("%q", out)
		}
	})
	t.Run("a registered key opens the cluster with plain ssh, and no longer when it is forgotten", func(t *testing.T) {
		r := r.In(t)
		key := filepath.Join(t.TempDir(), "id")
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		plain := func() string {
			c := exec.Command("ssh", "-F", "/dev/null", "-i", key, "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no",
				"-o", "UserKnownHostsFile=/dev/null",
				"-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-o", "ProxyCommand="+r.Binary+" tunnel hello", "admin@hello",
				"hostname")
			c.Env = append(os.Environ(), "MUSTER_DATA="+r.Data)
			out, _ := c.Output()
			return string(out)
		}
		if out := plain(); out != "" {
			t.Fatalf("a stranger's key was let in: %q", out)
		}
		r.Run("keys", "add", key+".pub")
		r.Until("the key works", func() bool { return plain() == "head\n" })
		fields := strings.Fields(r.Run("keys", "list"))
		fingerprint := ""
		for _, f := range fields {
			if strings.HasPrefix(f, "SHA256:") {
				fingerprint = f
			}
		}
		r.Run("keys", "delete", fingerprint)
		r.Until("the key is forgotten", func() bool { return plain() == "" })
	})
	t.Run("nodes share home and trust each other", func(t *testing.T) {
		r := r.In(t)
		out := r.Run("ssh", "hello", "--", "echo shared > f; ssh n2 cat f; ssh n1 hostname")
		if out != "shared\nn1\n" {
			t.Errorf("%q", out)
		}
	})

	// A job that must not notice anything: it counts on n1 while the cluster changes around it.
	r.Run("ssh", "hello", "--", "sbatch -w n1 -J witness -o witness.out --wrap 'echo begin; sleep 3600'")
	witness := func() string {
		return strings.TrimSpace(r.Run("ssh", "hello", "--",
			"squeue -h -n witness -o '%T %N %r'; scontrol show job $(squeue -h -n witness -o %i) | grep -o "+
				"'Restarts=[0-9]*\\|StartTime=[^ ]*'"))
	}
	r.Until("the witness runs", func() bool { return strings.HasPrefix(witness(), "RUNNING") })
	before := witness()
	t.Run("scaling leaves running jobs alone", func(t *testing.T) {
		r := r.In(t)
		r.Run("scale", "hello", "5", "--wait")
		if out := r.Run("ssh", "hello", "--", "sinfo -h -o %D"); strings.TrimSpace(out) == "" {
			t.Error(out)
		}
		if out := r.Run("ssh", "hello", "--", "srun -w n4,n5 -N2 hostname"); !strings.Contains(out, "n5") {
			t.Error(out)
		}
		r.Run("scale", "hello", "2", "--wait")
		if after := witness(); after != before {
			t.Errorf("the witness was %q and is %q", before, after)
		}
		var c cluster
		r.Get(&c, "get", "hello")
		if len(c.Nodes) != 3 {
			t.Error(c)
		}
	})
	t.Run("the controller's death leaves running jobs alone", func(t *testing.T) {
		controller.Kill()
		controller = r.Start() // of the whole test, not of this part
		if after := witness(); after != before {
			t.Errorf("the witness was %q and is %q", before, after)
		}
	})
	t.Run("scaling down waits for jobs, and no longer than it was told", func(t *testing.T) {
		r := r.In(t)
		// The witness keeps n1; the other node is the one that goes.
		r.Run("ssh", "hello", "--", "sbatch -w "+other(r)+" -J short -o short.out --wrap 'touch begun; sleep 5; echo done'")
		r.Until("the short job has begun", func() bool { return r.Run("ssh", "hello", "--", "ls begun 2>/dev/null; true") != "" })
		r.Run("scale", "hello", "1", "--wait")
		if out := r.Run("ssh", "hello", "--", "cat short.out"); out != "done\n" {
			t.Errorf("the job on the node that went was not waited for: %q", out)
		}
		r.Run("scale", "hello", "2", "--wait")
		r.Run("ssh", "hello", "--", "sbatch -w "+other(r)+" -J long --wrap 'sleep 3600'")
		r.Until("the long job runs", func() bool {
			return strings.Contains(r.Run("ssh", "hello", "--", "squeue -h -n long -o %T"), "RUNNING")
		})
		start := time.Now()
		r.Run("scale", "hello", "1", "--drain-timeout", "2s", "--wait")
		if took := time.Since(start); took > 5*time.Minute { // the job has an hour
			t.Errorf("it took %s", took)
		}
	})
	t.Run("apply does what plan says", func(t *testing.T) {
		r := r.In(t)
		changed := r.File("changed.yaml", "name: hello\nnodes: 4\n")
		if plan := r.Run("plan", "-f", changed); !regexp.MustCompile(`queues\[main\]\.max.*1.*4.*live`).MatchString(plan) {
			t.Error(plan)
		}
		r.Run("apply", "-f", changed, "--wait")
		if got := r.Muster("apply", "-f", changed); got.Code != 0 {
			t.Error(got)
		}
		if got := r.Muster("apply", "-f", r.File("never.yaml", "name: hello\nnodes: 4\nhead: {class: local}\n")); got.Code != 2 ||
			!strings.Contains(got.Err, "head.class") {
			t.Error(got)
		}
	})
	t.Run("a cluster of the same name and one too many are refused", func(t *testing.T) {
		r := r.In(t)
		if got := r.Muster("create", "-f", file); got.Code != 5 {
			t.Error(got)
		}
		if got := r.Muster("create", "-f", r.File("big.yaml", "name: big\nnodes: 64\n")); got.Code != 3 ||
			!strings.Contains(got.Err, "big.yaml:2:8") || !strings.Contains(got.Err, "65 asked") &&
			!strings.Contains(got.Err, "64 asked") {
			t.Error(got)
		}
		if got := r.Muster("describe", "nobody"); got.Code != 6 {
			t.Error(got)
		}
	})
	t.Run("secrets stay secret", func(t *testing.T) { secrets(t, r.In(t), controller) })

	r.Run("delete", "hello", "--wait")
	r.NothingLeft()
	if out := r.Run("machines", "list"); strings.Count(out, "available") != 6 {
		t.Errorf("machines after the delete:\n%s", out)
	}
	controller.Stop()
}

// other is the compute node beside n1.
func other(r *rig.Rig) string {
	r.Helper()
	var c cluster
	r.Get(&c, "get", "hello")
	for _, n := range c.Nodes {
		if n.Name != "head" && n.Name != "n1" {
			return n.Name
		}
	}
	r.Fatal("there is no other node")
	return ""
}

// secrets looks for tokens and keys where everyone can read.
func secrets(t *testing.T, r *rig.Rig, c *rig.Controller) {
	token, err := os.ReadFile(filepath.Join(r.Data, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{r.Data, filepath.Join(r.Data, "admin.token"), filepath.Join(r.Data, "muster.db")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
	log, err := os.ReadFile(c.Log)
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSpace(string(token))
	for name, text := range map[string]string{"the log": string(log), "the events": r.Run("events")} {
		if strings.Contains(text, secret) {
			t.Errorf("the token is in %s", name)
		}
	}
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commands {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), secret) {
			t.Errorf("the token is in %s", path)
		}
	}
}

func TestEveryBadFileIsRefusedWithItsPlaceAndMakesNothing(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "")
	r.Start()
	files, err := filepath.Glob(filepath.Join(rig.Root(t), "internal/spec/testdata/bad/*.yaml"))
	if err != nil || len(files) < 40 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		for _, verb := range []string{"validate", "create"} {
			got := r.Muster(verb, "-f", file)
			if place := regexp.MustCompile(regexp.QuoteMeta(filepath.Base(file)) + `:\d+:\d+: `); got.Code != 2 ||
				!place.MatchString(got.Err) {
				t.Errorf("%s %s: exit %d\n%s", verb, filepath.Base(file), got.Code, got.Err)
			}
		}
	}
	if out := r.Run("list", "-o", "json"); strings.Contains(out, `"id"`) {
		t.Error(out)
	}
	r.NothingLeft()
}

func TestFiftyNodesOnThisHost(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	c := r.Start()
	r.Run("machines", "add", "--local", "51", "--wait")
	start := time.Now()
	r.Run("create", "-f", r.File("wide.yaml", "name: wide\nnodes: 50\n"), "--wait")
	t.Logf("1 + 50 nodes in %.1f s", time.Since(start).Seconds())
	out := r.Run("ssh", "wide", "--", "srun -N50 hostname | sort -u | wc -l; sinfo -h -t idle -o %D")
	fields := strings.Fields(out)
	if len(fields) != 2 || fields[0] != "50" || fields[1] != "50" {
		t.Error(out)
	}
	r.Run("delete", "wide", "--wait")
	r.NothingLeft()
	c.Stop()
}

func TestTwoClustersWithTheSameNamesDoNotMeet(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "")
	c := r.Start()
	r.Run("machines", "add", "--local", "4", "--wait")
	for _, name := range []string{"one", "two"} {
		r.Run("create", "-f", r.File(name+".yaml", "name: "+name+"\nnodes: 1\n"), "--wait")
		r.Run("ssh", name, "--", "echo "+name+" > mark")
	}
	// n1 of each has the same address; what answers there must be the cluster's own.
	for _, name := range []string{"one", "two"} {
		out := r.Run("ssh", name, "--", "ssh n1 cat mark; hostname -I; ssh n1 hostname -I")
		if !strings.HasPrefix(out, name+"\n") {
			t.Errorf("%s: %s", name, out)
		}
	}
	addresses := map[string]bool{}
	for _, name := range []string{"one", "two"} {
		var got cluster
		r.Get(&got, "get", name)
		addresses[fmt.Sprint(got.Nodes[1].Address)] = true
	}
	if len(addresses) != 1 {
		t.Error("the test wants equal addresses", addresses)
	}
	r.Run("delete", "one", "--wait")
	if out := r.Run("ssh", "two", "--", "srun -N1 hostname"); out != "n1\n" {
		t.Errorf("the other cluster suffered: %q", out)
	}
	r.Run("delete", "two", "--wait")
	r.NothingLeft()
	c.Stop()
}
