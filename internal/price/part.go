package price

import (
	"math"
	"time"
)

// Part is what a job's part of its nodes costs while it runs: the larger of its shares of their CPUs and GPUs. rows are those of
// its cluster, or more of them. Nodes whose CPUs are not known count as a whole. Of several currencies, that of the last row
// counts.
func Part(rows []Usage, r Run) Amount {
	units, size := map[Amount]int64{}, map[string]Terms{} // by rate; by node
	currency := ""
	for _, row := range rows {
		row, inside := row.Within(r.From, r.To)
		if !inside || row.Kind != Node || !r.Nodes[row.Node] {
			continue
		}
		size[row.Node] = row.Terms
		if row.Costs() {
			units[row.Rate] += row.Quantity * row.ms()
			currency = row.Rate.Currency
		}
	}
	sum := Sum{}
	for rate, of := range units {
		sum.Add(Amount{Micros: cost(Node, rate.Micros, of), Currency: rate.Currency})
	}
	price := sum.Of(currency)
	price.Micros = int64(math.Round(float64(price.Micros) * r.share(size)))
	return price
}

// Run is the time of a job on nodes, and what it had of them.
type Run struct {
	Nodes      map[string]bool // by name
	CPUs, GPUs int
	From, To   time.Time
}

// share is the part that it had, at most 1.
func (r Run) share(size map[string]Terms) float64 {
	cpus, gpus := 0, 0
	for _, t := range size {
		if t.CPUs == 0 {
			return 1
		}
		cpus, gpus = cpus+t.CPUs, gpus+t.GPUs
	}
	return min(1, max(float64(r.CPUs)/float64(max(cpus, 1)), float64(r.GPUs)/float64(max(gpus, 1))))
}
