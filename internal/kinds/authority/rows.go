// Package authority keeps the keys that the site signs with, generation by generation, those of its gateways, and which
// generation each agent lives by.
//
// What enters: new keys from rotation, what agents live by from the monitor. What leaves: rows.
package authority

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
)

// Generation is one of the keys that the site signs with for a use.
type Generation struct {
	Use      string
	Number   int64
	Seed     core.Secret
	MadeAt   time.Time
	MadeBy   string
	Announce time.Duration // that it is told before it signs, at the least
	Keep     time.Duration // that the one before is kept when this one signs, at the least
	Deadline time.Duration // after which nothing is waited for
	SignsAt  time.Time     // zero: it does not sign yet
	Waits    string        // for whom the next step waits
}

func (g Generation) row() string { return g.Use + " " + strconv.FormatInt(g.Number, 10) }

// Generations lists all, the oldest of each use first, and the revision of the list.
func Generations(ctx context.Context, tx *core.Tx) (all []Generation, revision int64, err error) {
	if revision, err = GenerationsRevision(ctx, tx); err != nil {
		return nil, 0, err
	}
	scan := func(r core.Scanner) (g Generation, err error) {
		var seed string
		err = r.Scan(&g.Use, &g.Number, &seed, core.Time(&g.MadeAt), &g.MadeBy, core.Span(&g.Announce, time.Millisecond),
			core.Span(&g.Keep, time.Millisecond), core.Span(&g.Deadline, time.Millisecond), core.Time(&g.SignsAt), &g.Waits)
		g.Seed = core.Sealed(authoritySeed(), g.row(), seed)
		return g, err
	}
	all, err = core.List(ctx, tx, scan,
		`SELECT use, number, seed, made_at, made_by, announce, keep, deadline, signs_at, waits FROM authority ORDER BY
			use, number`)
	return all, revision, wrap.Errorf(err, "list the site's keys")
}

// GenerationsRevision grows whenever Generations lists something else.
func GenerationsRevision(ctx context.Context, tx *core.Tx) (revision int64, err error) {
	if err = tx.Row(ctx, `SELECT revision FROM authority_head`).Scan(&revision); err != nil {
		err = fmt.Errorf("look at the site's keys: %w", err)
	}
	return revision, err
}

// LockGenerations lets one transaction at a time change them, and tells everybody that they have changed.
func LockGenerations(ctx context.Context, tx *core.Tx) error {
	_, err := tx.Exec(ctx, `UPDATE authority_head SET revision = revision + 1`)
	return wrap.Errorf(err, "lock the site's keys")
}

// AddGeneration stores a new one; it signs at once, or when SignGeneration says so.
func AddGeneration(ctx context.Context, tx *core.Tx, g Generation, signs bool) error {
	seed, err := tx.Seal(ctx, authoritySeed(), g.row(), g.Seed)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO authority (use, number, seed, made_at, made_by, announce, keep, deadline) VALUES ($1,
		$2, $3, now_ms(), $4, $5, $6, $7)`,
		g.Use, g.Number, seed, g.MadeBy, g.Announce.Milliseconds(), g.Keep.Milliseconds(), g.Deadline.Milliseconds())
	if err != nil {
		return fmt.Errorf("add a key for %s: %w", g.Use, err)
	}
	if signs {
		return SignGeneration(ctx, tx, g)
	}
	return nil
}

// SignGeneration makes one sign from now on.
func SignGeneration(ctx context.Context, tx *core.Tx, g Generation) error {
	_, err := tx.Exec(ctx, `UPDATE authority SET signs_at = now_ms(), waits = '' WHERE use = $1 AND number = $2 AND
		signs_at IS NULL`, g.Use, g.Number)
	return wrap.Errorf(err, "sign with a new key for %s", g.Use)
}

// ForgetGenerations drops those of a use that are older than number.
func ForgetGenerations(ctx context.Context, tx *core.Tx, use string, number int64) error {
	_, err := tx.Exec(ctx, `DELETE FROM authority WHERE use = $1 AND number < $2`, use, number)
	return wrap.Errorf(err, "forget old keys for %s", use)
}

// SayWaits notes for whom a rotation waits.
func SayWaits(ctx context.Context, tx *core.Tx, g Generation, why string) error {
	_, err := tx.Exec(ctx, `UPDATE authority SET waits = $3 WHERE use = $1 AND number = $2`, g.Use, g.Number, why)
	return wrap.Errorf(err, "note for whom the keys for %s wait", g.Use)
}

// Trust is the generations that an agent lives by.
type Trust struct {
	Subject string // node, or machine that booted for its own sake
	Boot    int64
	Agents  int64
	Tokens  int64
	Hosts   int64
}

// SaveTrust notes what an agent lives by since its join.
func SaveTrust(ctx context.Context, tx *core.Tx, t Trust) error {
	_, err := tx.Exec(ctx, `INSERT INTO agent_trust (subject, boot, agents, tokens, hosts) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (subject) DO UPDATE SET boot = excluded.boot, agents = excluded.agents, tokens = excluded.tokens,
		hosts = excluded.hosts`,
		t.Subject, t.Boot, t.Agents, t.Tokens, t.Hosts)
	return wrap.Errorf(err, "note what agent %s lives by", t.Subject)
}

// RaiseTrust notes by which authority an agent talks now.
func RaiseTrust(ctx context.Context, tx *core.Tx, subject string, boot, agents int64) error {
	_, err := tx.Exec(ctx, `UPDATE agent_trust SET agents = $3 WHERE subject = $1 AND boot = $2 AND agents < $3`, subject, boot,
		agents)
	return wrap.Errorf(err, "note what agent %s lives by", subject)
}

// Dependent is an agent, or one that sleeps or boots, with what it lives by: zeros where that is not known.
type Dependent struct {
	Trust
	Name     string // for people
	Up       bool   // it is a node that is up
	Revision int64  // of what it has applied, less its own news
	Told     int64  // of what its cluster is told
}

// Dependents lists everybody who lives by the site's keys.
func Dependents(ctx context.Context, tx *core.Tx) ([]Dependent, error) {
	scan := core.Fields(func(d *Dependent) []any {
		return []any{&d.Subject, &d.Boot, &d.Name, &d.Up, &d.Revision, &d.Told, &d.Agents, &d.Tokens, &d.Hosts}
	})
	all, err := core.List(ctx, tx, scan, `SELECT n.id, n.boot, c.project || '/' || c.name || ' ' || n.name, CASE
		WHEN n.phase IN ('testing', 'ready', 'draining') THEN 1 ELSE 0 END,
			COALESCE(o.revision, 0) - n.news, c.revision, COALESCE(t.agents, 0), COALESCE(t.tokens, 0), COALESCE(t.hosts, 0)
		FROM node n JOIN cluster c ON c.id = n.cluster_id LEFT JOIN observed o ON o.node_id = n.id AND o.boot = n.boot
		LEFT JOIN agent_trust t ON t.subject = n.id AND t.boot = n.boot
		WHERE n.boot > 0 AND (n.phase IN ('booting', 'joining', 'testing', 'ready', 'draining') OR n.phase = 'pending'
		AND n.sleeps = 1)
		UNION ALL
		SELECT m.id, b.number, 'machine ' || m.name, 0, 0, 0, COALESCE(t.agents, 0), COALESCE(t.tokens, 0), COALESCE(t.hosts, 0)
		FROM boot b JOIN machine m ON m.id = b.machine_id LEFT JOIN agent_trust t ON t.subject = b.subject AND t.boot = b.number
		WHERE b.subject = m.id ORDER BY 3`)
	return all, wrap.Errorf(err, "list who lives by the site's keys")
}

// ForgetTrust drops what agents lived by whose boot is over.
func ForgetTrust(ctx context.Context, tx *core.Tx) error {
	_, err := tx.Exec(ctx, `DELETE FROM agent_trust WHERE NOT EXISTS (SELECT 1 FROM node n WHERE n.id = agent_trust.subject
		AND n.phase <> 'gone')
		AND NOT EXISTS (SELECT 1 FROM boot b WHERE b.subject = agent_trust.subject)`)
	return wrap.Errorf(err, "forget what agents lived by")
}
