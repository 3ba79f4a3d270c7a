package acceptance_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/inventory"
	"muster/internal/place/acceptance"
	"muster/internal/protocol"
)

func tests(q protocol.Quantity, values ...float64) []protocol.TestResult {
	var all []protocol.TestResult
	for _, v := range values {
		all = append(all, protocol.TestResult{Measures: []protocol.Measure{{Quantity: q, Value: v}}})
	}
	return all
}

func slow(q protocol.Quantity, mine, theirs []float64) string {
	return acceptance.Slow(acceptance.Judge(inventory.DefaultAcceptance(), tests(q, mine...), tests(q, theirs...)))
}

func TestWhoIsSlow(t *testing.T) {
	alike := []float64{11.1, 11.4, 11.3, 11.2, 11.3, 11.5, 11.2, 11.3}
	noisy := []float64{5, 17, 8, 14, 11, 6, 16, 11.3}
	for _, c := range []struct {
		name     string
		quantity protocol.Quantity
		mine     []float64
		theirs   []float64
		slow     bool
	}{
		{"half of the bandwidth", protocol.MemoryBandwidth, []float64{5.1}, alike, true},
		{"a tenth less is no reason", protocol.MemoryBandwidth, []float64{10.2}, alike, false},
		{"the best of three counts", protocol.MemoryBandwidth, []float64{5.1, 4.9, 11.0}, alike, false},
		{"slow three times", protocol.MemoryBandwidth, []float64{5.1, 4.9, 6}, alike, true},
		{"too few passes to judge by", protocol.MemoryBandwidth, []float64{5.1}, alike[:7], false},
		{"where all vary, nobody is far off", protocol.MemoryBandwidth, []float64{5.1}, noisy, false},
		{"what was not measured is not slow", protocol.MemoryBandwidth, []float64{0}, alike, false},
		{"passes without the quantity don't count", protocol.MemoryBandwidth, []float64{5.1},
			append([]float64{0, 0}, alike[:6]...), false},
		{"values that never vary", protocol.ComputeRate, []float64{700},
			[]float64{1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000}, true},
		{"a long round trip", protocol.HeadRoundTrip, []float64{90}, []float64{30, 31, 30, 29, 33, 30, 30, 31}, true},
		{"a round trip that is a little longer", protocol.HeadRoundTrip, []float64{55}, []float64{30, 31, 30, 29, 33, 30, 30, 31},
			false},
		{"a short round trip", protocol.HeadRoundTrip, []float64{1}, []float64{30, 31, 30, 29, 33, 30, 30, 31}, false},
		{"a link that is a tenth of the others", protocol.HeadThroughput, []float64{112},
			[]float64{1120, 1110, 1125, 1118, 1121, 1120, 1119, 900}, true},
		{"one that is a third less, as it met others", protocol.HeadThroughput, []float64{750},
			[]float64{1120, 1110, 1125, 1118, 1121, 1120, 1119, 900}, false},
	} {
		if got := slow(c.quantity, c.mine, c.theirs); (got != "") != c.slow {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestASlowNodeIsToldInAUsersWords(t *testing.T) {
	got := slow(protocol.MemoryBandwidth, []float64{5.12}, []float64{11.1, 11.4, 11.3, 11.2, 11.3, 11.5, 11.2, 11.3})
	if want := "memory bandwidth 5.12 GB/s; its class has 11.3 (median of 8 passes)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestASummaryLeavesOutWhatWasNotMeasured(t *testing.T) {
	test := protocol.TestResult{Measures: []protocol.Measure{
		{Quantity: protocol.HeadRoundTrip, Value: 0.5}, {Quantity: protocol.HeadThroughput, Why: "it was busy"},
		{Quantity: protocol.MemoryBandwidth, Value: 11.23},
	}}
	if got, want := acceptance.Summary(test), "memory bandwidth 11.2 GB/s, round trip to the head 0.500 µs"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// history is a class of machines that vary by a few per cent, with as many wild values as spoil says.
func history(t *rapid.T, spoil int) []float64 {
	middle := rapid.Float64Range(0.01, 1e6).Draw(t, "middle")
	var values []float64
	for range rapid.IntRange(8, 100).Draw(t, "passes") {
		values = append(values, middle*rapid.Float64Range(0.97, 1.03).Draw(t, "value"))
	}
	for range len(values) * spoil / 100 {
		values = append(values, middle*rapid.Float64Range(0.001, 1000).Draw(t, "wild"))
	}
	return values
}

func quantity(t *rapid.T) acceptance.Kind {
	return rapid.SampledFrom(acceptance.Kinds()).Draw(t, "quantity")
}

func TestANodeLikeTheOthersIsNeverSlow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind, theirs := quantity(t), history(t, 30)
		mine := theirs[0] // one of those that vary little
		if got := slow(kind.Quantity, []float64{mine}, theirs); got != "" {
			t.Fatal(got)
		}
	})
}

func TestANodeThatIsFarBehindIsSlowAlthoughSomeOfTheOthersWereWild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind, theirs := quantity(t), history(t, 20)
		mine := theirs[0] * 0.4
		if kind.Lower {
			mine = theirs[0] / 0.4
		}
		if slow(kind.Quantity, []float64{mine}, theirs) == "" {
			t.Fatalf("%v of %v is not slow", mine, theirs)
		}
	})
}

func TestToBeFasterNeverHarms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind, theirs := quantity(t), rapid.SliceOfN(rapid.Float64Range(0.001, 1e6), 0, 30).Draw(t, "others")
		mine, better := rapid.Float64Range(0.001, 1e6).Draw(t, "mine"), rapid.Float64Range(1, 100).Draw(t, "better")
		faster := mine * better
		if kind.Lower {
			faster = mine / better
		}
		if slow(kind.Quantity, []float64{faster}, theirs) != "" && slow(kind.Quantity, []float64{mine}, theirs) == "" {
			t.Fatalf("%v passes and %v does not, among %v", mine, faster, theirs)
		}
	})
}

func TestTheUnitDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind, theirs := quantity(t), history(t, 0)
		mine := theirs[0] * rapid.SampledFrom([]float64{0.1, 0.3, 0.6, 0.95, 1, 1.1, 1.8, 3, 10}).Draw(t, "mine")
		const thousand = 1024 // exact, so that no rounding decides
		var scaled []float64
		for _, v := range theirs {
			scaled = append(scaled, v*thousand)
		}
		if (slow(kind.Quantity, []float64{mine}, theirs) == "") != (slow(kind.Quantity, []float64{mine * thousand},
			scaled) == "") {
			t.Fatalf("%v among %v is judged by its unit", mine, theirs)
		}
	})
}

func TestNobodyIsJudgedByTooFewOrForNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind, theirs := quantity(t), rapid.SliceOfN(rapid.Float64Range(0.001, 1e6), 0, inventory.DefaultAcceptance().Passes-1).
			Draw(t, "others")
		if got := slow(kind.Quantity, []float64{rapid.Float64Range(0.0001, 1e9).Draw(t, "mine")}, theirs); got != "" {
			t.Fatal(got)
		}
	})
	if got := slow(protocol.ComputeRate, nil, []float64{1, 1, 1, 1, 1, 1, 1, 1, 1}); strings.Contains(got, "compute") {
		t.Error(got)
	}
}
