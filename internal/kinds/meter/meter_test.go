package meter_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/meter"
	"muster/internal/kinds/node"
	"muster/internal/price"
)

// diary is what really happened to nodes, as the rows of the nodes themselves said in the transactions that changed them.
type diary struct {
	mu      sync.Mutex
	entries map[string][]entry
}

type entry struct {
	phase core.Phase
	at    time.Time
	fence int64
}

func (d *diary) note(n node.Node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries[n.ID] = append(d.entries[n.ID], entry{n.Phase, n.PhaseAt, n.Fence})
}

var errCrash = errors.New("the controller dies here")

// TestTheMeterHasNoGapAndNoOverlap lets several controllers lead nodes through random lives, die in the middle of
// transactions, lose their claims and come too late, while prices change. Then the rows of each node must tell the same
// story as its phases, from the instant at which it was added to the one at which it was gone.
func TestTheMeterHasNoGapAndNoOverlap(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		s := kindstest.Open(t, url)
		const machines, controllers, steps = 6, 3, 120
		kindstest.AddMachines(t, s, machines)
		kindstest.AddCluster(t, s, "c1", "hello")
		real := diary{entries: map[string][]entry{}}
		var births sync.Mutex
		born := 0
		add := func(ctx context.Context, machine string) error { // a node on a free machine
			births.Lock()
			defer births.Unlock()
			born++
			id := fmt.Sprintf("n%d", born)
			var n node.Node
			if err := s.Update(ctx, func(tx *core.Tx) (err error) {
				if err = kindstest.AddNode(ctx, tx, id, "c1", id, 10+born, machine); err == nil {
					n, err = node.Get(ctx, tx, id)
				}
				return err
			}); err != nil {
				return err
			}
			n.PhaseAt = n.CreatedAt
			real.note(n)
			return nil
		}
		for i := range machines {
			if err := add(t.Context(), fmt.Sprintf("m%d", i+1)); err != nil {
				t.Fatal(err)
			}
		}
		var all sync.WaitGroup
		for c := range controllers {
			dice := rand.New(rand.NewPCG(seed, uint64(c)))
			all.Go(func() {
				for range steps {
					if err := live(t.Context(), s, dice, fmt.Sprint("controller ", c), &real, add); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		compare(t, s, &real)
	})
}

// live does one step of one controller.
func live(ctx context.Context, s *core.Store, dice *rand.Rand, owner string, real *diary,
	add func(context.Context, string) error) error {
	ttl := time.Minute
	late := dice.IntN(6) == 0
	if late {
		ttl = time.Millisecond
	}
	claims, err := s.Claim(ctx, node.Kind, owner, ttl, 1)
	if err != nil || len(claims) == 0 {
		return err
	}
	if late {
		time.Sleep(time.Duration(dice.IntN(5)) * time.Millisecond)
	}
	phases := []core.Phase{node.Attaching, node.Booting, node.Testing, core.Ready, node.Draining, core.Failed, core.Releasing,
		node.Gone}
	phase := phases[dice.IntN(len(phases))]
	crash := dice.IntN(4) == 0
	rate := price.Amount{Micros: dice.Int64N(5) * 1000, Currency: "EUR"}
	var after node.Node
	err = s.Update(ctx, func(tx *core.Tx) error {
		if err := tx.Hold(ctx, claims[0]); err != nil {
			return err
		}
		n, err := node.Get(ctx, tx, claims[0].ID)
		if err != nil {
			return err
		}
		if phase == node.Gone {
			if err := node.LeaveMachine(ctx, tx, n); err != nil {
				return err
			}
		}
		if dice.IntN(8) == 0 {
			if err := meter.Reprice(ctx, tx, n.ID, price.Terms{Rate: rate, Charged: []price.State{price.Ready}}, 1); err != nil {
				return err
			}
		}
		if err := tx.Settle(ctx, claims[0], core.Settlement{Phase: phase, Never: phase == node.Gone}); err != nil {
			return err
		}
		after, err = node.Get(ctx, tx, n.ID)
		if crash {
			err = errCrash
		}
		return err
	})
	if errors.Is(err, errCrash) {
		return s.ReleaseLeases(ctx, owner)
	}
	if errors.Is(err, core.ErrFenced) {
		return nil
	}
	if err != nil {
		return err
	}
	real.note(after)
	if phase == node.Gone {
		return add(ctx, "m"+after.Machine[len("m"):])
	}
	return nil
}

// compare rebuilds from the diary what the meter must have.
func compare(t *testing.T, s *core.Store, real *diary) {
	t.Helper()
	kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
		rows, err := meter.Rows(ctx, tx, meter.Of{Cluster: "c1"})
		if err != nil {
			return err
		}
		metered := map[string][]price.Usage{}
		for _, r := range rows {
			if r.Kind == price.Node {
				metered[r.Subject] = append(metered[r.Subject], r)
			}
		}
		for id, entries := range real.entries {
			var got, want kindstest.Course
			for i, r := range metered[id] {
				if i > 0 && !r.From.Equal(metered[id][i-1].To) {
					t.Errorf("node %s: a row ends at %v and the next begins at %v", id, metered[id][i-1].To, r.From)
				}
				got.Turn(r.State, r.From) // the next may have the same state and another price
				if i == len(metered[id])-1 && !r.To.IsZero() {
					got.Turn("", r.To)
				}
			}
			// controllers may note them in another order
			slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.fence, b.fence) })
			for _, e := range entries {
				want.Turn(stateName(e.phase), e.at)
			}
			if got.String() != want.String() {
				t.Errorf("node %s:\nmetered %v\nlived   %v\nphases  %v", id, got, want, entries)
			}
		}
		if len(metered) != len(real.entries) {
			t.Errorf("%d nodes metered, %d lived", len(metered), len(real.entries))
		}
		return nil
	})
}

func stateName(p core.Phase) price.State {
	switch p {
	case node.Gone:
		return ""
	case core.Ready, node.Draining, core.Failed, core.Releasing:
		return price.State(p)
	}
	return price.Preparing
}

// TestTheDatabaseItselfRefusesGapsAndOverlaps goes past the code: a row that does not continue the chain is refused.
func TestAHomeIsMeteredFromItsClustersBeginningToItsEnd(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddCluster(t, s, "c1", "hello")
		terms := price.Terms{Rate: price.Amount{Micros: 20_000, Currency: "EUR"}, Charged: []price.State{price.Stored}}
		time.Sleep(2 * time.Millisecond)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return meter.Reprice(ctx, tx, "c1", terms, 1<<10) })
		time.Sleep(2 * time.Millisecond)
		claims, err := s.Claim(t.Context(), cluster.Kind, "test", time.Minute, 1)
		if err != nil || len(claims) != 1 {
			t.Fatal(claims, err)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return tx.Settle(ctx, claims[0], core.Settlement{Phase: core.Deleted, Never: true})
		})
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			c, err := cluster.Get(ctx, tx, "c1")
			if err != nil {
				return err
			}
			rows, err := meter.Rows(ctx, tx, meter.Of{Cluster: "c1"})
			if err != nil {
				return err
			}
			if len(rows) != 2 || !rows[0].From.Equal(c.CreatedAt) || !rows[0].To.Equal(rows[1].From) ||
				!rows[1].To.Equal(c.PhaseAt) || rows[1].Quantity != 1<<10 {
				t.Errorf("%+v", rows)
			}
			return nil
		})
	})
}

func TestTheDatabaseRefusesGapsAndOverlapsOfTheMeter(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 1)
		kindstest.AddCluster(t, s, "c1", "hello")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return kindstest.AddNode(ctx, tx, "n1", "c1", "n1", 3, "m1")
		})
		write := func(query string, args ...any) error {
			return s.Update(t.Context(), func(tx *core.Tx) error {
				_, err := tx.Exec(t.Context(), query, args...)
				return err
			})
		}
		const copied = `INSERT INTO usage (subject, kind, project, cluster_id, cluster, node, queue, class, machine, state,
			quantity, rate, currency, charges, charged, cores, gpus, follows, began, ended)
			SELECT subject, kind, project, cluster_id, cluster, node, queue, class, machine, state, quantity, rate, currency,
			charges, charged, cores, gpus, `
		const from = ` FROM usage WHERE subject = 'n1' AND state = 'preparing'`
		if err := write(`UPDATE usage SET ended = began + 1000 WHERE subject = 'n1'`); err != nil {
			t.Fatal(err)
		}
		for name, columns := range map[string]string{
			"a gap":                             `ended + 1, ended + 1, NULL`,
			"an overlap":                        `ended - 1, ended - 1, NULL`,
			"a second beginning":                `NULL, ended, NULL`,
			"a row that says it follows sooner": `ended, ended + 1, NULL`,
			"no time":                           `ended, ended, ended`,
			"negative time":                     `ended, ended, ended - 1`,
		} {
			if err := write(copied + columns + from); err == nil {
				t.Errorf("%s was accepted", name)
			}
		}
		if err := write(copied + `ended, ended, NULL` + from); err != nil {
			t.Error("a row that continues the chain was refused:", err)
		}
		if err := write(copied + `ended, ended, NULL` + from); err == nil {
			t.Error("two rows that go on were accepted")
		}
	})
}

func TestALimitIsToldOnceUntilItIsAwayAgain(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		var news []bool
		for _, percent := range []int{0, 80, 80, 100, 100, 80, 100, 0, 80} {
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				is, err := meter.Tell(ctx, tx, "c1", "budget", percent)
				news = append(news, is)
				return err
			})
		}
		if want := []bool{false, true, false, true, false, false, true, false, true}; !slices.Equal(news, want) {
			t.Errorf("%v, want %v", news, want)
		}
	})
}
