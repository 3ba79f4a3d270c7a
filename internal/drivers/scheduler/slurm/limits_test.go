package slurm

import (
	"errors"
	"reflect"
	"testing"
)

func TestTimeLimitsAreRead(t *testing.T) {
	got, err := ParseTimeLimits("7|1-02:03:04\n8|UNLIMITED\n9|30:00\n10|1:00:00\n11|0:01\n12|NOT_SET\n")
	want := []TimeLimit{{7, 26*60 + 4}, {9, 30}, {10, 60}, {11, 1}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, text := range []string{"x|1:00", "7", "7|", "7|soon", "7|1:60", "7|25:00:00", "7|-1:00", "7|1-30:00:00", "7|0:00",
		"7|1:2:3:4", "7|99999999-1:00"} {
		if got, err := ParseTimeLimits(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func FuzzParseTimeLimits(f *testing.F) {
	f.Add("7|1-02:03:04\n8|UNLIMITED\n9|30:00\n")
	f.Add("12|NOT_SET")
	f.Fuzz(func(t *testing.T, text string) {
		limits, _ := ParseTimeLimits(text)
		for _, l := range limits {
			if l.Minutes <= 0 {
				t.Errorf("%+v", l)
			}
		}
	})
}

func TestTimeLimitsAreSet(t *testing.T) {
	over, broken := errors.New("Job/step already completing or completed for job 8"), errors.New("broken")
	c := Control{script{"scontrol update jobid=8 timelimit=UNLIMITED": over, "scontrol update jobid=7 timelimit=90": broken}.Run}
	for _, test := range []struct {
		job, minutes int
		want         error
	}{{7, 90, broken}, {7, 0, nil}, {8, 0, ErrUnknown}} {
		if err := c.SetTimeLimit(t.Context(), test.job, test.minutes); (err == nil) != (test.want == nil) ||
			test.want == ErrUnknown && !errors.Is(err, ErrUnknown) {
			t.Errorf("job %d, %d minutes: %v, want %v", test.job, test.minutes, err, test.want)
		}
	}
}
