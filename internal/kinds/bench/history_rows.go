package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
)

// How much of the past is looked at: points of a trend, and what a controller shows of trends at once.
const (
	mostPoints = 40
	mostTrends = 2000
)

// SavePoints notes what a run has measured, and forgets series that no run has measured any more.
func SavePoints(ctx context.Context, tx *core.Tx, r Run, at time.Time, all []Measured) error {
	kept := 0
	for _, m := range all {
		what, err := json.Marshal(m.What)
		if err != nil {
			return err
		}
		id := m.ID()
		if _, err := tx.Exec(ctx, `INSERT INTO benchmark_series (id, what) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`, id,
			string(what)); err != nil {
			return fmt.Errorf("note a series of run %s: %w", r.ID, err)
		}
		values := map[string]float64{"": m.Value}
		for name, value := range m.Machines {
			values[name] = value
		}
		kept += len(what) + len(values)*rowBytes
		for name, value := range values {
			if _, err := tx.Exec(ctx, `INSERT INTO benchmark_point (benchmark_id, series, machine, cluster_id, at, value)
				VALUES ($1, $2, $3, $4, $5, $6)`, r.ID, id, name, r.ClusterID, at.UnixMilli(), value); err != nil {
				return fmt.Errorf("note what run %s came to: %w", r.ID, err)
			}
		}
	}
	if _, err := tx.Exec(ctx, `UPDATE benchmark SET kept = kept + $2 WHERE id = $1`, r.ID, kept); err != nil {
		return fmt.Errorf("count what run %s keeps: %w", r.ID, err)
	}
	_, err := tx.Exec(ctx, `DELETE FROM benchmark_series WHERE NOT EXISTS
		(SELECT 1 FROM benchmark_point p WHERE p.series = benchmark_series.id)`)
	return wrap.Errorf(err, "forget series without runs")
}

// TrendsOf says which trends are meant: of a scope, or of a machine while it was of a cluster.
type TrendsOf struct {
	Scope
	Series   []string // IDs; nil: all
	Runs     []string // IDs of those whose points are meant; nil: all
	Class    string   // "": any
	Quantity string   // "": any
}

// History lists trends with the changes that were told of them, by their IDs: the first mostTrends.
func History(ctx context.Context, tx *core.Tx, of TrendsOf) ([]Trend, error) {
	var points, changes core.Where
	points.And(`p.machine = $?`, of.Machine)
	changes.And(`c.machine = $?`, of.Machine)
	if of.Cluster != "" {
		points.And(`p.cluster_id = $?`, of.Cluster)
	}
	changes.And(`c.cluster_id = $?`, of.Cluster) // of both, none: what was told of a machine may tell of other clusters on it
	if of.Series != nil {
		points.Among("p.series", of.Series)
		changes.Among("c.series", of.Series)
	}
	if of.Runs != nil {
		points.Among("p.benchmark_id", of.Runs)
	}
	changes.Rest(` ORDER BY c.at, c.id`)
	points.Rest(`) AS newest JOIN benchmark_series s ON s.id = newest.series WHERE place <= $?
		ORDER BY s.id, at, benchmark_id LIMIT $?`, mostPoints, mostPoints*mostTrends)
	type row struct {
		id, what string
		Point
	}
	rows, err := core.List(ctx, tx, core.Fields(func(o *row) []any {
		return []any{&o.id, &o.what, &o.Run, &o.Cluster, core.Time(&o.At), &o.Value}
	}), `SELECT s.id, s.what, benchmark_id, cluster_id, at, value FROM (SELECT p.*,
		row_number() OVER (PARTITION BY p.series ORDER BY p.at DESC, p.benchmark_id DESC) AS place
		FROM benchmark_point p`+points.Text, points.Args...)
	if err != nil {
		return nil, fmt.Errorf("history of benchmarks: %w", err)
	}
	found, err := changesOf(ctx, tx, changes)
	if err != nil {
		return nil, err
	}
	told := map[string][]Change{}
	for _, c := range found {
		told[c.What.ID()] = append(told[c.What.ID()], c)
	}
	var all []Trend
	last, meant := "", false
	for _, o := range rows {
		if o.id != last {
			if len(all) == mostTrends {
				break
			}
			t := Trend{Scope: of.Scope, Series: o.id}
			if err := json.Unmarshal([]byte(o.what), &t.What); err != nil {
				return nil, fmt.Errorf("series %s: %w", o.id, err)
			}
			last, meant = o.id, false
			if of.Class != "" && t.Class != of.Class || of.Quantity != "" && t.Quantity != of.Quantity {
				continue
			}
			t.Changes = told[o.id]
			all, meant = append(all, t), true
		}
		if meant {
			all[len(all)-1].Points = append(all[len(all)-1].Points, o.Point)
		}
	}
	return all, nil
}

const changeColumns = `SELECT c.id, s.what, c.cluster_id, c.machine, c.benchmark_id, b.project, b.cluster, c.at, c.was, c.became,
	c.causes, c.told_at, c.accepted FROM benchmark_change c JOIN benchmark_series s ON s.id = c.series JOIN benchmark b ON b.id = c.benchmark_id`

func scanChange(r core.Scanner) (c Change, err error) {
	err = r.Scan(&c.ID, core.JSON(&c.What), &c.Cluster, &c.Machine, &c.Run, &c.Project, &c.Name, core.Time(&c.At), &c.Was,
		&c.Became, core.JSON(&c.Causes), core.Time(&c.ToldAt), &c.Accepted)
	return c, wrap.Errorf(err, "change %s", c.ID)
}

// Changes lists those that were told, the newest first, at most so many: all of them, or those of some projects' clusters.
func Changes(ctx context.Context, tx *core.Tx, projects []string, most int) ([]Change, error) {
	var which core.Where
	if projects != nil {
		which.Among("b.project", projects)
		which.And(`c.cluster_id <> ''`)
	}
	which.Rest(` ORDER BY c.told_at DESC, c.id LIMIT $?`, most)
	return changesOf(ctx, tx, which)
}

func changesOf(ctx context.Context, tx *core.Tx, which core.Where) ([]Change, error) {
	changes, err := core.List(ctx, tx, scanChange, changeColumns+which.Text, which.Args...)
	return changes, wrap.Errorf(err, "list changes")
}

// AddChange notes a change that is told now.
func AddChange(ctx context.Context, tx *core.Tx, c Change) error {
	causes, err := json.Marshal(c.Causes)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO benchmark_change
		(id, series, cluster_id, machine, benchmark_id, at, was, became, causes, told_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, now_ms())`, c.ID, c.What.ID(), c.Cluster, c.Machine, c.Run, c.At.UnixMilli(),
		c.Was, c.Became, string(causes))
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE benchmark SET kept = kept + $2 WHERE id = $1`, c.Run, len(causes)+rowBytes)
	}
	return wrap.Errorf(err, "note that %s", c)
}

// GetChange reads a change. Its error is core.ErrNotFound if there is none.
func GetChange(ctx context.Context, tx *core.Tx, id string) (Change, error) {
	c, err := core.One(ctx, tx, scanChange, changeColumns+` WHERE c.id = $1`, id)
	return c, wrap.Errorf(err, "change %s", id)
}

// Accept notes that somebody has seen a change, and those of its scope that are older than it, and takes them as they are.
func Accept(ctx context.Context, tx *core.Tx, c Change, who string) error {
	_, err := tx.Exec(ctx, `UPDATE benchmark_change SET accepted = $4 WHERE cluster_id = $1 AND machine = $2 AND at <= $3
		AND accepted = ''`, c.Cluster, c.Machine, c.At.UnixMilli(), who)
	return wrap.Errorf(err, "accept change %s", c.ID)
}

// Standing lists changes for the worse that were not accepted and after which nothing else was told, of clusters and machines
// that there are, and of classes; with the name of a machine, only of that.
func Standing(ctx context.Context, tx *core.Tx, machine string) ([]Change, error) {
	var which core.Where
	which.When(machine != "", `c.machine = $?`, machine)
	which.And(`c.accepted = '' AND NOT EXISTS (SELECT 1 FROM benchmark_change l WHERE l.series = c.series
		AND l.cluster_id = c.cluster_id AND l.machine = c.machine AND l.at > c.at)`)
	which.And(`(c.cluster_id = '' OR EXISTS (SELECT 1 FROM cluster WHERE id = c.cluster_id AND phase <> 'deleted'))`)
	which.And(`(c.machine = '' OR EXISTS (SELECT 1 FROM machine WHERE name = c.machine))`)
	which.Rest(` ORDER BY c.at, c.id`)
	all, err := changesOf(ctx, tx, which)
	var worse []Change
	for _, c := range all {
		if c.Worse() {
			worse = append(worse, c)
		}
	}
	return worse, err
}
