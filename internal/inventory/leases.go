package inventory

import (
	"fmt"
	"slices"
	"time"

	"muster/internal/kit/duration"
)

// Leases are a site's rules for how long clusters may run.
type Leases struct {
	Default string          // of cluster files that say nothing, as they would write it; "" for leases without an end
	Max     time.Duration   // how far ahead an end may be; 0: without limit
	Warn    []time.Duration // before the end, the longest first
}

type leasesWritten struct {
	Default string   `yaml:"default"`
	Max     string   `yaml:"max"`
	Warn    []string `yaml:"warn"`
}

func (w leasesWritten) read() (Leases, error) {
	l := Leases{Default: w.Default}
	longest, err := duration.Parse(w.Default)
	if w.Default != "" && err != nil {
		return l, fmt.Errorf("leases.default: %w", err)
	}
	if w.Max != "" {
		if l.Max, err = duration.Within(w.Max, time.Second, duration.Longest); err != nil {
			return l, fmt.Errorf("leases.max, the longest time that a lease may run from now on: %w", err)
		}
		if longest > l.Max {
			return l, fmt.Errorf("leases.default: %s is longer than leases.max, which is %s", w.Default, w.Max)
		}
		if l.Default == "" { // no lease can be without an end
			l.Default = w.Max
		}
	}
	if w.Warn == nil {
		w.Warn = []string{"24h", "1h", "10m"}
	}
	for i, text := range w.Warn {
		before, err := duration.Within(text, time.Second, duration.Longest)
		if err != nil {
			return l, fmt.Errorf("leases.warn[%d], how long before the end to warn: %w", i, err)
		}
		l.Warn = append(l.Warn, before)
	}
	slices.Sort(l.Warn)
	slices.Reverse(l.Warn)
	return l, nil
}

// LeadOf is how long machines of a class need to become nodes, and as long again to be fit for the next ones: what the class
// says, or else the longest that one of them needs, which usual says.
func LeadOf(c Class, machines []Machine, usual func(Machine) time.Duration) time.Duration {
	if c.Lead != nil {
		return *c.Lead
	}
	var lead time.Duration
	for _, m := range machines {
		if c.Has(m) {
			lead = max(lead, usual(m))
		}
	}
	return lead
}
