package e2e_test

import (
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// TestJobsAreAccountedFor goes through docs/accounting.md: what was run is known after it has ended, after a pause, and in a copy
// of the cluster under its own name alone.
func TestJobsAreAccountedFor(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "")
	r.Start()
	r.Run("machines", "add", "--local", "3", "--wait")
	r.Run("create", "-f", r.File("acc.yaml", "name: acc\nnodes: 2\n"+
		"qos: [{name: short, priority: 100, max_time: 10m, per_user: {jobs: 1}}, {name: old, max_nodes: 1}]\n"), "--wait")
	slurm := func(command string) string { return r.Run("ssh", "acc", "--", command) }

	slurm("sbatch -W -Q -J sweep --array=1-20 -o /dev/null --wrap 'srun true'")
	wrote := strings.TrimSpace(slurm("sbatch --parsable -W -J sweep --wrap 'echo out; echo err >&2; hostname | cut -c1'"))
	if got := r.Run("jobs", "output", "acc", wrote); got != "out\nerr\nn\n" {
		t.Errorf("job %s has written %q", wrote, got)
	}
	const ended = `sacct -X -n -P --name=sweep -o state,account,user | sort | uniq -c | xargs`
	r.Until("all tasks are recorded", func() bool { return slurm(ended) == "21 COMPLETED|default|admin\n" })
	r.Until("the site knows them, too", func() bool {
		return strings.Count(r.Run("jobs", "acc", "--state", "completed"), "sweep") == 21
	})
	const share = "sshare -n -P -u admin -o account,user,rawshares | tail -1"
	for command, want := range map[string]string{
		share: "  default|admin|1\n",
		"srun -A nobody hostname 2>&1 | grep -c 'Invalid account or account/partition combination'": "1\n",
		"srun --qos=nothing hostname 2>&1 | grep -c 'Invalid qos specification'":                    "1\n",
		"srun --qos=short -t 11 hostname 2>&1 | grep -c 'Job violates accounting/QOS policy'":       "1\n",
		"srun --qos=short sh -c 'scontrol show job $SLURM_JOB_ID | grep -o TimeLimit=[0-9:]*'":      "TimeLimit=00:10:00\n",
		"srun --qos=old -t 11 hostname | cut -c1":                                                   "n\n",
		"srun --qos=old -N2 hostname 2>&1 | grep -c 'Job violates accounting/QOS policy'":           "1\n",
		"sacctmgr -i add account mine 2>&1 | grep -c 'Only admins'":                                 "1\n",
	} {
		if got := slurm(command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}

	first := slurm("sbatch --parsable -n1 -t 10 --qos=short --wrap 'sleep 590'")
	slurm("sbatch --parsable -n1 -t 1 --qos=short -J second --wrap 'true'")
	r.Until("one job of the QOS runs, and one waits", func() bool {
		return slurm("squeue -h -n second -o %r") == "QOSMaxJobsPerUserLimit\n"
	})
	r.Until("what waits and runs is told", func() bool {
		got := r.Run("jobs", "acc")
		return strings.Contains(got, "QOSMaxJobsPerUserLimit") && strings.Contains(got, "running")
	})
	r.Run("jobs", "cancel", "acc", strings.TrimSpace(first))
	r.Run("apply", "-f", r.File("acc.yaml", "name: acc\nnodes: 2\nqos: [{name: short, max_time: 20m}]\n"+
		"shares: [{user: admin, share: 5}]\n"), "--wait")
	r.Until("QOS are those of the file", func() bool {
		return slurm("srun --qos=old hostname 2>&1 | grep -c 'Invalid qos'; srun --qos=short -t 20 echo runs; true") == "1\nruns\n"
	})

	if got, want := slurm(share), "  default|admin|5\n"; got != want {
		t.Errorf("shares: %q, want %q", got, want)
	}

	start := time.Now()
	r.Run("pause", "acc", "--wait")
	r.Run("resume", "acc", "--wait")
	t.Logf("paused and resumed in %.1f s", time.Since(start).Seconds())
	r.Until("accounts outlive a pause", func() bool { return slurm(ended) == "21 COMPLETED|default|admin\n" })
	if got := slurm("srun -N2 hostname | sort | xargs"); got != "n1 n2\n" {
		t.Errorf("after a pause: %q", got)
	}

	r.Run("snapshot", "acc", "--name", "kept", "--wait")
	r.Run("delete", "acc", "--wait")
	for name, want := range map[string]string{"acc": "21 COMPLETED|default|admin\n", "other": "\n"} {
		r.Run("create", name, "--from-snapshot", "kept", "--wait")
		r.Until("cluster "+name+" has its accounts", func() bool { return r.Run("ssh", name, "--", ended) == want })
		if got := r.Run("ssh", name, "--", "srun hostname"); !strings.HasPrefix(got, "n") {
			t.Errorf("cluster %s, of the snapshot: %q", name, got)
		}
		r.Run("delete", name, "--wait")
	}

	// What has ended in a cluster that is gone, is remembered: once, though two clusters had its accounts.
	if got := r.Run("jobs", "--state", "completed"); strings.Count(got, "sweep") != 21 {
		t.Errorf("of clusters that are gone:\n%s", got)
	}
	if got := r.Run("efficiency"); !strings.Contains(got, "default  admin") {
		t.Errorf("efficiency: %s", got)
	}
}

// TestWithoutAccountsJobsRun has a head that would keep accounts, had its image what keeps them.
func TestWithoutAccountsJobsRun(t *testing.T) {
	testall.Only(t) // it needs the other image
	t.Parallel()
	r := rig.New(t, "")
	r.Import("debian12-hpc")
	r.Start()
	r.Run("machines", "add", "--local", "2", "--wait")
	const file = "name: acc\nnodes: 1\nimage: debian12-hpc\n"
	got := r.Muster("create", "-f", r.File("full.yaml", file+"accounting: full\n"))
	if got.Code != 2 || !strings.Contains(got.Err, "slurmdbd") {
		t.Errorf("accounting: full is not refused: exit %d\n%s", got.Code, got.Err)
	}
	r.Run("create", "-f", r.File("acc.yaml", file), "--wait")
	if got := r.Run("ssh", "acc", "--", "srun hostname"); got != "n1\n" {
		t.Errorf("srun: %q", got)
	}
	r.Until("the job is remembered", func() bool {
		return strings.Contains(r.Run("jobs", "--state", "completed"), "hostname")
	})
	r.Run("delete", "acc", "--wait")
	r.NothingLeft()
}

// TestNoJobIsLostFromTheAccounts: jobs go on while what keeps them does not run, and while there is no head.
func TestNoJobIsLostFromTheAccounts(t *testing.T) {
	testall.Only(t) // slurmctld asks for slurmdbd every 10 s
	t.Parallel()
	r := rig.New(t, "")
	r.Start()
	r.Run("machines", "add", "--local", "5", "--wait")
	r.Run("create", "-f", r.File("acc.yaml", "name: acc\nnodes: 2\n"), "--wait")
	slurm := func(command string) string { return r.Run("ssh", "acc", "--", command) }
	missed := func(program string) bool {
		var c struct {
			Nodes []struct{ Unapplied []struct{ Text string } }
		}
		r.Get(&c, "get", "acc")
		for _, n := range c.Nodes {
			for _, u := range n.Unapplied {
				if u.Text == "jobs are not recorded: "+program+" does not run" {
					return true
				}
			}
		}
		return false
	}
	head := r.Node("acc", "head")
	for _, program := range []string{"mariadbd", "slurmdbd"} {
		head.Inside("chmod 0 /usr/sbin/" + program + "; pkill -KILL -x " + program)
		r.Until(program+" is missed", func() bool { return missed(program) })
		if got := slurm("srun -J without-" + program + " hostname"); !strings.HasPrefix(got, "n") {
			t.Errorf("without %s: %q", program, got)
		}
		head.Inside("chmod 755 /usr/sbin/" + program)
		r.Until("what ran without "+program+" is recorded", func() bool {
			return r.Muster("ssh", "acc", "--", "sacct -X -n -P -o state --name=without-"+program).Out == "COMPLETED\n"
		})
		r.Until(program+" is not missed any more", func() bool { return !missed(program) })
	}

	slurm("sbatch -Q -J across -o /dev/null --wrap 'while [ ! -e enough ]; do sleep 0.2; done'")
	r.Until("it runs", func() bool { return slurm("squeue -h -n across -o %T") == "RUNNING\n" })
	slurm("touch started") // what slurmctld has not saved yet, it would restart
	head.Inside("until [ /var/lib/muster/slurmctld/job_state -nt /home/admin/started ]; do sleep 0.2; done")
	head.KillAll()
	r.Until("the head is back", func() bool { return r.Muster("ssh", "acc", "--", "touch enough; scontrol ping").Code == 0 })
	r.Until("the job that ran meanwhile is recorded", func() bool {
		return slurm("sacct -X -n -P -o state --name=across") == "COMPLETED\n"
	})
}
