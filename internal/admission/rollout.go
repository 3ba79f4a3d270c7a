package admission

import (
	"context"
	"fmt"
	"slices"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kit/words"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// Step is what a change does to one node that is there.
type Step struct {
	Node   string
	Action string // "remove" or "reboot"
	Wave   int    // those of a wave may be down at the same time; each wave waits for the one before
	When   string
	Why    string
}

// The actions of a step.
const (
	removes = "remove"
	reboots = "reboot"
)

// pick says which image a change gives a cluster, by the name that its file has now.
type pick func(name string) (Image, error)

// keep stays with the cluster's image while its name stays, whatever has been built under that name since; and going back
// to the name that it came from is going back to the very image.
func (a *Admission) keep(c cluster.Cluster) pick {
	return func(name string) (Image, error) {
		switch name {
		case c.Spec.Image:
			return a.exactly(name, c.Image), nil
		case c.Rollout.Good.Name:
			return a.exactly(name, c.Rollout.Good.Image), nil
		}
		return a.newest(name)
	}
}

// exactly is an image by its digest. It may have left the store since; then nothing else is known of it.
func (a *Admission) exactly(name, digest string) Image {
	if image, err := a.Images.Image(name + "@" + digest); err == nil {
		return image
	}
	return Image{Name: name, Digest: digest, Boots: true}
}

func (a *Admission) newest(name string) (Image, error) {
	image, err := a.Images.Image(name)
	if err != nil {
		return image, refuse(Invalid, "unknown-image", "image", err.Error(),
			"`muster images list` shows the images; `muster images build debian13-hpc` builds the shipped one")
	}
	return image, nil
}

// Refresh is Change with the newest image of the file's name.
func (a *Admission) Refresh(ctx context.Context, tx *core.Tx, current cluster.Cluster, c spec.Cluster) (*Plan, error) {
	return a.change(ctx, tx, current, c, a.newest)
}

// Newer says, in words, that there is a newer image of the name that a planned cluster has.
func (a *Admission) Newer(p *Plan) []string {
	image, err := a.Images.Image(p.Spec.Image)
	if err != nil || image.Digest == p.image.Digest {
		return nil
	}
	return []string{fmt.Sprintf("image %s has a newer build, %s, and the cluster keeps %s; `muster apply -f FILE "+
		"--refresh-image` rolls it out", image.Name, node.Short(image.Digest), node.Short(p.image.Digest))}
}

// RollBack plans to boot again what the cluster was last wholly ready with.
func (a *Admission) RollBack(ctx context.Context, tx *core.Tx, current cluster.Cluster) (*Plan, error) {
	good := current.Rollout.Good
	if good.Image == "" || good == current.Root() {
		return nil, refuse(Conflict, "no-rollout", "", fmt.Sprintf("cluster %s has no rollout to roll back", current.Name),
			"`muster apply` with another image in the file starts one")
	}
	old := current.Spec
	old.Image, old.Boot = good.Name, spec.BootMemory
	if good.Disk {
		old.Boot = spec.BootDisk
	}
	plan, err := a.change(ctx, tx, current, old, func(name string) (Image, error) { return a.exactly(name, good.Image), nil })
	if err == nil {
		plan.again = "go back to " + node.Aim(good, current.Root())
	}
	return plan, err
}

// ResumeRollout plans to go on with a rollout that has stopped.
func (a *Admission) ResumeRollout(ctx context.Context, tx *core.Tx, current cluster.Cluster) (*Plan, error) {
	if !current.Halted() {
		return nil, refuse(Conflict, "no-rollout", "", fmt.Sprintf("cluster %s has no rollout that has stopped", current.Name),
			"`muster describe "+current.Name+"` shows its state")
	}
	plan, err := a.Change(ctx, tx, current, current.Spec)
	if err != nil {
		return nil, err
	}
	plan.rolls, plan.again = true, "continue the rollout of "+node.Aim(current.Root(), current.Rollout.Good)
	return plan, a.renewals(ctx, tx, plan)
}

// renewals completes a plan with what its nodes reboot: which, when and why, or that they cannot.
func (a *Admission) renewals(ctx context.Context, tx *core.Tx, p *Plan) error {
	wanted := *p.current
	wanted.Spec, wanted.Image = p.Spec, p.image.Digest
	wanted.Rollout.Aim++ // what had stopped goes on
	nodes, err := node.Of(ctx, tx, wanted.ID)
	if err != nil {
		return err
	}
	nodes = slices.DeleteFunc(nodes, func(n node.Node) bool { return slices.Contains(p.Release, n.Name) || !wanted.Behind(n) })
	if err := a.bootable(ctx, tx, p, nodes); err != nil {
		return err
	}
	p.Steps = append(p.Steps, waves(wanted, nodes)...)
	return nil
}

// bootable refuses what the machines of nodes cannot boot, or must not.
func (a *Admission) bootable(ctx context.Context, tx *core.Tx, p *Plan, nodes []node.Node) error {
	if err := a.accountable(p.Spec, p.image); err != nil {
		return err
	}
	for _, n := range nodes {
		m, err := machine.Get(ctx, tx, n.MachineID)
		if err != nil {
			return err
		}
		switch {
		case p.image.Arch != "" && m.Facts.Arch != "" && m.Facts.Arch != p.image.Arch:
			return refuse(Invalid, "image-arch", "image",
				fmt.Sprintf("image %s is for %s, and node %s is on machine %s, which is %s", p.image.Name, p.image.Arch, n.Name,
					m.Name, m.Facts.Arch),
				"choose an image for "+m.Facts.Arch)
		case a.caps(m.Machine).Kernel && !p.image.Boots:
			return noKernel(p.image, m.Name)
		case n.Role == protocol.Head && !a.caps(m.Machine).KeepsHead:
			return refuse(Invalid, "head-in-memory", "image",
				fmt.Sprintf("the head is machine %s and keeps /home and the scheduler's state in memory; a reboot would "+
					"lose them", m.Name),
				"create a new cluster with its head on a service host, which keeps both, as in `head: {class: service}`")
		}
		if err := a.drives(p.image, n.Role, n.Class, m.Machine); err != nil {
			return err
		}
	}
	return nil
}

// waves puts the nodes that reboot in the order in which the engine takes them, if no job begins or ends meanwhile.
func waves(c cluster.Cluster, behind []node.Node) []Step {
	slices.SortStableFunc(behind, node.CheapestFirst)
	want := c.WantsInAll()
	var steps, last []Step
	wave := 0
	for _, n := range behind {
		step := Step{Node: n.Name, Action: reboots, Why: because(c, n)}
		if n.Role == protocol.Head {
			step.When = "last; logins end, batch jobs continue"
			last = append(last, step)
			continue
		}
		wave = 1 + len(steps)/spec.Unavailable(c.Spec, want)
		step.Wave, step.When = wave, when(n, wave)
		steps = append(steps, step)
	}
	for _, step := range last {
		step.Wave = wave + 1
		steps = append(steps, step)
	}
	return steps
}

func because(c cluster.Cluster, n node.Node) string {
	to := c.Root()
	if n.Image != to.Image {
		return node.Aim(to, node.Root{Name: c.Rollout.Good.Name, Image: n.Image, Disk: to.Disk})
	}
	return node.Aim(to, node.Root{Name: to.Name, Image: to.Image, Disk: n.Disk})
}

// when says what a step waits for.
func when(n node.Node, wave int) string {
	after := "now"
	if wave > 1 {
		after = fmt.Sprintf("after wave %d", wave-1)
	}
	if n.Seen.Scheduler == nil || n.Seen.Scheduler.Jobs == 0 {
		return after
	}
	return fmt.Sprintf("%s, once %s ended", after, have(n.Seen.Scheduler.Jobs, "job"))
}

// have is "1 job has" or "2 jobs have".
func have(n int, noun string) string {
	if n == 1 {
		return words.Count(n, noun) + " has"
	}
	return words.Count(n, noun) + " have"
}

// departures are the steps of nodes that go.
func departures(c cluster.Cluster, release []node.Node) []Step {
	var steps []Step
	for _, n := range release {
		why := "no more"
		i := slices.IndexFunc(c.Spec.Queues, func(q spec.Queue) bool { return q.Name == n.Queue })
		switch {
		case n.Role == protocol.Head:
		case i < 0:
			why = fmt.Sprintf("queue %s is removed", n.Queue)
		case c.Spec.Queues[i].Class != n.Class:
			why = fmt.Sprintf("queue %s gets nodes of class %s", n.Queue, c.Spec.Queues[i].Class)
		case n.VM != nil && c.Spec.Queues[i].VM != nil && !spec.SameShape(*n.VM, *c.Spec.Queues[i].VM):
			why = fmt.Sprintf("queue %s gets nodes of another size", n.Queue)
		default:
			why = fmt.Sprintf("queue %s has fewer nodes", n.Queue)
		}
		steps = append(steps, Step{Node: n.Name, Action: removes, Wave: 1, When: when(n, 1), Why: why})
	}
	return steps
}

// closings warn of queues that go: jobs that wait are not waited for. Where nothing tells of jobs there is nothing to say.
func (a *Admission) closings(old, new spec.Cluster) []string {
	var messages []string
	if !a.Schedulers.Of(new.Scheduler()).Caps.Jobs {
		return nil
	}
	for _, q := range old.Queues {
		if !slices.ContainsFunc(new.Queues, func(other spec.Queue) bool { return other.Name == q.Name }) {
			messages = append(messages, fmt.Sprintf(
				"queue %s takes no new jobs from now on; jobs that wait in it are lost with it unless you move them to "+
					"another queue", q.Name))
		}
	}
	return messages
}

// unannounced warns of nodes that do not wait for what runs on them.
func (a *Admission) unannounced(p *Plan) []string {
	if a.Schedulers.Of(p.Spec.Scheduler()).Caps.Jobs || len(p.Steps) == 0 {
		return nil
	}
	return []string{"Muster does not know the jobs of this cluster, which has no scheduler: nodes are removed or rebooted at " +
		"once, whatever runs on them"}
}

// imageChange is a change of the image that keeps its name.
func imageChange(p *Plan) []spec.Change {
	if p.image.Digest == p.current.Image || p.Spec.Image != p.current.Spec.Image {
		return nil
	}
	effect, why := spec.EffectOf("image")
	return []spec.Change{{Path: "image", Old: p.Spec.Image + "@" + node.Short(p.current.Image), New: p.Spec.Image + "@" +
		node.Short(p.image.Digest), Effect: effect, Why: why}}
}

// rolling says whether changes reach nodes only by a new boot.
func rolling(changes []spec.Change) bool {
	return slices.ContainsFunc(changes, func(c spec.Change) bool { return c.Effect == spec.Rolling })
}

// rolloutWords is what a plan does to what nodes boot, "" for nothing.
func (p *Plan) rolloutWords() string {
	var booting []string
	for _, s := range p.Steps {
		if s.Action == reboots {
			booting = append(booting, s.Node)
		}
	}
	switch {
	case p.again != "":
		return p.again
	case len(booting) == 0:
		return ""
	}
	return fmt.Sprintf("reboot %s with %s", words.Count(len(booting), "node"), p.Steps[len(p.Steps)-1].Why)
}
