package cli

import (
	"strings"
	"testing"
	"time"

	apiv1 "muster/api/v1"
)

// TestRunsAreChosenByTheTimesBetweenThem as the thesis has them: two days, two hours and a week after the one before.
func TestRunsAreChosenByTheTimesBetweenThem(t *testing.T) {
	begin := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	run := func(id string, after time.Duration) apiv1.Benchmark {
		ended := begin.Add(after)
		return apiv1.Benchmark{ID: id, EndedAt: &ended}
	}
	const day = 24 * time.Hour
	brief := run("brief", -day)
	brief.Brief = true
	runs := []apiv1.Benchmark{run("late", 9*day+4*time.Hour), run("second", 2*day+time.Hour), run("tenth", 10*day), brief,
		{ID: "runs"}, run("first", 0), run("near", 2*day+2*time.Hour+50*time.Minute), run("between", day-time.Minute)}
	pauses, err := pausesIn("2d,2h,7d")
	if err != nil {
		t.Fatal(err)
	}
	chosen := func(runs []apiv1.Benchmark) string {
		var ids []string
		for _, one := range timesOf(runs, pauses) {
			ids = append(ids, one.run)
		}
		return strings.Join(ids, " ")
	}
	if got := chosen(runs); got != "first second near late" {
		t.Error(got)
	}
	some := []apiv1.Benchmark{run("first", 0), run("second", 2*day), run("fourth", 9*day)}
	if got := chosen(some); got != "first second  fourth" {
		t.Error(got)
	}
	if got := chosen(nil); got != "" {
		t.Error(got)
	}
	for _, wrong := range []string{"", "2d,", "soon", "-1h", strings.Repeat("1h,", 20) + "1h"} {
		if got, err := pausesIn(wrong); err == nil {
			t.Error(wrong, got)
		}
	}
}
