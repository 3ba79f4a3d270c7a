package inventory

import "testing"

func TestNoTwoMachinesStandAtOnePlace(t *testing.T) {
	at := func(rack string, unit, height, slot int) Location { return Location{rack, unit, height, slot} }
	for _, c := range []struct {
		a, b Location
		both bool
	}{
		{at("r1", 1, 1, 0), at("r1", 2, 1, 0), true},
		{at("r1", 1, 1, 0), at("r2", 1, 1, 0), true},
		{at("r1", 1, 1, 0), at("r1", 1, 1, 0), false},
		{at("r1", 1, 2, 0), at("r1", 2, 1, 0), false},
		{at("r1", 1, 4, 0), at("r1", 2, 1, 0), false},
		{at("r1", 1, 2, 1), at("r1", 1, 2, 2), true},
		{at("r1", 1, 2, 1), at("r1", 2, 2, 1), false},
		{at("r1", 1, 2, 1), at("r1", 2, 1, 0), false},
		{Location{}, Location{}, true},
	} {
		if c.a.Overlaps(c.b) == c.both || c.b.Overlaps(c.a) == c.both {
			t.Errorf("%s and %s: %t", c.a, c.b, c.both)
		}
	}
	if at("r1", 90, 10, 0).Check() != nil || at("r1", 90, 11, 0).Check() == nil || (Location{}).Check() != nil {
		t.Error("the highest unit is 99")
	}
	for want, l := range map[string]Location{"no rack that is known": {}, "rack r1, unit 3": at("r1", 3, 1, 0),
		"rack r1, units 3 to 4, slot 2": at("r1", 3, 2, 2)} {
		if got := l.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
