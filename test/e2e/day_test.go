package e2e_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/internal/kit/mail/mailtest"
	"muster/internal/kit/testall"
	"muster/test/rig"
)

// TestAUsersDay has an ordinary user do what users of other HPC centres do all day. Each line prints what it would
// print there.
func TestAUsersDay(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	r.Start()
	r.Run("machines", "add", "--local", "4", "--wait")
	r.Run("create", "-f", r.File("day.yaml", "name: day\nnodes: 3\n"), "--wait")
	shell := func(command string) string { return r.Run("ssh", "day", "--", command) }

	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, command, want string }{
		{"an array of 10,000 is one submission, and goes as one", `
			J=$(sbatch --parsable --hold --array=1-10000%500 -o /dev/null --wrap true)
			squeue -h -r -j $J | wc -l; scancel $J; squeue -h -j $J | wc -l`, "10000\n0\n"},
		{"a job waits for another's success, another for its failure, and who waits in vain goes", `
			A=$(sbatch --parsable -o /dev/null --wrap 'sleep 1; exit 3')
			B=$(sbatch --parsable -d afterok:$A --kill-on-invalid-dep=yes -o /dev/null --wrap true)
			C=$(sbatch --parsable -d afternotok:$A -o /dev/null --wrap true)
			sbatch -W -Q -d afterany:$A:$B:$C -o /dev/null --wrap true
			for j in $A $B $C; do scontrol show job $j | grep -o 'JobState=[A-Z]*'; done`,
			"JobState=FAILED\nJobState=CANCELLED\nJobState=COMPLETED\n"},
		{"one of a name at a time", `
			sbatch -Q -J only -d singleton -o only.out --wrap 'echo begins; sleep 1; echo ends'
			sbatch -W -Q -J only -d singleton --open-mode=append -o only.out --wrap 'echo second'
			xargs < only.out`, "begins ends second\n"},
		{"a job that its user requeues starts again", `
			J=$(sbatch --parsable -o /dev/null --wrap '[ -e again ] || { touch again; sleep 600; }')
			until [ -e again ]; do sleep 0.1; done
			scontrol requeue $J
			until scontrol show job $J | grep -q JobState=COMPLETED; do sleep 0.2; done
			scontrol show job $J | grep -o 'Restarts=[0-9]*'`, "Restarts=1\n"},
		{"a shell on a node has a terminal", `
			script -qec 'srun --pty bash -c "tty -s && hostname | cut -c1"' /dev/null < /dev/null | tr -d '\r' | grep -o 'n$'`, "n\n"},
		{"an allocation holds several steps", `salloc -Q -N2 sh -c 'srun hostname | wc -l; srun -n1 hostname | wc -l'`, "2\n1\n"},
		{"a node for a job alone", `
			A=$(sbatch --parsable -w n1 --exclusive -o /dev/null --wrap 'sleep 600')
			until squeue -h -j $A -o %T | grep -q RUNNING; do sleep 0.1; done
			B=$(sbatch --parsable -w n1 -o /dev/null --wrap true)
			sleep 1; squeue -h -j $B -o %T; scancel $A; until squeue -h -t all -j $B -o %T | grep COMPLETED; do sleep 0.1; done`,
			"PENDING\nCOMPLETED\n"},
		{"components of unlike size are one job", `srun -n1 hostname : -n2 hostname | wc -l`, "3\n"},
		{"a file is copied to each node of a job", `
			echo data > f; salloc -Q -N3 sh -c 'sbcast f /tmp/day.f; srun cat /tmp/day.f; srun rm /tmp/day.f'`, "data\ndata\ndata\n"},
		{"a job saves its work before its time is over", `
			printf '%s\n' '#!/bin/bash' 'trap "echo saved; exit" USR1' 'sleep 600 & wait' > save.sh
			sbatch -W -Q -t 1 --signal=B:USR1@60 -o save.out save.sh
			grep -v '^slurmstepd-' save.out # SIGCONT follows: for who has ended by then, Slurm writes an error there`, "saved\n"},
		{"open files and stack", `srun bash -c 'ulimit -n; ulimit -Hs; ulimit -s unlimited; ulimit -s'`,
			fmt.Sprintf("%d\nunlimited\nunlimited\n", min(files.Max, 1<<16))},
		{"a limit that its user sets goes with a job", `ulimit -s 16384; srun bash -c 'ulimit -s'`, "16384\n"},
		{"only an administrator reboots", `scontrol reboot n1 2>&1 | xargs; sinfo -h -n n1 -o %t`,
			"scontrol_reboot_nodes error: Permission denied\nidle\n"},
	} {
		if got := shell(c.command); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}

	busy := strings.TrimSpace(shell("sbatch --parsable -w n2 -o /dev/null --wrap 'sleep 5'"))
	r.Until("n2 is busy", func() bool { return shell("squeue -h -j "+busy+" -o %T") == "RUNNING\n" })
	before := r.Node("day", "n2")
	if out := r.Node("day", "head").Inside("scontrol reboot ASAP n2"); out != "" {
		t.Errorf("scontrol reboot: %q", out)
	}
	r.Until("n2 is another boot of the same node", func() bool {
		now, runs := r.Find(before.Cluster, before.ID)
		return runs && now.PID != before.PID
	})
	r.Until("and takes jobs", func() bool { return shell("sinfo -h -n n2 -o %t") == "idle\n" })
	if got := shell("scontrol show job " + busy + " | grep -o 'JobState=[A-Z]*'; srun -w n2 hostname"); got !=
		"JobState=COMPLETED\nn2\n" {
		t.Errorf("after a reboot: %q", got)
	}
	r.Until("the cluster is ready again", func() bool {
		return strings.Contains(r.Run("describe", "day"), "head and 3 nodes ready")
	})

	// A check of the site's own, which its image would bring.
	n3 := r.Node("day", "n3")
	n3.Inside(`mkdir -p /etc/muster/checks; echo 93 > /tmp/filled
		printf '%s\n' 'run: cat /tmp/filled' 'most: 90' 'unit: "%"' 'every: 5s' > /etc/muster/checks/disk.yaml`)
	r.Until("n3 takes no new jobs", func() bool {
		return shell("sinfo -h -n n3 -o '%t %E'") == "drain muster: disk fails\n"
	})
	if got := r.Run("describe", "day"); !strings.Contains(got, "disk fails: 93 %, at most 90 %") ||
		!regexp.MustCompile(`disk +at most 90 % +1 +93 % \(n3\) +93 % \(n3\) +n3`).MatchString(got) {
		t.Errorf("a node that fails a check:\n%s", got)
	}
	n3.Inside("echo 40 > /tmp/filled")
	r.Until("n3 takes jobs again", func() bool { return shell("sinfo -h -n n3 -o %t") == "idle\n" })
	if now := r.Node("day", "n3"); now.PID != n3.PID {
		t.Error("n3 was replaced for a check")
	}
	r.Run("delete", "day", "--wait")
	r.NothingLeft()
}

// TestAClusterIsComparedWithItself runs all recipes that come with Muster, in pairs, on nodes that share a host. A controller
// that is killed meanwhile repeats nothing, and a cancelled comparison leaves no job.
func TestAClusterIsComparedWithItself(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	controller := r.Start()
	r.Run("machines", "add", "--local", "3", "--wait")
	r.Run("create", "-f", r.File("same.yaml", "name: same\nnodes: 2\n"), "--wait")
	r.Undisturbed("same", "n1", "n2")
	both := strings.Fields(r.Run("bench", "compare", "same", "same", "--rounds", "2"))
	var a struct {
		Ended int `json:"rounds_ended"`
	}
	r.Until("a round has ended", func() bool {
		r.Get(&a, "bench", "show", both[0])
		return a.Ended > 0
	})
	controller.Kill()
	r.Start()
	r.Eventually(5*time.Minute, "both have ended", func() bool {
		return strings.Count(r.Run("bench", "runs", "same"), " ok ") == 2
	})
	out := r.Run("bench", "compare", "--runs", both[0], both[1])
	for _, part := range []string{"not decided", "triad", "dgemm", "latency bytes=8", "allreduce bytes=8", "write", "read"} {
		if !strings.Contains(out, part) {
			t.Errorf("there is no %q in\n%s", part, out)
		}
	}
	var b struct {
		Ended int `json:"rounds_ended"`
	}
	r.Get(&a, "bench", "show", both[0])
	r.Get(&b, "bench", "show", both[1])
	n := strings.TrimSpace(r.Run("ssh", "same", "--", "sacct -nX -a | wc -l"))
	if a.Ended < 2 || b.Ended != a.Ended || n != strconv.Itoa(a.Ended+b.Ended) { // more than two were disturbed
		t.Errorf("%d and %d rounds were %s jobs", a.Ended, b.Ended, n)
	}
	again := strings.Fields(r.Run("bench", "compare", "same", "same"))
	r.Until("a job runs", func() bool { return r.Run("ssh", "same", "--", "squeue -h") != "" })
	r.Run("bench", "cancel", again[1])
	r.Until("both are cancelled, and no job and no folder is left", func() bool {
		return strings.Count(r.Run("bench", "runs", "same"), " cancelled ") == 2 &&
			r.Run("ssh", "same", "--", "squeue -h; ls -A | grep muster-bench || true") == ""
	})
	r.Run("bench", "run", "same")
	r.Until("a job runs", func() bool { return r.Run("ssh", "same", "--", "squeue -h") != "" })
	r.Run("ssh", "same", "--", "scancel -u $USER")
	r.Until("whose job is cancelled by hand, that run has ended", func() bool {
		return strings.Count(r.Run("bench", "runs", "same"), " cancelled ") == 3
	})
	r.Run("delete", "same", "--wait")
	if out := r.Run("bench", "compare", "--runs", both[0], both[1]); !strings.Contains(out, "triad") {
		t.Errorf("its cluster is deleted, and what was measured is gone: %s", out)
	}
}

// TestAProjectRunsItsScriptsAroundEachJob goes through docs/people-and-projects.md: the project's scripts run as the job's user,
// once on each of its nodes.
func TestAProjectRunsItsScriptsAroundEachJob(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	r.Start()
	r.Run("machines", "add", "--local", "3", "--wait")
	r.Run("create", "-f", r.File("day.yaml", "name: day\nnodes: 2\n"), "--wait")
	shell := func(command string) string { return r.Run("ssh", "day", "--", command) }

	r.Run("projects", "hooks", "default", "--prolog", r.File("prolog.sh", `mkdir /tmp/of.$SLURM_JOB_ID
echo x >> /tmp/of.$SLURM_JOB_ID/runs
echo export SCRATCH=/tmp/of.$SLURM_JOB_ID
[ ! -e ~/stop ] || { echo "no licence left" >&2; exit 3; }
`), "--epilog", r.File("epilog.sh", "#!/bin/sh\nrm -r /tmp/of.$SLURM_JOB_ID\nid -un >> ~/ended\n"))
	const look = `rm -f ended; srun -N2 -n4 sh -c 'cat $SCRATCH/runs; stat -c %U:%a $SCRATCH' 2>&1 | sort | uniq -c | xargs`
	r.Until("jobs have a folder each, on each of their nodes", func() bool { return shell(look) == "4 admin:755 4 x\n" })
	r.Until("and their folders go with them", func() bool {
		return shell("xargs < ended; for n in n1 n2; do ssh $n ls /tmp | grep -c of; done | xargs") == "admin admin\n0 0\n"
	})
	if got := shell(`touch stop; J=$(sbatch --parsable -o /dev/null --wrap 'touch begun')
		until scontrol show job $J | grep -q JobState=CANCELLED; do sleep 0.2; done
		scontrol show job $J | grep -o 'status 3 on n[0-9]: no licence left'
		rm stop; ls begun 2>&1 | grep -c 'No such file'; sinfo -h -o %t | sort -u`); !regexp.MustCompile(
		`^status 3 on n\d: no licence left\n1\nidle\n$`).MatchString(got) {
		t.Errorf("a prolog that fails: %q", got)
	}
	if got := r.Run("projects", "hooks", "default"); !strings.Contains(got, "echo export SCRATCH=") {
		t.Error(got)
	}
	r.Run("projects", "hooks", "default", "--prolog", "", "--epilog", "")
	r.Until("jobs are as before", func() bool { return shell(`srun sh -c 'echo "[$SCRATCH]"'`) == "[]\n" })
	r.Run("delete", "day", "--wait")
	r.NothingLeft()
}

// mailed is the built-in site, with a relay.
const mailed = `
site: home
defaults: {project: default, image: debian13-hpc, class: local, head_class: local}
classes: [{name: local, select: ["substrate = local"]}]
mail: {relay: "%s", from: muster@example.org}
`

func TestUsersAreWrittenToAboutTheirJobs(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	relay, printed := mailtest.Server(t)
	r := rig.New(t, "")
	r.Site = r.File("site.yaml", fmt.Sprintf(mailed, relay))
	r.Start()
	r.Run("machines", "add", "--local", "2", "--wait")
	r.Run("create", "-f", r.File("day.yaml", "name: day\nnodes: 1\n"), "--wait")
	shell := func(command string) string { return r.Run("ssh", "day", "--", command) }
	shell("sbatch -Q -J mailed --mail-type=END,FAIL --wrap true; sbatch -Q -J other --mail-type=END --mail-user=ada@example.org --wrap true")
	if got := shell("sbatch --mail-type=END --mail-user=eve@example.com --wrap true 2>&1"); !strings.Contains(got,
		"no mail is sent to eve@example.com: this site writes to addresses of example.org alone") {
		t.Errorf("of mail that is not sent: %q", got)
	}
	r.Until("both letters are there", func() bool {
		text := printed()
		return strings.Contains(text, "To: admin@example.org") && strings.Contains(text, "Name=mailed Ended") &&
			strings.Contains(text, "To: ada@example.org") && strings.Contains(text, "user     admin") &&
			strings.Contains(text, "cluster  default/day")
	})
	if got := r.Node("day", "head").Inside("sleep 6; ls -A /run/muster/mail"); got != "" {
		t.Errorf("letters that were sent are left: %s", got)
	}
	if strings.Contains(printed(), "example.com") {
		t.Errorf("somebody elsewhere was written to: %s", printed())
	}
	r.Run("delete", "day", "--wait")
	r.NothingLeft()
}
