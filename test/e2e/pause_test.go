package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// scan is the head's SSH host key as a stranger sees it, who knows no authority.
func scan(r *rig.Rig, name string) string {
	r.Helper()
	c := exec.Command("ssh", "-F", "/dev/null", "-v", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o",
		"UserKnownHostsFile=/dev/null", "-o", "GlobalKnownHostsFile=/dev/null",
		"-o", "HostKeyAlgorithms=ssh-ed25519", "-o", "PreferredAuthentications=none", "-o", "ProxyCommand="+r.Binary+" tunnel "+
			name, "nobody@"+name)
	c.Env = append(os.Environ(), "MUSTER_DATA="+r.Data)
	out, _ := c.CombinedOutput() // the login is refused
	for line := range strings.Lines(string(out)) {
		if _, key, found := strings.Cut(line, "Server host key: "); found {
			return strings.TrimSpace(key)
		}
	}
	r.Fatalf("no host key in\n%s", out)
	return ""
}

func TestAClusterIsPausedWhileAnotherUsesItsMachinesAndComesBack(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	controller := r.Start()
	r.Run("machines", "add", "--local", "4", "--wait")
	r.Run("create", "-f", r.File("cfd.yaml", "name: cfd\nnodes: 3\n"), "--wait")
	var before cluster
	r.Get(&before, "get", "cfd")
	key := scan(r, "cfd")

	r.Run("ssh", "cfd", "--", "echo precious > file")
	r.Run("ssh", "cfd", "--", "sbatch -N2 -w n1,n2 -J runs -o runs.out --wrap 'echo begins; sleep 10; echo ends after "+
		"$SLURM_RESTART_COUNT'")
	r.Run("ssh", "cfd", "--", "sbatch -w n1 --exclusive -J waits -o waits.out --wrap 'echo ran on $(hostname)'")
	jobs := func() string { return r.Run("ssh", "cfd", "--", "squeue -h -S i -o '%i %j %T'") }
	r.Until("one job runs and one waits", func() bool { return jobs() == "1 runs RUNNING\n2 waits PENDING\n" })

	start := time.Now()
	r.Run("pause", "cfd", "--wait")
	t.Logf("paused in %.1f s", time.Since(start).Seconds())
	if out := r.Run("tasks", "list", "cfd"); !strings.Contains(out, " root ") || !strings.Contains(out, " ok ") {
		t.Errorf("the hook is no task:\n%s", out)
	}
	if out := r.Run("events", "cfd"); !strings.Contains(out, "head") ||
		!strings.Contains(out, "the image has no /etc/muster/checkpoint") {
		t.Errorf("no word of the hook in\n%s", out)
	}
	for args, want := range map[string]string{"list": "paused", "describe cfd": "of /home and state",
		"machines list": "local-4"} {
		if out := r.Run(strings.Fields(args)...); !strings.Contains(out, want) {
			t.Errorf("muster %s: no %q in\n%s", args, want, out)
		}
	}
	if out := r.Run("machines", "list"); strings.Count(out, "available") != 4 {
		t.Errorf("machines of a paused cluster:\n%s", out)
	}
	if got := r.Muster("ssh", "cfd"); got.Code != 5 || !strings.Contains(got.Err, "is paused since") ||
		!strings.Contains(got.Err, "muster resume cfd") {
		t.Error(got)
	}

	r.Run("create", "-f", r.File("other.yaml", "name: other\nnodes: 1\n"), "--wait") // on the first of cfd's machines
	if got := r.Muster("resume", "cfd"); got.Code != 3 || !strings.Contains(got.Err, "in use") {
		t.Error(got)
	}
	r.Run("machines", "add", "--local", "2", "--wait")

	start = time.Now()
	r.Run("resume", "cfd", "--wait")
	t.Logf("resumed in %.1f s", time.Since(start).Seconds())
	var after cluster
	r.Get(&after, "get", "cfd")
	moved := false
	for i, n := range after.Nodes {
		if was := before.Nodes[i]; n.Name != was.Name || n.Address != was.Address {
			t.Errorf("%+v was %+v", n, was)
		}
		moved = moved || n.Machine != before.Nodes[i].Machine
	}
	if !moved {
		t.Error("it is on the same machines")
	}
	if now := scan(r, "cfd"); now != key {
		t.Errorf("the head's host key was %s and is %s", key, now)
	}
	if out := r.Run("ssh", "cfd", "--", "cat file"); out != "precious\n" {
		t.Error(out)
	}
	// Slurm lets a job that was queued again wait for two minutes; its owner need not.
	r.Run("ssh", "cfd", "--", "scontrol update jobid=1 starttime=now")
	r.Until("both jobs have ended", func() bool { return jobs() == "" })
	if out := r.Run("ssh", "cfd", "--", "cat waits.out; tail -2 runs.out"); out != "ran on n1\nbegins\nends after 1\n" {
		t.Errorf("%q", out)
	}

	t.Run("jobs that run may end first", func(t *testing.T) {
		r := r.In(t)
		r.Run("ssh", "cfd", "--", "sbatch -J short -o short.out --wrap 'sleep 3; echo ended'")
		r.Until("it runs", func() bool { return strings.Contains(jobs(), "short RUNNING") })
		r.Run("pause", "cfd", "--on-jobs", "wait", "--wait")
		r.Run("resume", "cfd", "--wait")
		if out := r.Run("ssh", "cfd", "--", "cat short.out"); out != "ended\n" {
			t.Errorf("%q", out)
		}
	})
	t.Run("a paused cluster takes changes for later", func(t *testing.T) {
		r := r.In(t)
		r.Run("pause", "cfd", "--wait")
		r.Run("scale", "cfd", "1", "--wait")
		r.Run("resume", "cfd", "--wait")
		r.Until("Slurm has one node", func() bool { return r.Run("ssh", "cfd", "--", "sinfo -h -N -o %N") == "n1\n" })
		r.Run("scale", "cfd", "3", "--wait")
	})
	t.Run("controllers killed on the way lose nothing", func(t *testing.T) {
		whole, r := r, r.In(t) // controllers are those of the whole test
		for i, wait := range []time.Duration{150, 450} {
			r.Run("pause", "cfd")
			time.Sleep(wait * time.Millisecond)
			controller.Kill()
			controller = whole.Start()
			r.Run("pause", "cfd", "--wait")
			if got := r.Run("ssh", "other", "--", "hostname"); got != "head\n" {
				t.Errorf("%q", got)
			}
			r.Run("resume", "cfd")
			time.Sleep(wait * time.Millisecond)
			controller.Kill()
			controller = whole.Start()
			r.Run("resume", "cfd", "--wait")
			want := fmt.Sprintf("file %d\n", i)
			if out := r.Run("ssh", "cfd", "--", fmt.Sprintf("srun -N3 hostname >/dev/null && cat file && echo file %d > file",
				i+1)); out != want && i > 0 || scan(r, "cfd") != key {
				t.Errorf("after round %d: %q", i, out)
			}
		}
	})

	t.Run("a copy of a paused cluster has its files and its queue", func(t *testing.T) {
		r := r.In(t)
		r.Run("ssh", "cfd", "--", "echo saved > file; sbatch --begin now+1hour -J later --wrap hostname")
		r.Run("pause", "cfd", "--wait")
		r.Run("snapshot", "cfd", "--name", "s1", "--wait")
		r.Run("create", "copy", "--from-snapshot", "s1", "--wait")
		if out := r.Run("ssh", "copy", "--",
			"cat file; squeue -h -o %j; srun -N3 hostname >/dev/null; scontrol show config | grep -o 'ClusterName.*= .*' | "+
				"cut -d= -f2"); out != "saved\nlater\n copy\n" {
			t.Errorf("%q", out)
		}
		if scan(r, "copy") == key {
			t.Error("the copy has the host key of its original")
		}
		if got := r.Muster("create", "again", "--from-snapshot", "s2"); got.Code != 6 {
			t.Error(got)
		}
		r.Run("delete", "copy", "--wait")
		r.Run("snapshots", "delete", "s1")
		r.Until("the snapshot is gone", func() bool { return !strings.Contains(r.Run("snapshots", "list"), "s1") })
	})

	r.Run("delete", "cfd", "--wait")
	r.Run("delete", "other", "--wait")
	r.NothingLeft()
	controller.Stop()
}
