package price

import (
	"testing"
	"time"
)

func TestAJobCostsItsPartOfItsNodes(t *testing.T) {
	hours := func(n float64) time.Time {
		return time.Unix(1_700_000_000, 0).Add(time.Duration(n * float64(time.Hour)))
	}
	row := func(node string, rate int64, cpus, gpus int, state State, from, to float64) Usage {
		return Usage{Kind: Node, Node: node, State: state, Quantity: 1, From: hours(from), To: hours(to),
			Terms: Terms{Rate: Amount{Micros: rate, Currency: "EUR"}, Charged: []State{Ready}, CPUs: cpus, GPUs: gpus}}
	}
	running := row("n3", 5_000_000, 8, 0, Ready, 0, 0)
	running.To = time.Time{}
	rows := []Usage{row("n1", 1_000_000, 8, 4, Preparing, 0, 1), row("n1", 1_000_000, 8, 4, Ready, 1, 2),
		row("n1", 3_000_000, 8, 4, Ready, 2, 9), row("n2", 1_000_000, 8, 4, Ready, 0, 9), running,
		row("old", 1_000_000, 0, 0, Ready, 0, 9), {Kind: Home, State: Stored, Quantity: 1, From: hours(0), To: hours(9)}}
	for _, c := range []struct {
		name       string
		nodes      []string
		cpus, gpus int
		from, to   float64
		want       int64
	}{
		{"a whole node for an hour", []string{"n2"}, 8, 0, 3, 4, 1_000_000},
		{"a quarter of it", []string{"n2"}, 2, 0, 3, 4, 250_000},
		{"its price is changed", []string{"n1"}, 4, 0, 1, 3, 2_000_000},
		{"what nobody pays for", []string{"n1"}, 8, 0, 0, 1, 0},
		{"two nodes", []string{"n1", "n2"}, 16, 0, 3, 4, 4_000_000},
		{"one CPU and two GPUs of four", []string{"n2"}, 1, 2, 3, 4, 500_000},
		{"a node that still runs", []string{"n3"}, 8, 0, 1, 1.5, 2_500_000},
		{"more than there is", []string{"n2"}, 800, 90, 3, 4, 1_000_000},
		{"nodes whose CPUs are not known", []string{"old"}, 1, 0, 3, 4, 1_000_000},
		{"nowhere", nil, 8, 0, 3, 4, 0},
		{"nodes of others", []string{"x"}, 8, 0, 3, 4, 0},
	} {
		run := Run{Nodes: map[string]bool{}, CPUs: c.cpus, GPUs: c.gpus, From: hours(c.from), To: hours(c.to)}
		for _, n := range c.nodes {
			run.Nodes[n] = true
		}
		if got := Part(rows, run); got.Micros != c.want || got.Micros > 0 && got.Currency != "EUR" {
			t.Errorf("%s: %v, want %d", c.name, got, c.want)
		}
	}
}
