package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"muster/internal/bench/recipe"
	"muster/internal/bench/round"
	"muster/internal/bench/stats"
)

const twoQuantities = `recipe: some
about: It tells numbers
seconds: 1
run: echo
read:
  - {quantity: fast, lines: '(?P<value>\d)', unit: MB/s, better: higher}
  - {quantity: slow, lines: '(?P<value>\d)', unit: s, better: lower}
`

func somePlan(t *testing.T) Plan {
	t.Helper()
	r, err := recipe.Parse("some.yaml", []byte(twoQuantities))
	if err != nil {
		t.Fatal(err)
	}
	return Plan{Suite: recipe.Suite{Name: "some", Entries: []recipe.Entry{{Recipe: "some"}}},
		Recipes: map[string]*recipe.Recipe{"some": r}, Nodes: recipe.Nodes{Nodes: 1, Cores: 1}, Rounds: 7}
}

// measure is a side whose rounds have such values.
func measure(p Plan, id, peer string, fast, slow []float64) Side {
	side := Side{Run: Run{ID: id, Peer: peer, Plan: p}}
	for i := range fast {
		side.Rounds = append(side.Rounds, Round{Number: i, State: "ok", Steps: []Step{{State: StepOK, Samples: []recipe.Sample{
			{Quantity: "fast", Value: fast[i], Unit: "MB/s", Better: recipe.Higher},
			{Quantity: "slow", Value: slow[i], Unit: "s", Better: recipe.Lower}}}}})
	}
	return side
}

// TestSidesAreComparedInPairs: side B has 10 % more of both in each pair, and what all rounds of a pair share says nothing.
func TestSidesAreComparedInPairs(t *testing.T) {
	p := somePlan(t)
	shared := []float64{100, 140, 90, 120, 160, 80, 1000}
	scaled := func(by float64) (all []float64) {
		for i, v := range shared {
			all = append(all, v*by*(1+float64(i)/1000))
		}
		return all
	}
	a, b := measure(p, "a", "b", scaled(1), scaled(1)), measure(p, "b", "a", scaled(1.1), scaled(1.1))
	for i, side := range []*Side{&a, &b} { // if one round of a pair was lost, neither counts
		lost := measure(p, "", "", []float64{1e6}, []float64{1e6}).Rounds[0]
		if lost.Number = 7; i == 1 {
			lost.State = "lost"
		}
		side.Rounds = append(side.Rounds, lost)
	}
	c, err := Compare(a, b, stats.Margin)
	if err != nil || !c.Paired || len(c.Quantities) != 2 {
		t.Fatalf("%v, %+v", err, c)
	}
	for i, better := range []string{"b", "a"} {
		q := c.Quantities[i]
		if q.Verdict != stats.Differs || q.Better != better || math.Abs(q.Effect.Ratio-1.1) > 1e-9 || len(q.Pairs) != 7 ||
			q.Adjusted != q.Effect.P {
			t.Errorf("%+v", q)
		}
	}
	b.Run.Peer = "" // the same values by themselves are too far apart
	if c, err = Compare(a, b, stats.Margin); err != nil || c.Paired || c.Quantities[0].Verdict != stats.Undecided {
		t.Errorf("%v, %+v", err, c)
	}
}

func TestWhatOnlyOneSideHasIsNotCompared(t *testing.T) {
	p := somePlan(t)
	one := []float64{1, 2, 3, 4, 5, 6, 7}
	a, b := measure(p, "a", "b", one, one), measure(p, "b", "a", one, one)
	for i := range b.Rounds {
		b.Rounds[i].Steps[0].Samples = b.Rounds[i].Steps[0].Samples[1:]
	}
	for i := range 4 {
		a.Rounds[i].Steps = append(a.Rounds[i].Steps, Step{State: StepFailed})
		b.Rounds[i].Steps = append(b.Rounds[i].Steps, Step{State: StepSkipped})
	}
	c, err := Compare(a, b, stats.Margin)
	if err != nil || c.Quantities[0].Verdict != stats.Incomparable || c.Quantities[0].Why == "" ||
		c.Quantities[1].Verdict != stats.Equal || c.FailedA != 4 || c.OfA != 11 || c.FailedB != 0 || c.OfB != 7 ||
		c.FailedP < 0.05 {
		t.Errorf("%v, %+v", err, c)
	}
	back, err := Compare(b, a, stats.Margin)
	if err != nil || len(back.Quantities) != 2 || back.Quantities[1].Why != "side A has not measured it" {
		t.Errorf("%v, %+v", err, back)
	}
}

// TestOfManyEqualQuantitiesFewDiffer compares forty quantities that are equal, again and again: what one comparison would call a
// difference by chance is none among many.
func TestOfManyEqualQuantitiesFewDiffer(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	with := 0
	for range 200 {
		var c Comparison
		for range 40 {
			var a, b []float64
			for range 12 {
				a, b = append(a, 1+random.NormFloat64()*0.02), append(b, 1+random.NormFloat64()*0.02)
			}
			effect, err := stats.Pairs(a, b)
			if err != nil {
				t.Fatal(err)
			}
			c.Quantities = append(c.Quantities, Compared{Effect: effect, Verdict: effect.Verdict(0)})
		}
		c.adjust()
		for _, q := range c.Quantities {
			if q.Verdict == stats.Differs {
				with++
				break
			}
		}
	}
	if t.Logf("of 200 comparisons of 40 equal quantities %d see a difference", with); with > 20 {
		t.Error("one in twenty may")
	}
}

// TestTurnsAreByLot: each side is the first of about as many pairs, no round waits for itself, and neither side runs ahead.
func TestTurnsAreByLot(t *testing.T) {
	a := Plan{Seed: 7}
	b := Plan{Seed: 7, Second: true}
	ended, first, order := [2]int{}, 0, ""
	for ended[0] < 100 || ended[1] < 100 {
		mine, theirs := a.Turn(ended[0], ended[1]), b.Turn(ended[1], ended[0])
		if mine == theirs {
			t.Fatalf("after %v rounds both or none may begin", ended)
		}
		if mine {
			if ended[0] == ended[1] {
				first++
			}
			ended[0]++
			order += "a"
			continue
		}
		ended[1]++
		order += "b"
	}
	if ended != [2]int{100, 100} || first < 35 || first > 65 {
		t.Errorf("%v rounds, side A first in %d: %s", ended, first, order)
	}
}

// TestPreciseIsHowFarIntervalsReach, and not whether sides differ.
func TestPreciseIsHowFarIntervalsReach(t *testing.T) {
	p := somePlan(t)
	even, wide := []float64{100, 101, 99, 100, 101, 99, 100}, []float64{100, 140, 90, 120, 160, 80, 100}
	twice := func(values []float64) (all []float64) {
		for _, v := range values {
			all = append(all, 2*v)
		}
		return all
	}
	for name, c := range map[string]struct {
		a, b []float64 // b nil: one run
		want bool
	}{
		"even": {even, nil, true}, "wide": {wide, nil, false}, "few": {even[:5], nil, false}, "none": {nil, nil, false},
		"pairs of wide values, as wide": {wide, twice(wide), true}, "pairs": {even, wide, false},
	} {
		one, other := measure(p, "a", "b", c.a, c.a), (*Side)(nil)
		if c.b != nil {
			side := measure(p, "b", "a", c.b, c.b)
			other = &side
		}
		if got, err := Precise(one, other, 0.02); err != nil || got != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestManyQuantitiesAreComparedInProportion: a program's output says how many there are.
func TestManyQuantitiesAreComparedInProportion(t *testing.T) {
	p := somePlan(t)
	runtime.LockOSThread() // whose time is this test's alone
	defer runtime.UnlockOSThread()
	spent := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	took := func(n int) time.Duration {
		side := func(id string) Side {
			samples := make([]recipe.Sample, n)
			for i := range samples {
				samples[i] = recipe.Sample{Quantity: "fast", Value: 1, Unit: "MB/s", Better: recipe.Higher,
					Labels: map[string]string{"size": fmt.Sprint(id, i)}}
			}
			one := Round{State: "ok", Steps: []Step{{State: StepOK, Samples: samples}}}
			return Side{Run: Run{ID: id, Plan: p}, Rounds: []Round{one}}
		}
		a, b := side("a"), side("b")
		began := spent()
		c, err := Compare(a, b, stats.Margin)
		if err != nil || len(c.Quantities) != 2*n {
			t.Fatalf("%v, %d", err, len(c.Quantities))
		}
		return spent() - began
	}
	least := func(n int) time.Duration { return min(took(n), took(n), took(n)) }
	if ratio := least(16_000).Seconds() / least(2000).Seconds(); ratio > 24 {
		t.Errorf("eight times as many take %.1f times as long", ratio)
	}
}

// TestFewCausesOfAChangeAreTold, and little of each.
func TestFewCausesOfAChangeAreTold(t *testing.T) {
	before, after := Round{}, Round{Nodes: map[string]string{}}
	before.Looks.Before, after.Looks.Before = round.Look{}, round.Look{}
	for i := range 100 {
		name := fmt.Sprintf("n%03d", i)
		after.Nodes[name] = "m"
		before.Looks.Before[name] = map[string]string{"kernel": strings.Repeat("é", 500)}
		after.Looks.Before[name] = map[string]string{"kernel": strings.Repeat("è", 500)}
	}
	all := Causes(before, after, "")
	if len(all) != 21 || all[20] != "and 80 more" || len(all[0]) > 300 || !utf8.ValidString(all[0]) ||
		!strings.HasPrefix(all[19], "n019: kernel is è") {
		t.Errorf("%d: %q", len(all), all)
	}
}

// TestWhatNodesSaidIsKeptOfTheFirst: what a job writes says how many there are.
func TestWhatNodesSaidIsKeptOfTheFirst(t *testing.T) {
	o := Round{Looks: Looks{Before: round.Look{}, After: round.Look{"n000": {"stat": "9"}}}}
	for i := range 500 {
		said := map[string]string{}
		for k := range 128 {
			said[fmt.Sprint(k)] = strings.Repeat("<", 100) // as JSON, six bytes each
		}
		o.Looks.Before[fmt.Sprintf("n%03d", i)] = said
	}
	if err := o.Pack(); err != nil {
		t.Fatal(err)
	}
	var kept Looks
	if err := unpack(o.looks, &kept); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(kept)
	if n := len(kept.Before); err != nil || len(text) > mostLooks+1000 || n < 50 || n == 500 || kept.Before["n000"] == nil ||
		kept.Before[fmt.Sprintf("n%03d", n-1)] == nil || kept.After["n000"]["stat"] != "9" {
		t.Errorf("%v: %d bytes, of %d nodes", err, len(text), n)
	}
}
