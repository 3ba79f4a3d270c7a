package place

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/drivers/fabric/fabrictest"
	"muster/internal/fabric"
	"muster/internal/inventory"
	"muster/internal/place/topology"
)

// fatTree is a map of hosts on leaves below one level of spines, and the hosts.
func fatTree(t testing.TB, hosts, perLeaf int) (*topology.Map, []inventory.Machine) {
	t.Helper()
	g, err := topology.Parse(fabrictest.FatTree(hosts, perLeaf, 4))
	if err != nil {
		t.Fatal(err)
	}
	var stands []topology.Machine
	var machines []inventory.Machine
	for i := range hosts {
		m := inventory.Machine{ID: fmt.Sprint(i), Name: fabrictest.HostName(i), Facts: inventory.Facts{CPUs: 64}}
		machines = append(machines, m)
		stands = append(stands, topology.Machine{ID: m.ID, Adapters: []fabric.GUID{fabrictest.HostNode(i)}})
	}
	return g.Map("ib0", stands), machines
}

// onLeaves counts the chosen machines by leaf: "leaf0 3, leaf2 1".
func onLeaves(m *topology.Map, chosen []inventory.Machine) string {
	var ids []string
	for _, c := range chosen {
		ids = append(ids, c.ID)
	}
	var words []string
	for _, p := range LayoutOf(m, ids).Places {
		words = append(words, fmt.Sprintf("%s %d", p.Place, p.Nodes))
	}
	return strings.Join(words, ", ")
}

// without are the machines without those of these numbers.
func without(machines []inventory.Machine, numbers ...int) []inventory.Machine {
	return slices.DeleteFunc(slices.Clone(machines), func(m inventory.Machine) bool {
		return slices.ContainsFunc(numbers, func(n int) bool { return fmt.Sprint(n) == m.ID })
	})
}

func TestAPolicyDecidesWhichMachinesAreTaken(t *testing.T) {
	m, all := fatTree(t, 20, 5) // leaf0: 0-4 … leaf3: 15-19
	any := class(t, "any", "cpus >= 1")
	stranger := all[0] // its place is unknown
	stranger.ID, stranger.Name = "stranger", "stranger"
	for name, c := range map[string]struct {
		free   []inventory.Machine
		nodes  int
		policy Policy
		beside []string
		want   string
	}{
		"compact on one leaf":               {without(all, 0), 5, Compact, nil, "leaf1 5"},
		"compact where least is left over":  {without(all, 0, 1, 5, 6, 7), 2, Compact, nil, "leaf1 2"},
		"compact on the fewest leaves":      {without(all, 0, 5, 10), 9, Compact, nil, "leaf3 5, leaf0 4"},
		"compact near those that are there": {without(all, 10, 11), 2, Compact, []string{"10", "11"}, "leaf2 2"},
		"compact around what is left of it": {without(all, 10, 11, 12, 13), 2, Compact, []string{"10", "11"},
			"leaf0 1, leaf2 1"},
		"spread on all leaves":                  {all, 4, Spread, nil, "leaf0 1, leaf1 1, leaf2 1, leaf3 1"},
		"spread evenly":                         {all, 6, Spread, nil, "leaf0 2, leaf1 2, leaf2 1, leaf3 1"},
		"spread on leaves that are known":       {append(without(all[:6]), stranger), 3, Spread, nil, "leaf0 2, leaf1 1"},
		"spread away from those that are there": {without(all, 0, 5), 2, Spread, []string{"0", "5"}, "leaf2 1, leaf3 1"},
		"one switch, the tightest":              {without(all, 0, 6, 7), 3, SameSwitch, nil, "leaf1 3"},
		"one switch, that of the others":        {without(all, 15, 16), 2, SameSwitch, []string{"15", "16"}, "leaf3 2"},
		"anywhere by name":                      {without(all, 0, 2), 5, Anywhere, nil, "leaf0 3, leaf1 2"},
	} {
		chosen, err := Choose([]Want{{Class: any, Nodes: c.nodes, Policy: c.policy, Map: m, Beside: c.beside}}, c.free, nil)
		if err != nil || onLeaves(m, chosen[0]) != c.want || len(chosen[0]) != c.nodes {
			t.Errorf("%s: %v %v; it should be %s", name, chosen, err, c.want)
		}
	}
}

func TestOneSwitchIsRefusedPrecisely(t *testing.T) {
	m, all := fatTree(t, 20, 5)
	any, first := class(t, "epyc-ib", "cpus >= 1"), class(t, "first", "name = "+fabrictest.HostName(0))
	for name, c := range map[string]struct {
		wants []Want
		free  []inventory.Machine
		text  string
	}{
		"too many": {[]Want{{Class: any, Nodes: 6, Policy: SameSwitch, Map: m}}, without(all, 0),
			"class epyc-ib: 6 on one switch asked, at most 5 free on one (leaf1)"},
		"none known": {[]Want{{Class: any, Nodes: 2, Policy: SameSwitch}}, all,
			"class epyc-ib: 2 on one switch asked, but the switch of none of its free machines is known"},
		"others are there": {[]Want{{Class: any, Nodes: 2, Policy: SameSwitch, Map: m, Beside: []string{"0"}}},
			without(all, 0, 1, 2, 3), "class epyc-ib: 2 asked on leaf0, where the other nodes are, 1 free there"},
		"another queue needs one": {[]Want{{Class: any, Nodes: 5, Policy: SameSwitch, Map: m}, {Class: first, Nodes: 1}}, all[:7],
			"class epyc-ib: 5 on one switch asked, but where so many are free (leaf0) other queues need some of them"},
		"too few at all": {[]Want{{Class: any, Nodes: 30, Policy: SameSwitch, Map: m}}, all, "class epyc-ib: 30 asked, 20 free"},
	} {
		_, err := Choose(c.wants, c.free, nil)
		if err == nil || err.Error() != c.text {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestQueuesShareOutAClassByTheirPolicies(t *testing.T) {
	m, all := fatTree(t, 20, 5)
	any, first := class(t, "any", "cpus >= 1"), class(t, "first", "name = "+fabrictest.HostName(0))
	chosen, err := Choose([]Want{
		{Class: any, Nodes: 1}, {Class: any, Nodes: 4, Policy: Compact, Map: m}, {Class: any, Nodes: 5, Policy: Compact, Map: m},
		{Class: any, Nodes: 3, Policy: SameSwitch, Map: m}, {Class: first, Nodes: 1},
		{Class: any, Nodes: 2, Policy: Spread, Map: m},
	}, all, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range chosen {
		got = append(got, onLeaves(m, c))
	}
	// The switch of its own is found first, on what the scarce class leaves; then the larger of the compact ones.
	want := []string{"leaf0 1", "leaf1 4", "leaf2 5", "leaf0 3", "leaf0 1", "leaf1 1, leaf3 1"}
	if got[3] != "leaf0 3" || got[2] == got[1] || !strings.HasSuffix(got[2], " 5") || !strings.HasSuffix(got[1], " 4") ||
		strings.Contains(got[5], " 2") || got[4] != "leaf0 1" {
		t.Errorf("%q; it could be %q", got, want)
	}
}

func TestClassesOfOneQueueLieTogether(t *testing.T) {
	m, all := fatTree(t, 20, 5)
	for i := range all {
		if i%5 == 0 {
			all[i].Facts.CPUs = 8
		}
	}
	small, big := class(t, "small", "cpus = 8"), class(t, "big", "cpus = 64")
	chosen, err := Choose([]Want{{Class: big, Nodes: 4, Policy: Compact, Map: m, Group: "cpu"},
		{Class: small, Nodes: 1, Policy: Compact, Map: m, Group: "cpu"}}, without(all, 1), nil)
	if err != nil || onLeaves(m, slices.Concat(chosen...)) != "leaf1 5" {
		t.Error(chosen, err)
	}
}

func TestMachinesOnNoMapAreTheLastResort(t *testing.T) {
	m, all := fatTree(t, 10, 5)
	strangers := machines(64, 64)
	any := class(t, "any", "cpus >= 1")
	for nodes, want := range map[int]string{6: "leaf0 5, leaf1 1", 11: "leaf0 5, leaf1 5"} {
		chosen, err := Choose([]Want{{Class: any, Nodes: nodes, Policy: Compact, Map: m}}, append(strangers, all...), nil)
		if err != nil || onLeaves(m, chosen[0]) != want {
			t.Errorf("%d: %s %v", nodes, onLeaves(m, chosen[0]), err)
		}
	}
}

// tree draws places in a tree of two or three levels, as unequal as it likes.
func tree(t *rapid.T) *landscape {
	places := rapid.IntRange(1, 6).Draw(t, "places")
	g := &landscape{within: make([]int, places), apart: make([][]int, places)}
	free, there, pod := make([]int, places), map[int]int{}, make([]int, places)
	levels := rapid.IntRange(2, 3).Draw(t, "levels")
	for p := range places {
		free[p] = rapid.IntRange(0, 4).Draw(t, "free")
		there[p] = rapid.SampledFrom([]int{0, 0, 0, 1, 3}).Draw(t, "there")
		if levels == 3 {
			pod[p] = rapid.IntRange(0, 2).Draw(t, "pod")
		}
	}
	for p := range places {
		g.apart[p] = make([]int, places)
		for q := range places {
			switch {
			case p == q:
			case pod[p] == pod[q]:
				g.apart[p][q] = 2
			default:
				g.apart[p][q] = 4
			}
		}
	}
	g = g.with(there)
	g.free = free
	return g
}

// again is a landscape whose distances were changed.
func again(g *landscape) *landscape {
	there := map[int]int{}
	for p, n := range g.there {
		there[p] = n
	}
	other := g.with(there)
	other.free = g.free
	return other
}

// optimum tries every answer.
func (g *landscape) optimum(n int) int64 {
	best, answer := int64(math.MaxInt64), make([]int, len(g.free))
	var try func(p, left int)
	try = func(p, left int) {
		if p == len(answer) {
			if left == 0 {
				best = min(best, g.cost(answer))
			}
			return
		}
		for k := 0; k <= min(left, g.free[p]); k++ {
			answer[p] = k
			try(p+1, left-k)
		}
		answer[p] = 0
	}
	try(0, n)
	return best
}

func (g *landscape) total() int {
	n := 0
	for _, free := range g.free {
		n += free
	}
	return n
}

func sum(list []int) int {
	n := 0
	for _, k := range list {
		n += k
	}
	return n
}

func TestCompactIsTheBestThereIsInTrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := tree(t)
		n := rapid.IntRange(0, g.total()).Draw(t, "nodes")
		if n == 0 {
			return
		}
		answer := g.compact(n)
		if got, want := g.cost(answer), g.optimum(n); sum(answer) != n || got != want {
			t.Fatalf("%d nodes on %v with %v there: %v costs %d hops, and %d would do", n, g.free, g.there, answer, got/perHop,
				want/perHop)
		}
	})
}

func TestCompactIsGoodWhereNothingIsATree(t *testing.T) {
	worst := 1.0
	rapid.Check(t, func(t *rapid.T) {
		g := tree(t)
		for p := range g.free {
			for q := range p {
				g.apart[p][q] = rapid.IntRange(1, 5).Draw(t, "apart")
				g.apart[q][p] = g.apart[p][q]
			}
		}
		g = again(g)
		n := rapid.IntRange(0, g.total()).Draw(t, "nodes")
		if n == 0 {
			return
		}
		answer := g.compact(n)
		got, want := g.cost(answer)/perHop, g.optimum(n)/perHop
		if sum(answer) != n || float64(got) > 1.05*float64(want) {
			t.Fatalf("%d nodes on %v, %v apart: %v costs %d hops, and %d would do", n, g.free, g.apart, answer, got, want)
		}
		if want > 0 {
			worst = max(worst, float64(got)/float64(want))
		}
	})
	t.Logf("at worst %.1f %% above the optimum", 100*(worst-1))
}

// A search counts what its moves change instead of all of an answer's cost.
func TestWhatMovesChangeIsWhatTheyCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := tree(t)
		var used []int
		for p := range g.free {
			for q := range p {
				g.apart[p][q] = rapid.IntRange(1, 5).Draw(t, "apart")
				g.apart[q][p] = g.apart[p][q]
			}
			if g.free[p] > 0 {
				used = append(used, p)
			}
		}
		g = again(g)
		n := rapid.IntRange(0, g.total()).Draw(t, "nodes")
		if n == 0 {
			return
		}
		answer := g.grow(used, rapid.SampledFrom(used).Draw(t, "first"), n)
		before := g.cost(answer)
		if added := g.improve(used, answer); sum(answer) != n || g.cost(answer) != before+added || added > 0 {
			t.Fatalf("%v: from %d to %d by %d", answer, before, g.cost(answer), added)
		}
	})
}

func TestSpreadIsOnAsManyPlacesAsCanBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := tree(t)
		clear(g.there)
		clear(g.near)
		n := rapid.IntRange(0, g.total()).Draw(t, "nodes")
		used, could := 0, 0
		for p, k := range g.spread(n) {
			if k > g.free[p] {
				t.Fatal("more than are free")
			}
			if k > 0 {
				used++
			}
			if g.free[p] > 0 {
				could++
			}
		}
		if used != min(n, could) {
			t.Fatalf("%d nodes on %d places, of %d", n, used, could)
		}
	})
}

// A policy must not cost anybody a machine: what can be given with none, can be given with any but one switch.
func TestAPolicyTakesNothingFromOthers(t *testing.T) {
	m, all := fatTree(t, 12, 3)
	rapid.Check(t, func(t *rapid.T) {
		free := slices.Clone(all)
		for i := range free {
			free[i].Facts.CPUs = rapid.IntRange(1, 4).Draw(t, "cpus")
		}
		var wants, plain []Want
		for range rapid.IntRange(1, 4).Draw(t, "wants") {
			w := Want{Class: class(t, "c", fmt.Sprintf("cpus %s %d", rapid.SampledFrom([]string{">=", "<="}).Draw(t, "op"),
				rapid.IntRange(1, 4).Draw(t, "than"))),
				Nodes: rapid.IntRange(0, 5).Draw(t, "nodes"), Map: m,
				Policy: rapid.SampledFrom([]Policy{Anywhere, Compact, Spread, SameSwitch}).Draw(t, "policy")}
			wants, plain = append(wants, w), append(plain, Want{Class: w.Class, Nodes: w.Nodes})
		}
		chosen, err := Choose(wants, free, nil)
		_, plainly := Choose(plain, free, nil)
		if apart := (*Apart)(nil); errors.As(err, &apart) {
			return
		}
		if (err == nil) != (plainly == nil) {
			t.Fatalf("with policies %v, without %v", err, plainly)
		}
		taken := map[string]bool{}
		for w, machines := range chosen {
			if len(machines) != wants[w].Nodes || wants[w].Policy == SameSwitch && strings.Contains(onLeaves(m, machines), ",") {
				t.Fatalf("want %d: %v", w, machines)
			}
			for _, one := range machines {
				if taken[one.ID] || !wants[w].Class.Has(one) {
					t.Fatalf("%s is given twice, or to one that cannot use it", one.Name)
				}
				taken[one.ID] = true
			}
		}
	})
}

func TestTheLayOfMachinesIsTold(t *testing.T) {
	m, _ := fatTree(t, 20, 5)
	l := LayoutOf(m, []string{"0", "1", "5", "nobody"})
	want := Layout{Places: []Part{{"leaf0", 2, 4}, {"leaf1", 1, 4}}, Hops: 2, Mean: 4.0 / 3, Unknown: 1}
	if fmt.Sprint(l) != fmt.Sprint(want) {
		t.Errorf("%+v, not %+v", l, want)
	}
}

// busyTree is a fat tree of 1,000 hosts; a third of them, here and there, is not free.
func busyTree(b testing.TB) (*topology.Map, []inventory.Machine) {
	m, all := fatTree(b, 1000, 32)
	var free []inventory.Machine
	for i, one := range all {
		if (i*7919+i/32*31)%3 != 0 {
			free = append(free, one)
		}
	}
	return m, free
}

func TestCompactOnAThousandHostsIsTheOptimum(t *testing.T) {
	m, free := busyTree(t)
	any := class(t, "any", "cpus >= 1")
	count := map[int]int{}
	for _, one := range free {
		p, _ := m.At(one.ID)
		count[p]++
	}
	var sizes []int
	for _, n := range count {
		sizes = append(sizes, n)
	}
	slices.SortFunc(sizes, func(a, b int) int { return b - a })
	for _, n := range []int{2, 16, 22, 64, 100, 250, 500} {
		chosen, err := Choose([]Want{{Class: any, Nodes: n, Policy: Compact, Map: m}}, free, nil)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, one := range chosen[0] {
			ids = append(ids, one.ID)
		}
		// All leaves are two hops apart, so that the largest ones, filled one after the other, are the optimum.
		pairs, left := 0, n
		for _, size := range sizes {
			k := min(size, left)
			pairs += k * (k - 1) / 2
			left -= k
		}
		all := n * (n - 1) / 2
		optimum := 2 * float64(all-pairs) / float64(all)
		got := LayoutOf(m, ids).Mean
		t.Logf("%3d nodes: %.4f hops on average, the optimum is %.4f; on %d leaves", n, got, optimum,
			len(LayoutOf(m, ids).Places))
		if got > optimum*1.0001 {
			t.Errorf("%d nodes: %.4f hops on average, and %.4f would do", n, got, optimum)
		}
	}
}

func BenchmarkCompactOf1000(b *testing.B) {
	m, free := busyTree(b)
	any := class(b, "any", "cpus >= 1")
	for _, n := range []int{16, 128, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := Choose([]Want{{Class: any, Nodes: n, Policy: Compact, Map: m}}, free, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompact1000Of10000(b *testing.B) {
	m, all := fatTree(b, 10000, 40)
	any := class(b, "any", "cpus >= 1")
	for b.Loop() {
		if _, err := Choose([]Want{{Class: any, Nodes: 1000, Policy: Compact, Map: m}}, all, nil); err != nil {
			b.Fatal(err)
		}
	}
}
