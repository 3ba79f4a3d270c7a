package price

import (
	"errors"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

func euros(micros int64) Amount { return Amount{Micros: micros, Currency: "EUR"} }

func TestCostsAreExactAndRoundedHalfUp(t *testing.T) {
	for _, c := range []struct {
		kind        Kind
		rate, units int64
		want        int64
	}{
		{Node, 1_250_000, hour, 1_250_000},
		{Node, 1, hour / 2, 1},   // half a millionth
		{Node, 1, hour/2 - 1, 0}, // less than half
		{Node, 3_600_000, 1, 1},  // a millisecond
		{Node, 0, hour, 0},       // free
		{Home, 20_000, 1024 * month, 20_000},
		{Home, 20_000, 512 * month, 10_000},
		{Node, 1e12, 1e18, 1<<63 - 1}, // more than there is
	} {
		if got := cost(c.kind, c.rate, c.units); got != c.want {
			t.Errorf("%s: %d units at %d cost %d, want %d", c.kind, c.units, c.rate, got, c.want)
		}
	}
	for range 10_000 {
		rate, units := rand.Int64N(1e9), rand.Int64N(1e14)
		exact := new(big.Int).Mul(big.NewInt(rate), big.NewInt(units))
		exact.Add(exact, big.NewInt(hour/2)).Div(exact, big.NewInt(hour))
		if got := cost(Node, rate, units); got != exact.Int64() {
			t.Fatalf("%d units at %d cost %d, want %d", units, rate, got, exact)
		}
	}
}

// row is a stretch of node n1, charged when ready.
func row(state State, from, to int, rate int64) Usage {
	r := Usage{Subject: "n1", Kind: Node, Project: "p", ClusterID: "c1", Cluster: "cfd", Node: "n1", Queue: "main", Class: "a",
		Machine: "m1", State: state,
		Quantity: 1, Terms: Terms{Rate: euros(rate), Charged: []State{Ready}}, From: at(from)}
	if to > 0 {
		r.To = at(to)
	}
	return r
}

func TestALineHoldsANodesLifeAtOnePrice(t *testing.T) {
	rows := []Usage{
		row(Preparing, 0, 1000, 3_600_000), row(Ready, 1000, 5000, 3_600_000), row(Ready, 5000, 7000, 7_200_000),
		row(Failed, 7000, 0, 7_200_000),
	}
	lines := linesOf(rows, at(0), at(9000), ByNode)
	if len(lines) != 2 || lines[0].Cost != euros(4000) || lines[1].Cost != euros(4000) ||
		lines[0].Time[Preparing] != time.Second || lines[1].Time[Failed] != 2*time.Second {
		t.Errorf("%+v", lines)
	}
	if total := Total(lines).String(); total != "0.008 EUR" {
		t.Error(total)
	}
	if lines := linesOf(rows, at(0), at(9000), ByRow); len(lines) != 4 {
		t.Errorf("%+v", lines)
	}
}

func TestAWindowCutsRowsAndWindowsSideBySideAddUp(t *testing.T) {
	rows := []Usage{row(Ready, 0, 4000, 1_000_000), row(Draining, 4000, 6000, 1_000_000), row(Ready, 6000, 0, 1_000_000)}
	var sum, whole time.Duration
	for _, l := range linesOf(rows, at(0), at(10_000), ByQueue) {
		whole += l.Charged
	}
	for _, w := range [][2]int{{0, 1234}, {1234, 5000}, {5000, 10_000}} {
		for _, l := range linesOf(rows, at(w[0]), at(w[1]), ByQueue) {
			sum += l.Charged
			if l.From.Before(at(w[0])) || l.To.After(at(w[1])) {
				t.Errorf("%v-%v is not in %v", l.From, l.To, w)
			}
		}
	}
	if whole != 8*time.Second || sum != whole {
		t.Errorf("%v in parts, %v as a whole", sum, whole)
	}
}

func TestLinesAreInTheOrderPeopleRead(t *testing.T) {
	node := func(id, name, queue string) Usage {
		r := row(Ready, 0, 1000, 1)
		r.Subject, r.Node, r.Queue = id, name, queue
		return r
	}
	home := Usage{Subject: "c1", Kind: Home, Project: "p", ClusterID: "c1", Cluster: "cfd", State: Stored, Quantity: 1024,
		From: at(0), Terms: Terms{Rate: euros(1e6), Charged: []State{Stored}}}
	var names []string
	for _, l := range linesOf([]Usage{home, node("b", "n10", "main"), node("c", "n2", "main"), node("d", "gpu1", "gpu"),
		node("a", "head", "")}, at(0), at(1000), ByNode) {
		names = append(names, l.Node)
	}
	if want := []string{"head", "gpu1", "n2", "n10", ""}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

func TestSpendingIsWhatTheLinesSay(t *testing.T) {
	s := Spending{{Kind: Node, Rate: euros(3_600_000), Units: 10_000, Running: 2},
		{Kind: Home, Rate: euros(730_000), Units: 1024 * hour, Running: 2048}}
	duration, running := s.NodeTime()
	if s.Cost().String() != "0.011 EUR" || s.PerHour().String() != "7.202 EUR" || duration != 10*time.Second || running != 2 {
		t.Error(s.Cost(), s.PerHour(), duration, running)
	}
}

func TestAMonthEndsWhereTheNextBegins(t *testing.T) {
	from, to := Month(time.Date(2026, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)))
	if from.Format(time.RFC3339) != "2027-01-01T00:00:00Z" || to.Format(time.RFC3339) != "2027-02-01T00:00:00Z" {
		t.Error(from, to)
	}
}

func linesOf(rows []Usage, from, to time.Time, by By) []Line {
	sheet := Sheet{From: from, To: to, By: by}
	for _, r := range rows {
		if err := sheet.Add(r); err != nil {
			panic(err)
		}
	}
	return sheet.Lines()
}

func TestAStatementHasABoundedNumberOfLines(t *testing.T) {
	sheet := Sheet{From: at(0), To: at(9_000_000), By: ByRow}
	var err error
	for i := 0; err == nil && i < 2*MostLines; i++ {
		err = sheet.Add(row(Ready, i, 8_000_000, 1))
	}
	if n := len(sheet.Lines()); !errors.Is(err, ErrManyLines) || n != MostLines {
		t.Errorf("%d lines, %v", n, err)
	}
}
