package inventory

import (
	"fmt"
	"strconv"
	"strings"
)

// Acceptance is how a site tests nodes before it hands them over. The zero value: not at all.
type Acceptance struct {
	On    bool
	Judge Judged
	// A node is slow when it is behind the median of its like by more than both of these say: by so many deviations, and
	// in CPUs or memory below Share of the median, in the network below NetworkShare.
	Deviations   float64
	Share        float64
	NetworkShare float64
	Passes       int // of its like, before anybody is judged
}

// Judged says which nodes may be refused for what they measure.
type Judged string

// Whom to judge.
const (
	JudgeMachines Judged = "machines" // whole machines without a hypervisor below: no other node can slow them down
	JudgeAll      Judged = "all"
	JudgeNothing  Judged = "nothing"
)

// Judges says whether nodes are judged; shared is for those that share their CPUs with others.
func (a Acceptance) Judges(shared bool) bool {
	return a.On && (a.Judge == JudgeAll || a.Judge == JudgeMachines && !shared)
}

// acceptanceFile is the part of site.yaml as it is written.
type acceptanceFile struct {
	Test         string   `yaml:"test"`
	Judge        string   `yaml:"judge"`
	Deviations   *float64 `yaml:"deviations"`
	Share        string   `yaml:"slow_below"`
	NetworkShare string   `yaml:"network_slow_below"`
	Passes       *int     `yaml:"passes"`
}

// DefaultAcceptance is that of a site that says nothing; see docs/decisions/failures.md.
func DefaultAcceptance() Acceptance {
	return Acceptance{On: true, Judge: JudgeMachines, Deviations: 4, Share: 0.8, NetworkShare: 0.5, Passes: 8}
}

// read fills in the defaults.
func (f acceptanceFile) read() (Acceptance, error) {
	a := DefaultAcceptance()
	switch f.Test {
	case "", "on", "true":
	case "off", "false":
		a.On = false
	default:
		return a, fmt.Errorf("acceptance.test: %q; write on or off", f.Test)
	}
	switch judge := Judged(f.Judge); judge {
	case "":
	case JudgeMachines, JudgeAll, JudgeNothing:
		a.Judge = judge
	default:
		return a, fmt.Errorf("acceptance.judge: %q; write machines (those that share no CPUs), all or nothing", f.Judge)
	}
	if f.Deviations != nil {
		if a.Deviations = *f.Deviations; !(a.Deviations >= 1 && a.Deviations <= 100) { // so that NaN is none, either
			return a, fmt.Errorf("acceptance.deviations: %g; write from 1 to 100, for example 4", a.Deviations)
		}
	}
	if f.Passes != nil {
		const least, most = 3, 100 // below, a median says nothing; above, passes are not remembered
		if a.Passes = *f.Passes; a.Passes < least || a.Passes > most {
			return a, fmt.Errorf("acceptance.passes: %d; write from %d to %d, for example 8", a.Passes, least, most)
		}
	}
	for _, share := range []struct {
		field, text string
		to          *float64
	}{{"slow_below", f.Share, &a.Share}, {"network_slow_below", f.NetworkShare, &a.NetworkShare}} {
		if share.text == "" {
			continue
		}
		percent, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(share.text, "%")), 64)
		if err != nil || !strings.HasSuffix(share.text, "%") || !(percent >= 1 && percent <= 99) {
			return a, fmt.Errorf("acceptance.%s: %q; write a share of the median from 1%% to 99%%, for example 80%%", share.field,
				share.text)
		}
		*share.to = percent / 100
	}
	return a, nil
}
