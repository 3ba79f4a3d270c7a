package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/node"
	"muster/internal/kit/testall"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// shelf has images by name, and their digests: "old" is "sha256:old".
type shelf struct{ names []string }

func (shelf) With([]string) []string { return nil }

func (s shelf) Image(ref string) (admission.Image, error) {
	name, digest, exact := strings.Cut(ref, "@")
	if !slices.Contains(s.names, name) || exact && digest != "sha256:"+name {
		return admission.Image{}, errors.New("there is no image " + ref)
	}
	return admission.Image{Name: name, Digest: "sha256:" + name, Arch: "amd64"}, nil
}

// rolloutFixture is a stage with several images; no agent comes up with the one called broken. It watches how many compute nodes
// are down at a time.
type rolloutFixture struct {
	*fixture
	mu     sync.Mutex
	jobs   map[string]int  // by node name
	broken map[string]bool // boots of the broken image
	worst  int             // most compute nodes that were down at a time while watched
}

// booting notes which boots of the broken image are begun.
type booting struct {
	substrate.Substrate
	*rolloutFixture
}

func (b booting) Ensure(ctx context.Context, n substrate.Node) error {
	if n.Image == "sha256:broken" {
		b.mu.Lock()
		b.broken[fmt.Sprint(n.Node, n.Boot)] = true
		b.mu.Unlock()
	}
	return b.Substrate.Ensure(ctx, n)
}

func newRolloutFixture(t *testing.T, url string, machines int) *rolloutFixture {
	s := &rolloutFixture{fixture: newFixture(t, url, machines), jobs: map[string]int{}, broken: map[string]bool{}}
	s.admission.Images = shelf{[]string{"debian13-hpc", "new", "newer", "broken"}}
	s.fixture.mute = func(n node.Node) bool { return n.Image == "sha256:broken" }
	s.fixture.jobs = func(n node.Node) int { s.mu.Lock(); defer s.mu.Unlock(); return s.jobs[n.Name] }
	return s
}

func (s *rolloutFixture) busy(node string, jobs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[node] = jobs
}

// change asks for another spec.
func (s *rolloutFixture) change(id string, edit func(*spec.Cluster)) {
	s.Helper()
	s.carryOut(id, func(ctx context.Context, tx *core.Tx, c cluster.Cluster) (*admission.Plan, error) {
		want := c.Spec
		edit(&want)
		return s.admission.Change(ctx, tx, c, want)
	})
}

func (s *rolloutFixture) image(id, name string) {
	s.Helper()
	s.change(id, func(c *spec.Cluster) { c.Image = name })
}

func (s *rolloutFixture) carryOut(id string, plan func(context.Context, *core.Tx, cluster.Cluster) (*admission.Plan, error)) {
	s.Helper()
	s.update(func(ctx context.Context, tx *core.Tx) error {
		c, err := cluster.Get(ctx, tx, id)
		if err != nil {
			return err
		}
		p, err := plan(ctx, tx, c)
		if err != nil {
			return err
		}
		_, err = s.admission.CarryOut(ctx, tx, p, "admin", 0)
		return err
	})
}

// untilHas waits until the cluster is ready and every node has the image.
func (s *rolloutFixture) untilHas(id, image string, nodes int) {
	s.Helper()
	s.until(id, "ready with "+image, func(c cluster.Cluster, all []node.Node) bool {
		s.watch(all)
		return c.Phase == core.Ready && c.Reached == c.Generation && len(all) == nodes+1 &&
			!slices.ContainsFunc(all, func(n node.Node) bool { return n.Image != "sha256:"+image })
	})
}

func (s *rolloutFixture) watch(all []node.Node) {
	down := 0
	for _, n := range all {
		if n.Role == protocol.Compute && (n.Phase != core.Ready || n.Renew) {
			down++
		}
	}
	s.worst = max(s.worst, down)
}

func (s *rolloutFixture) nodes(id string) (all []node.Node) {
	s.Helper()
	s.view(func(ctx context.Context, tx *core.Tx) (err error) {
		all, err = node.Of(ctx, tx, id)
		return err
	})
	return all
}

func (s *rolloutFixture) untilStopped(id string, nodes int) {
	s.Helper()
	s.until(id, "stopped, and whole", func(c cluster.Cluster, all []node.Node) bool {
		ready := 0
		for _, n := range all {
			if n.Phase == core.Ready && !n.Renew {
				ready++
			}
		}
		return c.Halted() && c.Phase == core.Degraded && strings.HasPrefix(c.Reason, "rollout stopped: ") && ready == nodes+1
	})
}

func TestAnotherImageReachesNodeByNodeOnTheirMachinesTheHeadLast(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newRolloutFixture(t, url, 6)
		s.run(1)
		s.untilFree(6)
		id := s.create("hello", 4)
		s.untilHas(id, "debian13-hpc", 4)
		before := s.nodes(id)
		s.worst = 0
		s.image(id, "new")
		s.untilHas(id, "new", 4)
		if s.worst > 1 {
			t.Errorf("%d nodes were down at a time", s.worst)
		}
		for i, n := range s.nodes(id) {
			if was := before[i]; n.ID != was.ID || n.Machine != was.Machine || n.Boot != was.Boot+1 {
				t.Errorf("%s was boot %d of %s on %s and is boot %d of %s on %s", n.Name, was.Boot, was.ID, was.Machine, n.Boot,
					n.ID, n.Machine)
			}
		}
		var order []string
		s.view(func(ctx context.Context, tx *core.Tx) error {
			events, err := tx.Events(ctx, core.EventsOf{Cluster: id, Limit: 1000})
			for _, e := range events {
				if e.Type == "node.renewed" {
					order = append(order, e.Node)
				}
			}
			return err
		})
		if !slices.Equal(order, []string{"n1", "n2", "n3", "n4", "head"}) {
			t.Errorf("rebooted in the order %v", order)
		}
		s.remove(id)
		s.untilClean(id)
	})
}

func TestMoreNodesAreDownAtATimeIfTheFileAllowsIt(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	s := newRolloutFixture(t, t.TempDir()+"/db", 7)
	s.run(1)
	s.untilFree(7)
	id := s.create("hello", 6)
	s.untilHas(id, "debian13-hpc", 6)
	s.change(id, func(c *spec.Cluster) { c.Image, c.Update = "new", &spec.Update{MaxUnavailable: "50%"} })
	s.worst = 0
	s.untilHas(id, "new", 6)
	if s.worst < 2 || s.worst > 3 {
		t.Errorf("%d nodes were down at a time", s.worst)
	}
}

func TestANodeWithJobsDrainsUntilTheyEndAndTheOthersDoNotWaitBehindIt(t *testing.T) {
	t.Parallel()
	s := newRolloutFixture(t, t.TempDir()+"/db", 4)
	s.run(1)
	s.untilFree(4)
	id := s.create("hello", 3)
	s.untilHas(id, "debian13-hpc", 3)
	s.busy("n1", 1)
	s.until(id, "busy", func(_ cluster.Cluster, all []node.Node) bool { return all[1].Seen.Scheduler.Jobs == 1 })
	s.image(id, "new")
	s.until(id, "waiting for the job on n1", func(c cluster.Cluster, all []node.Node) bool {
		return strings.Contains(c.Reason, "rollout to image new: 2 of 4 nodes, waits for jobs on n1") &&
			all[1].Phase == node.Draining && all[1].Boot == 1
	})
	s.busy("n1", 0)
	s.untilHas(id, "new", 3)
}

func TestANodeThatItsSchedulerRebootsIsTheSameNodeAfterwards(t *testing.T) {
	t.Parallel()
	s := newRolloutFixture(t, t.TempDir()+"/db", 4)
	s.fixture.reboots = func(n node.Node) bool { return n.Name == "n2" && n.Boot == 1 && n.Phase == core.Ready }
	s.run(1)
	s.untilFree(4)
	id := s.create("hello", 3)
	s.until(id, "rebooted", func(c cluster.Cluster, all []node.Node) bool {
		if strings.Contains(c.Reason, "rollout") {
			t.Errorf("a reboot is no rollout: %s", c.Reason)
		}
		return c.Phase == core.Ready && len(all) == 4 && all[2].Boot == 2 && all[2].Phase == core.Ready
	})
	for _, n := range s.nodes(id) {
		if n.Renew || n.Boot != 1 && n.Name != "n2" {
			t.Errorf("%s: boot %d, %+v", n.Name, n.Boot, n)
		}
	}
	s.view(func(ctx context.Context, tx *core.Tx) error {
		machines, err := node.MachinesOf(ctx, tx, id)
		if err == nil && len(machines) != 4 {
			t.Errorf("%d machines instead of the 4 that it began with", len(machines))
		}
		return err
	})
}

func TestARolloutStopsAtTheFirstNodeThatDoesNotComeUpAndGoesBackOrOn(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newRolloutFixture(t, url, 6)
		s.limit(func(l *substrate.Deadlines) { l.Boot = time.Second }) // a boot of the broken image takes that long
		provider := s.deps.Providers["local"]
		provider.Substrate = booting{provider.Substrate, s}
		s.deps.Providers["local"] = provider
		s.run(1)
		s.untilFree(6)
		id := s.create("hello", 4)
		s.untilHas(id, "debian13-hpc", 4)
		s.image(id, "broken")
		s.untilStopped(id, 4)
		for _, n := range s.nodes(id) { // the one that failed was replaced by one that works
			if n.Image != "sha256:debian13-hpc" {
				t.Errorf("%s has %s", n.Name, n.Image)
			}
		}
		s.carryOut(id, s.admission.ResumeRollout) // the image is as broken as before
		s.untilStopped(id, 4)
		s.carryOut(id, s.admission.RollBack)
		s.untilHas(id, "debian13-hpc", 4)
		s.image(id, "broken")
		s.untilStopped(id, 4)
		s.image(id, "debian13-hpc") // the old file
		s.untilHas(id, "debian13-hpc", 4)
		s.mu.Lock()
		if boots := len(s.broken); boots != 6 {
			t.Errorf("%d boots of the broken image instead of two on each of three nodes", boots)
		}
		s.mu.Unlock()
		s.remove(id)
		s.untilClean(id)
	})
}

func TestASecondApplyDuringARolloutChangesItsAim(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	s := newRolloutFixture(t, t.TempDir()+"/db", 5)
	s.run(1)
	s.untilFree(5)
	id := s.create("hello", 4)
	s.untilHas(id, "debian13-hpc", 4)
	s.image(id, "new")
	s.until(id, "on its way", func(_ cluster.Cluster, all []node.Node) bool {
		return all[1].Image == "sha256:new" && all[1].Phase == core.Ready
	})
	s.image(id, "newer")
	s.untilHas(id, "newer", 4)
	s.image(id, "new")
	s.until(id, "on its way again", func(_ cluster.Cluster, all []node.Node) bool { return all[1].Image == "sha256:new" })
	s.carryOut(id, s.admission.RollBack)
	s.untilHas(id, "newer", 4)
}

func TestANodeThatDrainsForARolloutThatIsTakenBackGoesOnWithoutANewBoot(t *testing.T) {
	t.Parallel()
	s := newRolloutFixture(t, t.TempDir()+"/db", 3)
	s.run(1)
	s.untilFree(3)
	id := s.create("hello", 1)
	s.untilHas(id, "debian13-hpc", 1)
	s.busy("n1", 1)
	s.image(id, "new")
	s.until(id, "draining", func(_ cluster.Cluster, all []node.Node) bool { return all[1].Phase == node.Draining })
	s.image(id, "debian13-hpc")
	s.untilHas(id, "debian13-hpc", 1)
	if n := s.nodes(id)[1]; n.Boot != 1 {
		t.Errorf("it booted %d times", n.Boot)
	}
}

func TestNodesThatDieDuringARolloutComeBackWithTheNewImageAndCountAsDown(t *testing.T) {
	t.Parallel()
	s := newRolloutFixture(t, t.TempDir()+"/db", 6)
	s.run(1)
	s.untilFree(6)
	id := s.create("hello", 4)
	s.untilHas(id, "debian13-hpc", 4)
	victim := s.nodes(id)[4]
	s.worst = 0
	s.image(id, "new")
	s.substrate.DieWithMachine(victim.Machine)
	s.update(func(_ context.Context, tx *core.Tx) error { tx.Wake(node.Kind, victim.ID); return nil })
	s.untilHas(id, "new", 4)
	if s.worst > 2 { // the dead one, and the one whose turn it was when it died
		t.Errorf("%d nodes were down at a time", s.worst)
	}
}

func TestControllersThatComeAndGoDuringARolloutLoseNothing(t *testing.T) {
	testall.Only(t)
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newRolloutFixture(t, url, 6)
		engines := 1
		if s.db.Shared() {
			engines = 3
		}
		stop := s.run(engines)
		again := func() { stop(); stop = s.run(engines) }
		s.untilFree(6)
		id := s.create("hello", 4)
		s.untilHas(id, "debian13-hpc", 4)
		s.worst = 0
		for i, image := range []string{"new", "newer"} {
			s.image(id, image)
			for n := range 5 {
				s.until(id, fmt.Sprintf("at node %d", n), func(c cluster.Cluster, all []node.Node) bool {
					s.watch(all)
					has := 0
					for _, node := range all {
						if node.Image == "sha256:"+image {
							has++
						}
					}
					return has > n
				})
				if n%2 == i {
					again()
				}
			}
			s.untilHas(id, image, 4)
		}
		if s.worst > 1 {
			t.Errorf("%d nodes were down at a time", s.worst)
		}
		s.remove(id)
		s.untilClean(id)
	})
}
