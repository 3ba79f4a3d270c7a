package rig

import (
	"path/filepath"

	"muster/internal/core"
	"muster/internal/inventory/shapes"
	"muster/internal/kinds/kindstest"
)

// Enrol writes machines like a DGX H100, dgx-1 and so on, into a database that no controller uses now.
func (r *Rig) Enrol(n int) {
	r.Helper()
	facts := shapes.Named("dgx-h100")
	db := kindstest.RawDatabase(r, filepath.Join(r.Data, "muster.db"))
	defer func() { _ = db.Close() }()
	_, err := db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
		INSERT INTO machine (id, name, substrate, facts, summary, desired, phase, phase_at, wake_at)
		SELECT 'm' || i, 'dgx-' || i, 'local', $2, $3, 'service', 'available', 0, 1 << 60 FROM n`, n,
		core.JSON(facts), core.JSON(facts.Summary()))
	if err != nil {
		r.Fatal(err)
	}
}
