package metal_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
)

// twoHosts has machines that hold one guest each: two do not fit, since the host keeps 512 MiB of its 3 GiB. An idle hypervisor
// stays one for as long as another's guest takes to boot. All is emulated, and guests inside machines: the limits are wide.
const twoHosts = `
site: home
defaults: {project: default, image: debian13-hpc, class: local, head_class: service}
limits: {boot: 10m, silence: 3m, hypervisor_idle: 2h}
classes:
  - {name: local, select: ["substrate = local"]}
  - {name: service, select: ["substrate = local"]}
  - {name: parts, select: ["substrate = metal"], hypervisor: true, vm: {cpus: 1, memory: 1300MiB}}
`

// witness is a job that counts in its own memory, and says so in /home. A second start, of it or of its node, would be there
// too. Each line is at the head when its file is closed.
const witness = `sbatch --parsable --wrap 'say() { echo "$@" >> counted; }; say began on $(cat /proc/sys/kernel/random/boot_id); while sleep 1; do i=$((i+1)); say $i; done'`

// counts is what the witness has written: the boot of its node, and how far it is. Whatever is not in its order is an error.
func counts(text string) (boot string, n int, err error) {
	for line := range strings.Lines(text) {
		line, whole := strings.CutSuffix(line, "\n")
		switch got, began := strings.CutPrefix(line, "began on "); {
		case !whole: // it is being written
		case began && boot == "":
			boot = got
		case line == fmt.Sprint(n+1):
			n++
		default:
			return boot, n, fmt.Errorf("%q after %d", line, n)
		}
	}
	return boot, n, nil
}

// counted is what the witness of a cluster has written so far.
func (y *testbed) counted(cluster string) (boot string, n int) {
	y.Helper()
	boot, n, err := counts(y.Run("ssh", cluster, "--", "cat counted 2>/dev/null || true"))
	if err != nil {
		y.Fatal("the job has not counted on: ", err)
	}
	return boot, n
}

// guest is what the API says of the host of a guest.
type guest struct {
	Phase string
	Part  *struct {
		Host    string
		MovesTo string `json:"moves_to"`
	}
}

// TestADrainedMachinesGuestMovesAndItsJobGoesOn has two machines of the rack as hypervisors and a guest on one, in which a job
// counts.
// The host is drained, and its guest goes to the other, which is another machine with another kernel, while the job counts on.
func TestADrainedMachinesGuestMovesAndItsJobGoesOn(t *testing.T) {
	testall.Only(t)
	y, tell := hypervisors(t, twoHosts, 2)
	slurm := func(command string) string { return y.Run("ssh", "moving", "--", command) }
	// Who looks all the time takes from the machines what they compute with.
	eventually := func(limit time.Duration, what string, ok func() bool) {
		t.Helper()
		y.Eventually(limit, what, func() bool { time.Sleep(2 * time.Second); return ok() })
	}
	counted := func() (string, int) { return y.counted("moving") }

	// A second guest makes the second machine a hypervisor, and goes before it has booted.
	y.Run("create", "-f", y.File("moving.yaml", "name: moving\nqueues: [{name: cpu, class: parts, nodes: 2}]\n"))
	eventually(15*time.Minute, "both machines are hypervisors", func() bool {
		return y.machine("rack-1").Phase == "in-use" && y.machine("rack-2").Phase == "in-use"
	})
	tell("two hypervisors")
	y.Run("scale", "moving", "1")
	var c cluster
	eventually(30*time.Minute, "the cluster of one guest is ready", func() bool {
		y.Get(&c, "get", "moving")
		return c.Phase == "ready" && len(c.Nodes) == 2
	})
	node := c.Nodes[1]
	lives := func() (g guest) {
		t.Helper()
		y.Get(&g, "machines", "get", node.Machine)
		return g
	}
	from := lives().Part.Host
	to := map[string]string{"rack-1": "rack-2", "rack-2": "rack-1"}[from]
	tell("node " + node.Name + " is ready, as " + node.Machine + " on " + from)
	t.Log("\n" + y.Run("machines", "list"))

	job := strings.TrimSpace(slurm(witness))
	var boot string
	var before int
	eventually(5*time.Minute, "the job counts", func() bool { boot, before = counted(); return before >= 3 })
	inside := func() string { return y.Run("ssh", "moving:"+node.Name, "--", "cat /proc/sys/kernel/random/boot_id") }
	if got := strings.TrimSpace(inside()); got != boot {
		t.Errorf("the job runs on boot %s, and %s has boot %s", boot, node.Name, got)
	}
	_, before = counted()
	tell(fmt.Sprintf("job %s is at %d", job, before))

	t.Log(y.Run("machines", "drain", from))
	said := ""
	eventually(35*time.Minute, "the guest is on "+to, func() bool {
		y.Get(&c, "get", "moving")
		if c.Nodes[1].ID != node.ID || c.Nodes[1].Phase != "ready" || c.Nodes[1].Machine != node.Machine {
			t.Fatalf("on its way node %+v has become %+v", node, c.Nodes[1])
		}
		if c.Nodes[1].Reason != said {
			said = c.Nodes[1].Reason
			tell(said)
		}
		g := lives()
		return g.Part.Host == to && g.Part.MovesTo == ""
	})
	_, there := counted()
	tell(fmt.Sprintf("it is on %s, and the job is at %d", to, there))
	eventually(10*time.Minute, "the job counts on", func() bool { _, n := counted(); return n >= max(there, before)+5 })
	if got := strings.TrimSpace(inside()); got != boot {
		t.Errorf("%s had boot %s, and has boot %s", node.Name, boot, got)
	}
	if got := strings.Fields(slurm("squeue -h -o '%A %T'; scontrol show job " + job +
		" | grep -o 'Restarts=[0-9]*'")); strings.Join(got, " ") != job+" RUNNING Restarts=0" {
		t.Errorf("of job %s Slurm says %v", job, got)
	}
	if out := slurm("srun --overlap --jobid " + job + " hostname"); strings.TrimSpace(out) != node.Name {
		t.Errorf("a step beside the job ran on %q", out)
	}
	_, after := counted()
	tell(fmt.Sprintf("job %s is at %d", job, after))
	eventually(10*time.Minute, from+" is empty, off and erased", func() bool {
		m := y.machine(from)
		return m.Phase == "maintenance" && m.Release != nil && m.Release.Clean && y.power(from) == "off"
	})
	tell(from + " is out of service, and off")
	events := y.Run("events")
	t.Log("\n" + events)
	for _, want := range []string{
		"moves from " + from + " to " + to + " while it runs", "has moved from " + from + " to " + to + " in ",
		"its guests have gone, and it is to be inspected", "was switched off and seen off", "taken out of service",
	} {
		if !strings.Contains(events, want) {
			t.Errorf("no event says %q", want)
		}
	}
	for _, bad := range []string{"could not move", "is replaced"} {
		if strings.Contains(events, bad) {
			t.Errorf("an event says %q", bad)
		}
	}

	y.Run("delete", "moving", "--wait", "--timeout", "10m")
	tell("its cluster is gone")
	y.Run("machines", "free", from)
	y.Run("machines", "inspect", to) // else it would be an idle hypervisor for long
	eventually(15*time.Minute, "both machines are whole and free", func() bool {
		events := y.Run("events")
		return y.machine(from).Phase == "available" && y.machine(to).
			Phase == "available" && strings.Count(events, "is a whole machine again") == 2
	})
	y.allOff(2)
	tell("both machines are whole, free and off")
}
