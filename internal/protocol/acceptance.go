package protocol

import "time"

// Test asks a node to measure itself. While its Config has one that is not brief, a compute node gets no jobs: until it has
// measured, and, where the test holds, until a Config without it has come.
type Test struct {
	Number int64 `json:"number"` // of this boot's tests; a higher one is to be done again
	Hold   bool  `json:"hold,omitempty"`
	// Brief asks for a few milliseconds of one CPU only, some seconds after the node's first use began: others run on the CPUs,
	// too.
	Brief bool `json:"brief,omitempty"`
	// Neighbours are the names of compute nodes to measure the network to, tried in this order until one answers.
	Neighbours []string `json:"neighbours,omitempty"`
}

// TestResult is what a node measured.
type TestResult struct {
	Number   int64         `json:"number"` // of the Test
	Took     time.Duration `json:"took"`
	Measures []Measure     `json:"measures" most:"64"`
}

// Quantity names what is measured. Its unit belongs to it.
type Quantity string

// The quantities.
const (
	MemoryBandwidth     Quantity = "memory"               // STREAM triad on all CPUs, GB/s (10^9)
	ComputeRate         Quantity = "compute"              // SHA-256 of 1 KiB on all CPUs, thousands a second
	HeadRoundTrip       Quantity = "head-round-trip"      // a low quantile, µs
	HeadThroughput      Quantity = "head-throughput"      // MB/s (10^6)
	NeighbourRoundTrip  Quantity = "neighbour-round-trip" // a low quantile, µs
	NeighbourThroughput Quantity = "neighbour-throughput" // MB/s (10^6)
)

// Quantities lists them.
func Quantities() []Quantity {
	return []Quantity{MemoryBandwidth, ComputeRate, HeadRoundTrip, HeadThroughput, NeighbourRoundTrip, NeighbourThroughput}
}

// Measure is one measured value.
type Measure struct {
	Quantity Quantity `json:"quantity"`
	Value    float64  `json:"value,omitempty"` // 0: not measured
	With     string   `json:"with,omitempty"`  // the node at the other end
	Why      string   `json:"why,omitempty"`   // why it is not measured
}
