package fabric

import (
	"context"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
	"muster/internal/place/topology"
)

// Cabling is how one fabric is cabled, by its last snapshot.
type Cabling struct {
	Fabric  string
	Graph   *topology.Graph
	TakenAt time.Time
}

// SetTopology keeps how a fabric is cabled, instead of what was known of it before. It may be called again.
func SetTopology(ctx context.Context, tx *core.Tx, fabric string, g *topology.Graph) error {
	_, err := tx.Exec(ctx, `INSERT INTO topology (fabric, graph, taken_at) VALUES ($1, $2, now_ms())
		ON CONFLICT (fabric) DO UPDATE SET graph = excluded.graph, taken_at = excluded.taken_at`, fabric, core.JSON(g))
	return wrap.Errorf(err, "keep the topology of fabric %s", fabric)
}

// DropTopology forgets how a fabric is cabled. It may be called again.
func DropTopology(ctx context.Context, tx *core.Tx, fabric string) error {
	_, err := tx.Exec(ctx, `DELETE FROM topology WHERE fabric = $1`, fabric)
	return wrap.Errorf(err, "forget the topology of fabric %s", fabric)
}

// Topology lists the cabling of all fabrics whose cabling is known, by name.
func Topology(ctx context.Context, tx *core.Tx) ([]Cabling, error) {
	scan := func(r core.Scanner) (Cabling, error) {
		c := Cabling{Graph: &topology.Graph{}}
		err := r.Scan(&c.Fabric, core.JSON(c.Graph), core.Time(&c.TakenAt))
		if err == nil {
			err = c.Graph.Check()
		}
		return c, wrap.Errorf(err, "fabric %s", c.Fabric)
	}
	all, err := core.List(ctx, tx, scan, `SELECT fabric, graph, taken_at FROM topology ORDER BY fabric`)
	return all, wrap.Errorf(err, "list topologies")
}
