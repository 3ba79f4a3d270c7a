package inventory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
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
	longest, err := parseSpan(w.Default)
	if w.Default != "" && err != nil {
		return l, fmt.Errorf("leases.default: %w", err)
	}
	if w.Max != "" {
		if l.Max, err = parseSpan(w.Max); err != nil || l.Max == 0 {
			return l, fmt.Errorf("leases.max: %q; write the longest time that a lease may run from now on, for example 30d", w.Max)
		}
		if longest > l.Max {
			return l, fmt.Errorf("leases.default: %s is longer than leases.max, which is %s", w.Default, w.Max)
		}
		if l.Default == "" { // nobody can have one without an end
			l.Default = w.Max
		}
	}
	if w.Warn == nil {
		w.Warn = []string{"24h", "1h", "10m"}
	}
	for i, text := range w.Warn {
		before, err := parseSpan(text)
		if err != nil || before == 0 {
			return l, fmt.Errorf("leases.warn[%d]: %q; write how long before the end to warn, for example 24h", i, text)
		}
		l.Warn = append(l.Warn, before)
	}
	slices.Sort(l.Warn)
	slices.Reverse(l.Warn)
	return l, nil
}

// parseSpan reads a time span as cluster files have it: a whole number and s, m, h, d or w.
func parseSpan(text string) (time.Duration, error) {
	units := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}
	number := strings.TrimRight(text, "smhdw")
	n, err := strconv.ParseUint(number, 10, 24)
	unit, known := units[strings.TrimPrefix(text, number)]
	if span := time.Duration(n) * unit; err == nil && known && span <= 10*366*24*time.Hour {
		return span, nil
	}
	return 0, fmt.Errorf("%q is no time span; write a whole number with s, m, h, d or w, at most ten years, for example 10m or 30d", text)
}

// metalLead is what a whole machine needs unless its class says otherwise: firmware may think for minutes.
const metalLead = 10 * time.Minute

// LeadOf is how long machines of a class need to become nodes, and as long again to be fit for the next ones. Parts of a
// controller's host need no time worth planning with.
func LeadOf(c Class, machines []Machine) time.Duration {
	if c.Lead != nil {
		return *c.Lead
	}
	for _, m := range machines {
		if m.Substrate == "metal" && c.Has(m) {
			return metalLead
		}
	}
	return 0
}
