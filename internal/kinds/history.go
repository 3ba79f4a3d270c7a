package kinds

import (
	"context"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
)

// Moment is how many there were of everything at one time.
type Moment struct {
	At time.Time `json:"-"`
	Counts
}

// Counts are the numbers of a moment.
type Counts struct {
	Phases map[core.Kind]map[core.Phase]int `json:"phases"`
	Jobs   Jobs                             `json:"jobs"`
	Due    int                              `json:"due,omitempty"` // rows whose work has not begun
	LagMS  int64                            `json:"lag_ms,omitempty"`
}

// kept is how long a moment is remembered.
const kept = 24 * time.Hour

// Note keeps how many there are now, once a minute, however often and by how many controllers it is called.
func Note(ctx context.Context, db *core.Store) error {
	var minute int64
	var noted bool
	var c Census
	err := db.View(ctx, func(tx *core.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		minute = now.Truncate(time.Minute).UnixMilli()
		err = tx.Row(ctx, `SELECT EXISTS (SELECT 1 FROM census WHERE at = $1)`, minute).Scan(&noted)
		if err == nil && !noted {
			c, err = Count(ctx, tx)
		}
		return err
	})
	if err != nil || noted {
		return err
	}
	counts := Counts{Phases: c.Phases, Jobs: c.Jobs}
	for _, q := range c.Queues {
		counts.Due += q.Due
		counts.LagMS = max(counts.LagMS, q.Lag.Milliseconds())
	}
	return db.Quietly(ctx, func(tx *core.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO census (at, counts) VALUES ($1, $2) ON CONFLICT (at) DO NOTHING`, minute, core.JSON(counts))
		return wrap.Errorf(err, "note how many there are")
	})
}

// forgetMoments drops those that are older than a day.
func forgetMoments(ctx context.Context, tx *core.Tx) error {
	_, err := tx.Exec(ctx, `DELETE FROM census WHERE at < now_ms() - $1`, kept.Milliseconds())
	return wrap.Errorf(err, "forget how many there were")
}

// Day lists the moments that are remembered, the oldest first: the last of each step of time, with the longest lag in it.
func Day(ctx context.Context, tx *core.Tx, step time.Duration) ([]Moment, error) {
	scan := func(r core.Scanner) (m Moment, err error) {
		err = r.Scan(core.Time(&m.At), core.JSON(&m.Counts))
		return m, wrap.Errorf(err, "how many there were at %s", m.At)
	}
	all, err := core.List(ctx, tx, scan, `SELECT at, counts FROM census WHERE at >= now_ms() - $1 ORDER BY at`, kept.Milliseconds())
	if err != nil {
		return nil, fmt.Errorf("list how many there were: %w", err)
	}
	var day []Moment
	for _, m := range all {
		if n := len(day); n > 0 && m.At.Truncate(step).Equal(day[n-1].At.Truncate(step)) {
			m.LagMS = max(m.LagMS, day[n-1].LagMS)
			day[n-1] = m
			continue
		}
		day = append(day, m)
	}
	return day, nil
}
