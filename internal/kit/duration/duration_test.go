package duration

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestDurationsAreReadInEveryUnit(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "90s": 90 * time.Second, "2m": 2 * time.Minute, "12h": 12 * time.Hour, "30d": 30 * day, "2w": 14 * day,
		"1h30m": 90 * time.Minute, "1d12h": 36 * time.Hour, "1w1d1h1m1s": 8*day + time.Hour + time.Minute + time.Second,
		"1.5h": 90 * time.Minute, "0.5d": 12 * time.Hour, "500ms": 500 * time.Millisecond, "10m0s": 10 * time.Minute,
		"36525d": Longest,
	} {
		if got, err := Parse(text); got != want || err != nil {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}

func TestWhatIsNotADurationIsRefusedInOneWay(t *testing.T) {
	for _, text := range []string{"", "5", "h", "5 days", "-1h", "+1h", "1h ", "1y", "1.h", ".5h", "1e3s", "1H", "100µs",
		"36526d", "99999999w", "36525d1s",
		strings.Repeat("1s", 7)} {
		if _, err := Parse(text); err == nil || err.Error() != strconv.Quote(text)+" is not a duration: write "+Hint {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestADurationIsHeldToItsBounds(t *testing.T) {
	for text, want := range map[string]string{"1m": "", "1d": "", "59s": `"59s" is not from 1m to 1d: write ` + Hint,
		"25h": `"25h" is not from 1m to 1d: write ` + Hint} {
		_, err := Within(text, time.Minute, 24*time.Hour)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestADurationAboveZeroIsAskedFor(t *testing.T) {
	if _, err := Within("0", time.Millisecond, time.Hour); err == nil || err.Error() != `"0" is not from 1ms to 1h: write `+Hint {
		t.Error(err)
	}
}

func TestDurationsAreWrittenInTheLargestUnitThatTellsThem(t *testing.T) {
	for _, text := range []string{"0s", "10s", "90s", "2m", "3h", "36h", "14d"} {
		d, err := Parse(text)
		if got := Text(d); got != text || err != nil {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}

func FuzzDurations(f *testing.F) {
	for _, text := range []string{"0", "90s", "1h30m", "30d", "1.25w", "99999999d", "1ms"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse(text)
		if err != nil {
			return
		}
		if d < 0 || d > Longest {
			t.Fatalf("%q is %s", text, d)
		}
		if again, err := Parse(Text(d)); err != nil || again != d.Truncate(time.Second) {
			t.Fatalf("%q is %s, written %s, which is %s, %v", text, d, Text(d), again, err)
		}
		if known, err := time.ParseDuration(text); err == nil && known != d {
			t.Fatalf("%q is %s, and %s to Go", text, d, known)
		}
	})
}
