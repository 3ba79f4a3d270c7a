package inventory

import (
	"strings"
	"testing"
)

func TestASiteSaysHowNodesAreTested(t *testing.T) {
	changed := func(change func(*Acceptance)) Acceptance {
		a := DefaultAcceptance()
		change(&a)
		return a
	}
	for text, want := range map[string]Acceptance{
		"":                              DefaultAcceptance(),
		"acceptance: {}":                DefaultAcceptance(),
		"acceptance: {test: on}":        DefaultAcceptance(),
		"acceptance: {test: off}":       changed(func(a *Acceptance) { a.On = false }),
		"acceptance: {judge: all}":      changed(func(a *Acceptance) { a.Judge = JudgeAll }),
		"acceptance: {judge: nothing}":  changed(func(a *Acceptance) { a.Judge = JudgeNothing }),
		"acceptance: {deviations: 2.5}": changed(func(a *Acceptance) { a.Deviations = 2.5 }),
		"acceptance: {passes: 3, slow_below: 90%, network_slow_below: '12.5 %'}": changed(func(a *Acceptance) {
			a.Passes, a.Share, a.NetworkShare = 3, 0.9, 0.125
		}),
	} {
		c, err := parseCatalogue([]byte(builtin + text))
		if err != nil || c.Acceptance != want {
			t.Errorf("%s: %+v, %v; want %+v", text, c.Acceptance, err, want)
		}
	}
}

func TestBadSettingsOfTestsSayWhatWouldWork(t *testing.T) {
	for text, want := range map[string]string{
		"test: perhaps":            "acceptance.test: \"perhaps\"; write on or off",
		"judge: local":             "acceptance.judge: \"local\"; write machines",
		"deviations: 0":            "acceptance.deviations: 0; write from 1 to 100",
		"deviations: .nan":         "acceptance.deviations: NaN; write from 1 to 100",
		"passes: 2":                "acceptance.passes: 2; write from 3 to 100",
		"passes: 101":              "acceptance.passes: 101; write from 3 to 100",
		"slow_below: 80":           "acceptance.slow_below: \"80\"; write a share of the median from 1% to 99%",
		"slow_below: NaN%":         "acceptance.slow_below: \"NaN%\"; write a share",
		"slow_below: 100%":         "acceptance.slow_below: \"100%\"; write a share",
		"network_slow_below: half": "acceptance.network_slow_below: \"half\"; write a share",
		"slow: 80%":                "unknown field \"slow\"",
	} {
		_, err := parseCatalogue([]byte(builtin + "acceptance: {" + text + "}"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

func TestOnlyWhoSharesNoCPUsIsJudgedUnlessTheSiteSaysSo(t *testing.T) {
	for _, c := range []struct {
		on             bool
		judge          Judged
		whole, sharing bool
	}{
		{true, JudgeMachines, true, false},
		{true, JudgeAll, true, true},
		{true, JudgeNothing, false, false},
		{false, JudgeAll, false, false},
	} {
		a := Acceptance{On: c.on, Judge: c.judge}
		if a.Judges(false) != c.whole || a.Judges(true) != c.sharing {
			t.Errorf("%+v judges whole machines: %v, those that share: %v", a, a.Judges(false), a.Judges(true))
		}
	}
}
