// Package meter keeps who used what from when to when, and on which terms: rows that lie side by side, from the first instant
// of a node's or a /home's life to its last.
//
// What enters: new rows, and the phases that they follow. What leaves: usage, and what was spent.
package meter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
	"muster/internal/price"
)

const columns = `u.subject, u.kind, u.project, u.cluster_id, u.cluster, u.node, u.queue, u.class, u.machine, u.state, u.quantity,
	u.rate, u.currency, u.charges, u.cores, u.cpus, u.gpus, u.began, COALESCE(u.ended, 0)`

func scan(r core.Scanner) (u price.Usage, err error) {
	err = r.Scan(&u.Subject, &u.Kind, &u.Project, &u.ClusterID, &u.Cluster, &u.Node, &u.Queue, &u.Class, &u.Machine, &u.State,
		&u.Quantity, &u.Rate.Micros, &u.Rate.Currency, core.JSON(&u.Charged), &u.Cores, &u.CPUs, &u.GPUs,
		core.Time(&u.From), core.Time(&u.To))
	return u, wrap.Errorf(err, "usage of %s", u.Subject)
}

// insert adds an open row; follows says that it begins where another ends.
func insert(ctx context.Context, tx *core.Tx, u price.Usage, follows bool) error {
	began := u.From.UnixMilli()
	var before any
	if follows {
		before = began
	}
	_, err := tx.Exec(ctx, `INSERT INTO usage (subject, kind, project, cluster_id, cluster, node, queue, class, machine, state,
		quantity,
			rate, currency, charges, charged, cores, cpus, gpus, follows, began)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)`,
		u.Subject, string(u.Kind), u.Project, u.ClusterID, u.Cluster, u.Node, u.Queue, u.Class, u.Machine, string(u.State),
		u.Quantity,
		u.Rate.Micros, u.Rate.Currency, core.JSON(append([]price.State{}, u.Charged...)), core.Flag(u.Costs()),
		u.Cores, u.CPUs, u.GPUs, before, began)
	return err
}

// cut ends the open row at an instant, at which the next begins; without a next (state "") the chain ends. A clock that
// was set back makes no time negative: then the row ends when it began, and as a row of no length it is not kept.
func cut(ctx context.Context, tx *core.Tx, open, next price.Usage, at time.Time) error {
	if !at.After(open.From) {
		at = open.From
	}
	next.From, next.To = at, time.Time{}
	var err error
	if at.Equal(open.From) {
		var follows int64
		err = tx.Row(ctx, `DELETE FROM usage WHERE subject = $1 AND ended IS NULL RETURNING COALESCE(follows, 0)`, open.Subject).
			Scan(&follows)
		if err == nil && next.State != "" {
			err = insert(ctx, tx, next, follows > 0)
		}
	} else {
		_, err = tx.Exec(ctx, `UPDATE usage SET ended = $2 WHERE subject = $1 AND ended IS NULL`, open.Subject, at.UnixMilli())
		if err == nil && next.State != "" {
			err = insert(ctx, tx, next, true)
		}
	}
	return wrap.Errorf(err, "meter %s", open.Subject)
}

// Begin opens the first row of a node that was just added, or of a new cluster's /home.
func Begin(ctx context.Context, tx *core.Tx, u price.Usage, table string) error {
	err := tx.Row(ctx, `SELECT created_at FROM `+table+` WHERE id = $1`, u.Subject).Scan(core.Time(&u.From))
	if err == nil && u.Kind == price.Node {
		err = tx.Row(ctx, `SELECT project, name FROM cluster WHERE id = $1`, u.ClusterID).Scan(&u.Project, &u.Cluster)
	}
	if err == nil {
		err = insert(ctx, tx, u, false)
	}
	return wrap.Errorf(err, "meter %s", u.Subject)
}

// Follow brings the rows of a node, or of a cluster's /home, in line with its phase: kind is its table e, phase the expression of
// its phase there, and state what that is to the meter, which is in another state now; "" ends the chain. It belongs into every
// transaction that writes a phase, after it, and takes the instant from the row: so the meter turns when the phase does.
func Follow(ctx context.Context, tx *core.Tx, kind core.Kind, phase string, state func(p core.Phase, now price.State) price.State,
	id string) error {
	type now struct {
		price.Usage
		phase core.Phase
		at    time.Time
	}
	scan := func(r core.Scanner) (n now, err error) {
		n.Usage, err = scan(also{r, []any{&n.phase, core.Time(&n.at)}})
		return n, err
	}
	open, err := core.One(ctx, tx, scan, `SELECT `+columns+`, `+phase+`, e.phase_at
		FROM usage u JOIN `+string(kind)+` e ON e.id = u.subject
		WHERE u.subject = $1 AND u.ended IS NULL`, id)
	if errors.Is(err, core.ErrNotFound) {
		return nil // gone
	}
	if err != nil {
		return fmt.Errorf("meter %s %s: %w", kind, id, err)
	}
	next := open.Usage
	if next.State = state(open.phase, open.State); next.State == open.State {
		return nil
	}
	return cut(ctx, tx, open.Usage, next, open.at)
}

// also scans further columns after those that a function knows of.
type also struct {
	core.Scanner
	more []any
}

func (a also) Scan(fields ...any) error { return a.Scanner.Scan(append(fields, a.more...)...) }

// Reprice gives a node, or a cluster's /home, other terms or another quantity from now on; what was, stays.
func Reprice(ctx context.Context, tx *core.Tx, subject string, terms price.Terms, quantity int64) error {
	for _, table := range []string{"node", "cluster"} { // the meter's lock is that of the row which it follows
		if _, err := tx.Exec(ctx, `UPDATE `+table+` SET fence = fence WHERE id = $1`, subject); err != nil {
			return fmt.Errorf("reprice %s: %w", subject, err)
		}
	}
	open, err := core.One(ctx, tx, scan, `SELECT `+columns+` FROM usage u WHERE u.subject = $1 AND u.ended IS NULL`, subject)
	if errors.Is(err, core.ErrNotFound) {
		return nil // gone meanwhile
	}
	if err != nil {
		return fmt.Errorf("reprice %s: %w", subject, err)
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	next := open
	next.Terms, next.Quantity = terms, quantity
	return cut(ctx, tx, open, next, now)
}

// Of says which usage is meant. Empty fields mean any.
type Of struct {
	Cluster  string    // ID
	Projects []string  // nil: any
	From, To time.Time // what overlaps the time between; zero: without limit
	Open     bool      // only what goes on
	Limit    int       // of rows; 0: all
}

// where is the condition on usage u.
func (o Of) where() core.Where {
	var which core.Where
	which.When(o.Cluster != "", `u.cluster_id = $?`, o.Cluster)
	which.Among("u.project", o.Projects)
	which.When(!o.From.IsZero(), `(u.ended IS NULL OR u.ended > $?)`, o.From.UnixMilli())
	which.When(!o.To.IsZero(), `u.began < $?`, o.To.UnixMilli())
	which.When(o.Open, `u.ended IS NULL`)
	return which
}

// Rows lists rows, each subject's in order.
func Rows(ctx context.Context, tx *core.Tx, of Of) ([]price.Usage, error) {
	var rows []price.Usage
	err := Each(ctx, tx, of, func(r price.Usage) error {
		rows = append(rows, r)
		return nil
	})
	return rows, err
}

// Each takes the rows that Rows lists one by one, until one is an error.
func Each(ctx context.Context, tx *core.Tx, of Of, take func(price.Usage) error) error {
	which := of.where()
	which.Rest(` ORDER BY u.cluster_id, u.subject, u.began`)
	if of.Limit > 0 {
		which.Rest(` LIMIT $?`, of.Limit)
	}
	err := core.Each(ctx, tx, scan, take, `SELECT `+columns+` FROM usage u`+which.Text, which.Args...)
	return wrap.Errorf(err, "list usage")
}

// Spending adds up what was charged from of.From until now.
func Spending(ctx context.Context, tx *core.Tx, of Of) (price.Spending, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	from := int64(0)
	if !of.From.IsZero() {
		from = of.From.UnixMilli()
	}
	scan := core.Fields(func(g *price.Group) []any {
		return []any{&g.Kind, &g.Rate.Micros, &g.Rate.Currency, &g.Units, &g.Running}
	})
	which := of.where()
	which.And(`u.charged = 1`)
	n := len(which.Args)
	query := fmt.Sprintf(`SELECT u.kind, u.rate, u.currency,
			CAST(SUM(u.quantity * (COALESCE(u.ended, CAST($%[1]d AS BIGINT)) - CASE WHEN u.began < CAST($%[2]d AS BIGINT)
			THEN CAST($%[2]d AS BIGINT) ELSE u.began END)) AS BIGINT),
			CAST(SUM(CASE WHEN u.ended IS NULL THEN u.quantity ELSE 0 END) AS BIGINT)
		FROM usage u%[3]s AND u.began <= $%[1]d GROUP BY u.kind, u.rate, u.currency`, n+1, n+2, which.Text)
	groups, err := core.List(ctx, tx, scan, query, append(which.Args, now.UnixMilli(), from)...)
	return groups, wrap.Errorf(err, "add up usage")
}

// Held is what a queue of a cluster holds of a project's quota, on its way in or out included.
type Held struct {
	Cluster string // ID
	Queue   string // "" for the head
	Nodes   int
	Staying int // nodes that are to stay
	Cores   int
	GPUs    int
}

// HeldBy lists what a project's clusters hold; nodes that sleep hold nothing.
func HeldBy(ctx context.Context, tx *core.Tx, project string) ([]Held, error) {
	scan := core.Fields(func(h *Held) []any { return []any{&h.Cluster, &h.Queue, &h.Nodes, &h.Staying, &h.Cores, &h.GPUs} })
	held, err := core.List(ctx, tx, scan, `SELECT u.cluster_id, u.queue, COUNT(*), CAST(SUM(CASE WHEN n.desired = 'present'
		THEN 1 ELSE 0 END) AS BIGINT),
			CAST(SUM(u.cores) AS BIGINT), CAST(SUM(u.gpus) AS BIGINT)
		FROM usage u JOIN node n ON n.id = u.subject WHERE u.project = $1 AND u.ended IS NULL AND u.state <> 'stored'
		GROUP BY u.cluster_id, u.queue ORDER BY u.cluster_id, u.queue`, project)
	return held, wrap.Errorf(err, "list what project %s holds", project)
}

// LockProject makes other requests of the project wait until the transaction ends, so that two cannot both take what one
// has left of its quota. A View takes no lock.
func LockProject(ctx context.Context, tx *core.Tx, project string) error {
	if tx.ReadOnly() {
		return nil
	}
	_, err := tx.Exec(ctx, `UPDATE project SET name = name WHERE name = $1`, project)
	return wrap.Errorf(err, "lock project %s", project)
}

// Tell notes that so many percent of a limit were told to users. It reports whether that is news: a raise is, once, and a
// fall, after which the next raise is news again, is not.
func Tell(ctx context.Context, tx *core.Tx, subject, what string, percent int) (bool, error) {
	if percent == 0 {
		_, err := tx.Exec(ctx, `DELETE FROM limit_notice WHERE subject = $1 AND what = $2`, subject, what)
		if err != nil {
			err = fmt.Errorf("forget what was told of %s: %w", subject, err)
		}
		return false, err
	}
	before, err := core.One(ctx, tx, core.Value[int], `SELECT percent FROM limit_notice WHERE subject = $1 AND what = $2`, subject, what)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return false, fmt.Errorf("look what was told of %s: %w", subject, err)
	}
	if before == percent {
		return false, nil
	}
	n, err := tx.Exec(ctx, `INSERT INTO limit_notice (subject, what, percent) VALUES ($1, $2, $3)
		ON CONFLICT (subject, what) DO UPDATE SET percent = excluded.percent
		WHERE limit_notice.percent <> excluded.percent`, subject, what, percent)
	return n == 1 && percent > before, wrap.Errorf(err, "note what was told of %s", subject)
}
