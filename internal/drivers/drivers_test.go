package drivers_test

import (
	"testing"

	"muster/internal/drivers"
	"muster/internal/drivers/scheduler/schedulertest"
	"muster/internal/spec"
)

func TestEverySchedulerKeepsTheContract(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range drivers.Schedulers() {
		if seen[f.Name] {
			t.Errorf("two schedulers are named %s", f.Name)
		}
		seen[f.Name] = true
		t.Run(f.Name, func(t *testing.T) { schedulertest.Contract(t, f, nil) })
	}
	if first, found := drivers.Schedulers().Find(""); !found || first.Name != spec.SchedulerSlurm {
		t.Errorf("a cluster whose file names none has %s", first.Name)
	}
	if !seen[spec.SchedulerNone] {
		t.Error("a cluster cannot do without")
	}
}
