package noded

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/protocol"
)

// submitting is a job that, once there is ~/go, tries all that starts programs in Slurm, itself again first.
const submitting = `#!/bin/bash
until [ -e go ]; do sleep 0.05; done
try() { echo "$1:" $(timeout 120 "${@:2}" 2>&1 && echo taken); }
{
	try step srun --overlap true
	try itself sbatch "$0"
	try array sbatch --array=1-9 --wrap true
	for name in ${!SLURM_*}; do [ $name = SLURM_CONF ] || unset $name; done
	try srun srun true
	try salloc salloc true
} > tried.part
mv tried.part tried
`

// TestWhoHasLeftSubmitsNoNewJobs has a job of bob's, who leaves, submit others. What bob has submitted before goes on.
func TestWhoHasLeftSubmitsNoNewJobs(t *testing.T) {
	r := newRack(t)
	f := r.controller
	head, n1 := testPeer("head", 0, protocol.Head), testPeer("n1", 1, protocol.Compute)
	queues, bob := []protocol.Queue{{Name: "cpu", Default: true}}, protocol.User{Name: "bob", UID: 5001}
	home := filepath.Join(r.dir, "home/bob")
	as := func(user string, argv ...string) (string, error) {
		argv = append([]string{"exec", "--user", user, "--cwd", "/home/bob", r.net + "head"}, argv...)
		out, err := exec.Command("runc", argv...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	submits := func(argv ...string) string {
		t.Helper()
		out, err := as("5001:5001", append([]string{"sbatch", "--parsable"}, argv...)...)
		if err != nil {
			t.Fatalf("%q: %v: %s", argv, err, out)
		}
		return out
	}
	r.plug(t, head)
	r.plug(t, n1)
	r.others = []protocol.User{bob}
	r.configure(1, queues, head, n1)
	r.boot(t, head)
	r.boot(t, n1)
	f.until(t, "an idle node", func() bool { return f.scheduler("n1").State == protocol.NodeFree })

	must(t, os.WriteFile(filepath.Join(home, "job"), []byte(submitting), 0o755))
	job := submits("job")
	waits := submits("--array=1-2", "-d", "afterany:"+job, "--wrap", "touch done.$SLURM_ARRAY_TASK_ID")
	f.until(t, "bob's job runs", func() bool { return f.scheduler("n1").Jobs == 1 })
	r.others = nil
	r.configure(2, queues, head, n1)
	f.until(t, "bob has left", func() bool { return f.reports["head"].Revision == 2 && f.reports["n1"].Revision == 2 })
	must(t, os.WriteFile(filepath.Join(home, "go"), nil, 0o644))

	there := func(name string) bool { _, err := os.Stat(filepath.Join(home, name)); return err == nil }
	untilSo(t, "what was submitted before has ended", func() bool { return there("done.1") && there("done.2") })
	text, err := os.ReadFile(filepath.Join(home, "tried"))
	must(t, err)
	tried := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, name := range []string{"step", "itself", "array", "srun", "salloc"} {
		said := "you are no user of this cluster any more"
		if name == "step" {
			said = "taken"
		}
		if i >= len(tried) || !strings.HasPrefix(tried[i], name+":") || !strings.Contains(tried[i], said) {
			t.Errorf("%s is not %q:\n%s", name, said, text)
		}
	}
	want := fmt.Sprintf("%s\n%s_1\n%s_2", job, waits, waits)
	if got := r.ssh(t, head, "squeue -h -r -t all -u bob -S i -o %i"); strings.TrimSpace(got) != want {
		t.Errorf("bob has the jobs\n%swant\n%s", got, want)
	}

	said, err := as("5009:5001", "sbatch", "--wrap", "true")
	if err == nil || !strings.Contains(said, "no user of this cluster") {
		t.Errorf("who has no account on the head is not refused: %v: %s", err, said)
	}

	r.others = []protocol.User{bob}
	r.configure(3, queues, head, n1)
	f.until(t, "bob is back", func() bool { return f.reports["head"].Revision == 3 && f.reports["n1"].Revision == 3 })
	submits("--wait", "--wrap", "touch back")
	untilSo(t, "bob's new job has run", func() bool { return there("back") })
}
