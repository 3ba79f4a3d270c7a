package spec

import (
	"testing"
	"time"
)

func TestDurationsAreWrittenInTheLargestUnitThatTellsThem(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10s": 10 * time.Second, "90s": 90 * time.Second, "2m": 2 * time.Minute, "3h": 3 * time.Hour, "36h": 36 * time.Hour, "14d": 14 * 24 * time.Hour,
	} {
		if got := Duration(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
		if got := DurationText(want); got != text {
			t.Errorf("%s: %s", want, got)
		}
		if !kinds["duration"].accepts(DurationText(want)) {
			t.Errorf("%s: not a duration of a file", DurationText(want))
		}
	}
	if Duration("2w") != 14*24*time.Hour || Duration("") != 0 {
		t.Error(Duration("2w"), Duration(""))
	}
}

func TestALeaseBeginsWhenItSays(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for start, want := range map[string]time.Time{
		"": now, Now: now, "+90s": now.Add(90 * time.Second), "+2d": now.AddDate(0, 0, 2), "2027-03-01T08:00:00+01:00": time.Date(2027, 3, 1, 7, 0, 0, 0, time.UTC),
	} {
		if got := (Lease{Start: start}).Begin(now); !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("%q: %s", start, got)
		}
	}
}
