package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/fake"
	"muster/internal/kinds"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/spec"
)

// contrary is a hypervisor with three cores for guests. It gives each core to one guest only: the one that was chosen if it is
// free, but for the first few guests another one.
type contrary struct {
	*fake.Substrate
	mu    sync.Mutex
	first int
	cores map[string]int // by node
}

func (c *contrary) Ensure(ctx context.Context, n substrate.Node) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	core, has := c.cores[n.Node]
	if !has {
		free := []int{1, 2, 3}
		for _, taken := range c.cores {
			free = slices.DeleteFunc(free, func(one int) bool { return one == taken })
		}
		if len(free) == 0 {
			return fmt.Errorf("%w: all its cores are given", substrate.ErrRefused)
		}
		core = n.Allocation.Cells[0].Cores[0]
		others := slices.DeleteFunc(slices.Clone(free), func(one int) bool { return one == core })
		if c.first > 0 && len(others) > 0 || !slices.Contains(free, core) {
			core = others[0]
			c.first--
		}
		c.cores[n.Node] = core
	}
	h := *n.Allocation
	h.Cells = slices.Clone(h.Cells)
	h.Cells[0].Cores, h.Share = []int{core}, 1
	n.Allocation = &h
	return c.Substrate.Ensure(ctx, n)
}

func (c *contrary) Remove(ctx context.Context, r substrate.Ref) error {
	if err := c.Substrate.Remove(ctx, r); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if seen, err := c.Observe(ctx, substrate.Ref{Cluster: r.Cluster, Node: r.Node}); err == nil && !seen.Present {
		delete(c.cores, r.Node)
	}
	return nil
}

// Two controllers of one database place guests on one host in the same moment, and the host gives others' parts to the
// first who come. The database knows in the end what each has, and at no time that two have the same.
func TestTwoControllersAdmitToOneHostAtTheSameMoment(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		const askers = 4
		s, _ := newGuestFixture(t, url, askers, 1)
		for i := range s.admission.Catalogue.Classes {
			s.admission.Catalogue.Classes[i].Overcommit = 0 // a core has one guest
		}
		host := &contrary{Substrate: s.substrate, first: 2, cores: map[string]int{}}
		provider := s.deps.Providers["vm"]
		provider.Substrate = host
		s.deps.Providers["vm"] = provider
		other := *s
		if strings.HasPrefix(url, "postgres") { // of SQLite there is one user, with engines of its own
			other.db = opened(t, url)
			other.deps.DB = other.db
		}
		s.run(1)
		engine, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- kindstest.Run(engine, kinds.NewEngine(core.NewID("e"), other.deps, slog.New(slog.DiscardHandler)))
		}()
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		s.untilFree(askers)
		s.awaitMachine("hv1", "available", available)

		ids, errs := make([]string, askers), make([]error, askers)
		begin := make(chan struct{})
		var all sync.WaitGroup
		for i := range askers {
			at := []*fixture{s, &other}[i%2]
			all.Go(func() {
				<-begin
				errs[i] = at.db.Update(context.Background(), func(tx *core.Tx) error {
					plan, err := at.admission.Create(context.Background(), tx,
						spec.Cluster{Name: fmt.Sprintf("c%d", i), Isolation: spec.IsolationVM, Nodes: 1})
					if err != nil {
						return err
					}
					c, err := at.admission.CarryOut(context.Background(), tx, plan, "admin", 0)
					ids[i] = c.ID
					return err
				})
			})
		}
		host.mu.Lock() // so it gives nothing before all have asked; a guest would end for it, and its part be free for the last
		close(begin)
		all.Wait()
		host.mu.Unlock()
		var served []string
		for i, err := range errs {
			var refusal *admission.Refusal
			switch {
			case err == nil:
				served = append(served, ids[i])
			case !errors.As(err, &refusal) || refusal.Kind != admission.NoCapacity:
				t.Fatalf("asker %d: %v", i, err)
			}
		}
		if len(served) != 3 {
			t.Fatalf("%d have one of 3 cores: %v", len(served), errs)
		}
		for _, id := range served {
			s.untilReady(id, 1)
		}
		deadline := time.Now().Add(2 * time.Minute)
		for {
			known, disjoint := s.coresKnown()
			if !disjoint {
				t.Fatalf("two guests have the same core: %v", known)
			}
			if host.agrees(known) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the database knows of %v, the host has given %v", known, host.cores)
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

// opened is another controller's use of a database.
func opened(t *testing.T, url string) *core.Store {
	t.Helper()
	db, err := kinds.Open(t.Context(), url, kindstest.Keys())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// coresKnown are the cores that guests have as the database knows, by node.
func (s *fixture) coresKnown() (known map[string]int, disjoint bool) {
	known, disjoint = map[string]int{}, true
	taken := map[int]bool{}
	s.view(func(ctx context.Context, tx *core.Tx) error {
		machines, err := machine.List(ctx, tx)
		for _, m := range machines {
			if m.Allocation == nil || !strings.HasPrefix(m.Name, "hv1-g") {
				continue
			}
			core := m.Allocation.Cells[0].Cores[0]
			disjoint = disjoint && !taken[core]
			taken[core] = true
			known[m.Holder] = core
		}
		return err
	})
	return known, disjoint
}

func (c *contrary) agrees(known map[string]int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(known) != len(c.cores) {
		return false
	}
	for node, core := range c.cores {
		if known[node] != core {
			return false
		}
	}
	return true
}
