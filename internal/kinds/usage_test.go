package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/cluster/clusterlife"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/meter"
	"muster/internal/kinds/node"
	"muster/internal/price"
	"muster/internal/spec"
)

// charge gives every node a price per second; before run.
func (s *fixture) charge(euros int64) {
	for i := range s.admission.Catalogue.Classes {
		s.admission.Catalogue.Classes[i].Price = price.Amount{Micros: euros * 3600 * 1e6, Currency: "EUR"}
	}
}

// watch holds to budgets and measures homes until stop is called, or to the end of the test.
func (s *fixture) watch() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	log := slog.New(slog.DiscardHandler)
	clusters := clusterlife.Handlers{Deps: s.deps}
	go func() { clusters.WatchLimits(ctx, log); done <- struct{}{} }()
	go func() { clusters.MeasureHomes(ctx, 20*time.Millisecond, log); done <- struct{}{} }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			<-done
			<-done
		}
	}
	s.Cleanup(stop)
	return stop
}

// apply changes a running cluster's spec.
func (s *fixture) apply(id string, change func(*spec.Cluster)) error {
	return s.db.Update(s.Context(), func(tx *core.Tx) error {
		c, err := cluster.Get(s.Context(), tx, id)
		if err != nil {
			return err
		}
		want := c.Spec
		change(&want)
		plan, err := s.admission.Change(s.Context(), tx, c, want)
		if err == nil {
			_, err = s.admission.CarryOut(s.Context(), tx, plan, "admin", 0)
		}
		return err
	})
}

func (s *fixture) usage(of meter.Of) (rows []price.Usage) {
	s.Helper()
	s.view(func(ctx context.Context, tx *core.Tx) (err error) {
		rows, err = meter.Rows(ctx, tx, of)
		return err
	})
	return rows
}

// TestTheMeterTellsWhatTheEventsTell leads a cluster through failures, changes, a pause and an end, while its controllers
// come and go. Then each node's rows and its events must tell of the same states at the same instants.
func TestTheMeterTellsWhatTheEventsTell(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 8)
		s.charge(1)
		restart := func(stop func()) func() { stop(); return s.run(2) }
		stop := s.run(2)
		s.untilFree(8)
		id := s.create("hello", 3)
		stop = restart(stop)
		s.untilReady(id, 3)
		s.kill(id, "n2")
		stop = restart(stop)
		s.until(id, "whole again", func(c cluster.Cluster, nodes []node.Node) bool {
			return c.Phase == core.Ready && len(nodes) == 4 && s.lives(id, "n2") == 2
		})
		s.scale(id, 1)
		s.untilReady(id, 1)
		s.pause(id)
		stop = restart(stop)
		s.untilPaused(id)
		s.untilFree(8)
		if err := s.resume(id); err != nil {
			t.Fatal(err)
		}
		stop = restart(stop)
		s.untilReady(id, 1)
		s.remove(id)
		s.untilClean(id)
		stop()
		s.compareMeter(id)
	})
}

// kill ends a node by itself.
func (s *fixture) kill(cluster, name string) {
	s.Helper()
	s.view(func(ctx context.Context, tx *core.Tx) error {
		nodes, err := node.Of(ctx, tx, cluster)
		for _, n := range nodes {
			if n.Name == name {
				s.substrate.Die(substrate.Ref{Cluster: cluster, Node: n.ID, Boot: n.Boot}, "killed")
			}
		}
		return err
	})
}

// lives counts the nodes that have had a name.
func (s *fixture) lives(cluster, name string) int {
	subjects := map[string]bool{}
	for _, r := range s.usage(meter.Of{Cluster: cluster}) {
		if r.Node == name {
			subjects[r.Subject] = true
		}
	}
	return len(subjects)
}

// compareMeter compares the meter of a deleted cluster with the log.
func (s *fixture) compareMeter(id string) {
	s.Helper()
	metered, logged := map[string]*kindstest.Course{}, map[string]*kindstest.Course{}
	turn := func(in map[string]*kindstest.Course, node string, state price.State, at time.Time) {
		if in[node] == nil {
			in[node] = new(kindstest.Course)
		}
		in[node].Turn(state, at)
	}
	rows := s.usage(meter.Of{Cluster: id})
	slices.SortStableFunc(rows, func(a, b price.Usage) int { return a.From.Compare(b.From) })
	for i, r := range rows {
		if r.Kind != price.Node {
			continue
		}
		turn(metered, r.Node, r.State, r.From)
		last := !slices.ContainsFunc(rows[i+1:], func(next price.Usage) bool { return next.Subject == r.Subject })
		if last {
			turn(metered, r.Node, "gone", r.To)
		}
	}
	s.view(func(ctx context.Context, tx *core.Tx) error {
		events, err := tx.Events(ctx, core.EventsOf{Cluster: id, Limit: 10_000})
		state := map[string]price.State{}
		for _, e := range events {
			if e.Type != "node.phase" {
				continue
			}
			now := price.Preparing
			switch e.Phase {
			case core.Ready, node.Draining, core.Failed, core.Releasing, node.Gone:
				now = price.State(e.Phase)
			}
			if now == state[e.Node] {
				continue
			}
			// a new life began when it was added, which is before its first phase
			if state[e.Node] == "" || state[e.Node] == "gone" {
				for _, r := range rows {
					if r.Node == e.Node && r.Machine == e.Machine && r.State == price.Preparing && !r.From.After(e.At) &&
						(r.To.IsZero() || r.To.After(e.At) || r.To.Equal(e.At)) {
						turn(logged, e.Node, price.Preparing, r.From)
						break
					}
				}
				if state[e.Node] = now; now == price.Preparing {
					continue
				}
			}
			state[e.Node] = now
			turn(logged, e.Node, now, e.At)
		}
		return err
	})
	for name := range metered {
		if fmt.Sprint(metered[name]) != fmt.Sprint(logged[name]) {
			s.Errorf("node %s:\nmetered %v\nlogged  %v", name, metered[name], logged[name])
		}
	}
	if len(metered) != len(logged) || len(metered) == 0 {
		s.Errorf("%d nodes metered, %d logged", len(metered), len(logged))
	}
}

func TestABudgetWarnsThenPausesAndSaysHowToGoOn(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 4)
		s.charge(1)
		s.run(1)
		s.watch()
		s.untilFree(4)
		id := s.create("hello", 1) // 2 EUR a second
		s.untilReady(id, 1)
		if err := s.apply(id, func(c *spec.Cluster) { c.Budget = &spec.Budget{Limit: "3 EUR"} }); err != nil {
			t.Fatal(err)
		}
		s.untilPaused(id)
		limits := s.told(id, "cluster.limit")
		if len(limits) == 0 || len(limits) > 2 || !strings.Contains(limits[len(limits)-1], "it has used its budget: ") {
			t.Errorf("told %q", limits)
		}
		paused := slices.DeleteFunc(s.told(id, "cluster.requested"), func(text string) bool {
			return !strings.HasPrefix(text, "pause: ")
		})
		if len(paused) != 1 || !strings.Contains(paused[0], "of 3.00 EUR") ||
			!strings.Contains(paused[0], "`muster resume hello`") {
			t.Errorf("asked for %q", paused)
		}
		var refused *admission.Refusal
		if err := s.resume(id); !errors.As(err, &refused) || refused.Kind != admission.OverBudget {
			t.Errorf("resumed without money: %v", err)
		}
		if err := s.apply(id, func(c *spec.Cluster) { c.Budget.Limit = "900000 EUR" }); err != nil {
			t.Fatal(err)
		}
		if err := s.resume(id); err != nil {
			t.Fatal(err)
		}
		s.untilReady(id, 1)
		s.remove(id)
		s.untilClean(id)
	})
}

func TestABudgetThatWarnsPausesNothing(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 3)
	s.charge(1)
	s.run(1)
	s.watch()
	s.untilFree(3)
	id := s.create("hello", 1)
	s.untilReady(id, 1)
	if err := s.apply(id, func(c *spec.Cluster) { c.Budget = &spec.Budget{Limit: "1 EUR", OnLimit: "warn"} }); err != nil {
		t.Fatal(err)
	}
	s.until(id, "told of its limit", func(cluster.Cluster, []node.Node) bool {
		return slices.ContainsFunc(s.told(id, "cluster.limit"), func(text string) bool {
			return strings.Contains(text, "nothing is stopped")
		})
	})
	s.until(id, "still there", func(c cluster.Cluster, _ []node.Node) bool {
		return c.Desired == core.Present && c.Phase == core.Ready
	})
}

func TestAProjectsLimitsPauseAllItsClusters(t *testing.T) {
	t.Parallel()
	for name, project := range map[string]inventory.Project{
		"budget":     {Budget: inventory.Budget{Monthly: price.Amount{Micros: 4e6, Currency: "EUR"}}},
		"node-hours": {Quota: inventory.Quota{NodeHours: new(0)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, t.TempDir()+"/db", 6)
			s.charge(1)
			stop := s.run(1)
			s.untilFree(6)
			a, b := s.create("a", 1), s.create("b", 1)
			s.untilReady(a, 1)
			s.untilReady(b, 1)
			stop()
			s.admission.Catalogue.Projects = map[string]inventory.Project{"default": project}
			s.run(1)
			s.watch()
			s.untilPaused(a)
			s.untilPaused(b)
			if texts := s.told("", "project.limit"); len(texts) == 0 ||
				!strings.Contains(texts[len(texts)-1], "project default has used its "+name) {
				t.Errorf("told %q", texts)
			}
			text := strings.Join(s.told(b, "cluster.requested"), "\n")
			if !strings.Contains(text, "pause: project default has used its "+name) ||
				!strings.Contains(text, "`muster resume b` goes on") {
				t.Error(text)
			}
		})
	}
}

// TestAPlanSaysWhatItLeavesOfItsProjectsLimits has it compared with what there is once it is carried out.
func TestAPlanSaysWhatItLeavesOfItsProjectsLimits(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 8)
		s.charge(1)
		s.admission.Catalogue.Projects = map[string]inventory.Project{"default": {
			Quota:  inventory.Quota{Nodes: new(8), NodeHours: new(1000)},
			Budget: inventory.Budget{Monthly: price.Amount{Micros: 1e12, Currency: "EUR"}}}}
		s.run(1)
		s.untilFree(8)
		other, id := s.create("other", 1), s.create("hello", 1)
		s.untilReady(other, 1)
		s.untilReady(id, 1)
		for _, nodes := range []int{4, 2} {
			var then, now admission.Use
			var said, limits []price.Limit
			s.view(func(ctx context.Context, tx *core.Tx) error {
				plan, err := s.resize(ctx, tx, id, nodes)
				if err != nil {
					return err
				}
				then, said, _, err = s.admission.After(ctx, tx, plan)
				return err
			})
			s.scale(id, nodes)
			s.untilReady(id, nodes)
			s.untilFree(8 - 3 - nodes)
			s.view(func(ctx context.Context, tx *core.Tx) (err error) {
				if now, err = s.admission.InUse(ctx, tx, "default"); err == nil {
					limits, err = s.admission.ProjectLimits(ctx, tx, "default")
				}
				return err
			})
			if then != now || now.Nodes != 3+nodes || len(said) != 2 || len(limits) != 2 {
				t.Fatalf("of %d nodes it says %+v, %v, and there is %+v, %v", nodes, then, said, now, limits)
			}
			for i, l := range limits {
				if off := l.Left.Seconds()/said[i].Left.Seconds() - 1; !l.Runs || math.Abs(off) > 0.02 {
					t.Errorf("%s lasts for %v, and the plan said %v", l.What, l.Left, said[i].Left)
				}
			}
		}
	})
}

func TestNewPricesHoldFromTheMomentTheyAreKnown(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 2)
		s.charge(1)
		stop := s.run(1)
		s.untilFree(2)
		id := s.create("hello", 1)
		s.untilReady(id, 1)
		stop()
		s.charge(2)
		s.run(1)
		s.watch()
		s.until(id, "told of its price", func(cluster.Cluster, []node.Node) bool {
			return slices.Contains(s.told(id, "cluster.price"),
				"its nodes cost 14400.00 EUR per hour from now on, 7200.00 EUR before: the site has changed its prices")
		})
		ends := map[string]time.Time{}
		for _, r := range s.usage(meter.Of{Cluster: id}) {
			if r.State != price.Ready {
				continue
			}
			cost := fmt.Sprint(r.Rate.Micros / 3600 / 1e6)
			if end, follows := ends[r.Subject]; cost != "1" && !(follows && end.Equal(r.From) && cost == "2" && r.To.IsZero()) {
				t.Errorf("%+v", r)
			}
			ends[r.Subject] = r.To
		}
		if len(ends) != 2 {
			t.Errorf("%d nodes", len(ends))
		}
	})
}

func TestWhatAClusterKeepsIsMeteredUntilItsEndAlsoWhilePaused(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 2)
	s.admission.Catalogue.Tariff.Storage = price.Amount{Micros: 20_000, Currency: "EUR"}
	s.run(1)
	s.watch()
	s.untilFree(2)
	id := s.create("hello", 1)
	s.untilReady(id, 1)
	s.substrate.Write(id, strings.Repeat("x", 3<<20+1))
	held := func(mib int64) bool {
		return slices.ContainsFunc(s.usage(meter.Of{Cluster: id, Open: true}), func(r price.Usage) bool {
			return r.Kind == price.Home && r.Quantity == mib
		})
	}
	s.until(id, "measured", func(cluster.Cluster, []node.Node) bool { return held(4) })
	s.pause(id)
	s.untilPaused(id)
	if open := s.usage(meter.Of{Cluster: id, Open: true}); len(open) != 1 || !held(4) || !open[0].Costs() {
		t.Errorf("a paused cluster's meter: %+v", open)
	}
	s.remove(id)
	s.untilClean(id)
	if open := s.usage(meter.Of{Cluster: id, Open: true}); len(open) != 0 {
		t.Errorf("a deleted cluster's meter: %+v", open)
	}
}
