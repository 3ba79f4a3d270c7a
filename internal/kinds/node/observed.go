package node

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/host"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// SaveReport writes what a node's agent said of itself. Reports of an older boot than the last are dropped.
func SaveReport(ctx context.Context, tx *core.Tx, node string, r protocol.Report) error {
	// A test's result is reported until the agent is told that it was heard; it is kept for as long as the boot lasts.
	well := Observed{Boot: r.Boot, Checks: r.Checks}.Healthy(r.Boot)
	_, err := tx.Exec(ctx, `INSERT INTO observed (node_id, boot, seen_at, revision, checks, facts, test, well_at, well_since,
			undone)
		VALUES ($1, $2, now_ms(), $3, $4, $5, $6, now_ms() * CAST($7 AS BIGINT), now_ms() * CAST($7 AS BIGINT), $9)
		ON CONFLICT (node_id) DO UPDATE SET boot = excluded.boot, seen_at = excluded.seen_at, revision = excluded.revision,
			checks = excluded.checks, facts = excluded.facts, undone = excluded.undone,
			test = CASE WHEN excluded.test = '' AND observed.boot = excluded.boot THEN observed.test ELSE excluded.test END,
			well_at = CASE WHEN excluded.well_at > 0 OR observed.boot < excluded.boot THEN excluded.well_at
			ELSE observed.well_at END,
			well_since = CASE WHEN excluded.well_since > 0 AND observed.well_since > 0 AND observed.boot = excluded.boot
				AND excluded.seen_at - observed.seen_at <= $8 THEN observed.well_since ELSE excluded.well_since END
		WHERE observed.boot <= excluded.boot`, node, r.Boot, r.Revision, core.JSON(r.Checks), core.JSON(r.Facts),
		core.JSON(r.Test), core.Flag(well), (2 * host.Deaf).Milliseconds(),
		core.JSON(append([]protocol.Undone{}, r.Undone...))) // a list, even of none
	return wrap.Errorf(err, "save report of node %s", node)
}

// Heard is when a boot of a node was heard last, and when it was last well; zero: it was not.
func Heard(ctx context.Context, tx *core.Tx, node string, boot int64) (seen, well time.Time, err error) {
	err = tx.Row(ctx, `SELECT seen_at, well_at FROM observed WHERE node_id = $1 AND boot = $2`, node, boot).
		Scan(core.Time(&seen), core.Time(&well))
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return seen, well, wrap.Errorf(err, "look when node %s was heard", node)
}

// SaveScheduler writes what the head's scheduler says of a node; nil when it does not know it. The node is idle from now on,
// or from before if it had no job in between.
func SaveScheduler(ctx context.Context, tx *core.Tx, node string, s *protocol.NodeState) error {
	lastBusy := ""
	if s != nil {
		lastBusy = s.LastBusy
	}
	_, err := tx.Exec(ctx, `INSERT INTO observed (node_id, boot, seen_at, revision, checks, scheduler, last_busy, idle_at)
		VALUES ($1, 0, 0, 0, '[]', $2, $3, now_ms() * CAST($4 AS BIGINT))
		ON CONFLICT (node_id) DO UPDATE SET scheduler = excluded.scheduler, last_busy = excluded.last_busy,
			idle_at = CASE WHEN excluded.idle_at > 0 AND observed.idle_at > 0 AND observed.last_busy = excluded.last_busy
				THEN observed.idle_at ELSE excluded.idle_at END`, node, core.JSON(s), lastBusy, core.Flag(s.Idle()))
	return wrap.Errorf(err, "save what the scheduler says of node %s", node)
}

// SaveWaiting writes which jobs a head sees waiting.
func SaveWaiting(ctx context.Context, tx *core.Tx, head string, w protocol.Waiting) error {
	_, err := tx.Exec(ctx, `UPDATE observed SET waiting = $1 WHERE node_id = $2`, core.JSON(w), head)
	return wrap.Errorf(err, "save the jobs that node %s sees waiting", head)
}

// Behind is a head that has not yet done all that it was told, or could not do it.
type Behind struct {
	Cluster string
	Tries   bool // it has not tried yet
	Undone  []protocol.Undone
}

// BehindFor are the heads of a person's clusters that are in service and have something to do for the person still; in one
// project, if it is named.
func BehindFor(ctx context.Context, tx *core.Tx, project, person string) ([]Behind, error) {
	scan := func(r core.Scanner) (b Behind, err error) {
		var undone string
		var want, has int64
		if err := r.Scan(&b.Cluster, &want, &has, &undone); err != nil {
			return b, err
		}
		b.Tries = has < want
		return b, json.Unmarshal([]byte(undone), &b.Undone)
	}
	all, err := core.List(ctx, tx, scan, `SELECT c.name, c.revision + n.news, o.revision, o.undone FROM node n
		JOIN cluster c ON c.id = n.cluster_id JOIN observed o ON o.node_id = n.id JOIN member m ON m.project = c.project
		WHERE n.role = 'head' AND n.phase = 'ready' AND m.person = $1 AND m.invited_by = ''
			AND ($2 = '' OR c.project = $2) AND (o.revision < c.revision + n.news OR o.undone <> '[]')
		ORDER BY c.name`, person, project)
	if err != nil {
		return nil, fmt.Errorf("heads that are behind for %s: %w", person, err)
	}
	for i := range all {
		all[i].Undone = slices.DeleteFunc(all[i].Undone, func(u protocol.Undone) bool { return u.User != person })
	}
	return slices.DeleteFunc(all, func(b Behind) bool { return !b.Tries && len(b.Undone) == 0 }), nil
}
