package kindstest

import (
	"testing"

	"muster/internal/core"
	"muster/internal/core/telemetry"
)

// Cost is what was asked of a database.
type Cost struct {
	Reads, Writes int // transactions
	Rows          int // that were read
}

// Costs counts what is asked of a database from now on; call it before the first transaction that runs beside others. What it
// returns says how much that was since it was called last.
func Costs(t testing.TB, db *core.Store) func() Cost {
	if db.Telemetry == nil {
		db.Telemetry = telemetry.New("test")
	}
	var before Cost
	since := func() Cost {
		t.Helper()
		now := total(t, db.Telemetry)
		d := Cost{now.Reads - before.Reads, now.Writes - before.Writes, now.Rows - before.Rows}
		before = now
		return d
	}
	since()
	return since
}

func total(t testing.TB, of *telemetry.Telemetry) (c Cost) {
	t.Helper()
	families, err := of.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			switch {
			case family.GetName() == "muster_store_rows_total":
				c.Rows += int(m.GetCounter().GetValue())
			case family.GetName() != "muster_store_transaction_seconds":
			case m.GetLabel()[0].GetValue() == "read":
				c.Reads += int(m.GetHistogram().GetSampleCount())
			default:
				c.Writes += int(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return c
}
