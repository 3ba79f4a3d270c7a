package spec

import (
	"testing"
	"time"
)

func TestADurationIsInWholeSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute, "36h": 36 * time.Hour,
		"14d": 14 * 24 * time.Hour, "2w": 14 * 24 * time.Hour,
		"": 0, "0s": 0, "500ms": 0, "1.5s": 0, "5 days": 0,
	} {
		if got := Duration(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
		if kinds["duration"].accepts(text) != (want > 0) || kinds["time"].accepts("+"+text) != (want > 0) {
			t.Errorf("%s: whether a file may have it is not whether it is a duration", text)
		}
	}
}

func TestALeaseBeginsWhenItSays(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for start, want := range map[string]time.Time{
		"": now, Now: now, "+90s": now.Add(90 * time.Second), "+2d": now.AddDate(0, 0, 2),
		"2027-03-01T08:00:00+01:00": time.Date(2027, 3, 1, 7, 0, 0, 0, time.UTC),
	} {
		if got := Begin(Lease{Start: start}, now); !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("%q: %s", start, got)
		}
	}
}
