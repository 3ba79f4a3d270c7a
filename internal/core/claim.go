package core

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/internal/kit/lists"
	"muster/internal/kit/printable"
	"muster/internal/kit/wrap"
)

// Life is what every entity with a lifecycle has.
type Life struct {
	Phase    Phase
	Reason   string
	PhaseAt  time.Time
	Attempts int // failures in a row in this phase
	Fence    int64
}

const LifeColumns = `phase, reason, phase_at, attempts, fence`

func (l *Life) Fields() []any {
	return []any{&l.Phase, &l.Reason, Time(&l.PhaseAt), &l.Attempts, &l.Fence}
}

// Claim is the right of one controller to work on one row until its lease ends. The next claim of the row gets a
// higher fence, and commits made under the lower one are refused.
type Claim struct {
	Kind  Kind
	ID    string
	Owner string
	Fence int64
	wakes int64
}

// Claim takes up to n rows of one kind whose time has come and that no owner holds, for ttl.
func (s *Store) Claim(ctx context.Context, kind Kind, owner string, ttl time.Duration, n int) ([]Claim, error) {
	var claims []Claim
	scan := Fields(func(c *Claim) []any {
		c.Kind, c.Owner = kind, owner
		return []any{&c.ID, &c.Fence, &c.wakes}
	})
	err := s.Quietly(ctx, func(tx *Tx) (err error) {
		claims, err = List(ctx, tx, scan, `
			UPDATE `+string(kind)+` SET owner = $1, fence = fence + 1, lease_until = now_ms() + $2
			WHERE id IN (SELECT id FROM `+string(kind)+`
			             WHERE wake_at <= now_ms() AND lease_until < now_ms()
			             ORDER BY wake_at LIMIT $3 FOR UPDATE SKIP LOCKED)
			RETURNING id, fence, wakes`, owner, ttl.Milliseconds(), n)
		return err
	})
	return claims, wrap.Errorf(err, "claim %ss", kind)
}

// Due says which of these kinds have a row whose time has come and that no owner holds, and how long it is until the next one's
// has; a negative time: there is none. It is one cheap query without a write lock, since most looks find nothing.
func (s *Store) Due(ctx context.Context, of []Kind) (due []Kind, next time.Duration, err error) {
	next = -1
	if len(of) == 0 {
		return nil, next, nil
	}
	parts := lists.Map(of, func(kind Kind) string { return "(" + nextWake(kind) + ")" })
	var now int64
	wakes := make([]sql.NullInt64, len(of))
	into := []any{&now}
	for i := range wakes {
		into = append(into, &wakes[i])
	}
	err = s.View(ctx, func(tx *Tx) error {
		return tx.Row(ctx, `SELECT now_ms(), `+strings.Join(parts, ", ")).Scan(into...)
	})
	if err != nil {
		return nil, next, fmt.Errorf("look for work: %w", err)
	}
	for i, at := range wakes {
		switch left := at.Int64 - now; {
		case !at.Valid || left > never/4:
		case left <= 0:
			due = append(due, of[i])
		case next < 0 || left < next.Milliseconds():
			next = time.Duration(left) * time.Millisecond
		}
	}
	return due, next, nil
}

// nextWake selects when the next row of a kind is due that no owner holds.
func nextWake(kind Kind) string {
	return `SELECT wake_at FROM ` + string(kind) + ` WHERE lease_until < now_ms() ORDER BY wake_at LIMIT 1`
}

// inOrder lists the kinds that have a life as giveWakes goes through them: no two who lock rows of several kinds wait for each
// other.
func (s *Store) inOrder() []Definition {
	kinds := s.Living()
	slices.SortFunc(kinds, func(a, b Definition) int { return cmp.Compare(a.Kind, b.Kind) })
	return kinds
}

// Renew prolongs claims, of one owner, that are still held. It returns how many those are.
func (s *Store) Renew(ctx context.Context, owner string, held []Claim, ttl time.Duration) (int64, error) {
	ids := map[Kind][]string{}
	for _, c := range held {
		ids[c.Kind] = append(ids[c.Kind], c.ID)
	}
	var renewed int64
	err := s.Quietly(ctx, func(tx *Tx) error {
		renewed = 0
		for _, d := range s.inOrder() {
			if len(ids[d.Kind]) == 0 {
				continue
			}
			for n := len(ids[d.Kind]); n&(n-1) != 0; n++ { // few statements, which stay prepared
				ids[d.Kind] = append(ids[d.Kind], ids[d.Kind][0])
			}
			var which Where
			which.And("owner = $?", owner)
			which.Among("id", ids[d.Kind])
			set := fmt.Sprintf("UPDATE %s SET lease_until = now_ms() + %d", d.Kind, ttl.Milliseconds())
			n, err := tx.Exec(ctx, set+which.Text, which.Args...)
			if err != nil {
				return fmt.Errorf("renew leases of %ss: %w", d.Kind, err)
			}
			renewed += n
		}
		return nil
	})
	return renewed, err
}

// ReleaseLeases ends the claims of one owner, at its own end, so that others need not wait for the leases. Without an owner it
// ends all, which is only for the sole controller of a database, at its start: the process that held them is dead.
func (s *Store) ReleaseLeases(ctx context.Context, owner string) error {
	return s.Quietly(ctx, func(tx *Tx) error {
		for _, d := range s.inOrder() {
			_, err := tx.Exec(ctx, `UPDATE `+string(d.Kind)+
				` SET owner = '', lease_until = 0 WHERE owner <> '' AND ($1 = '' OR owner = $1)`, owner)
			if err != nil {
				return fmt.Errorf("end claims of %ss: %w", d.Kind, err)
			}
		}
		return nil
	})
}

// Settlement is what a handler's outcome changes in the row it holds.
type Settlement struct {
	Phase    Phase
	Reason   string
	Failures int           // failures in a row, this one included; 0 after any success
	After    time.Duration // until the handler wants to run again; less when the row was woken meanwhile
	Never    bool          // it waits to be woken
}

// never is a wake_at that does not come.
const never = int64(1) << 62

// Settle writes the settlement and lets go of the claim. ErrFenced if another controller has the row now: then nothing
// of the transaction may stand.
func (tx *Tx) Settle(ctx context.Context, c Claim, s Settlement) error {
	after := s.After.Milliseconds()
	if s.Never {
		after = never / 2
	}
	n, err := tx.Exec(ctx, `UPDATE `+string(c.Kind)+` SET
			phase_at = CASE WHEN phase = $1 THEN phase_at ELSE now_ms() END,
			phase = $1, reason = $2, attempts = $3,
			wake_at = CASE WHEN wakes = $4 THEN now_ms() + $5 ELSE now_ms() END,
			owner = '', lease_until = 0
		WHERE id = $6 AND owner = $7 AND fence = $8`,
		string(s.Phase), printable.Cut(s.Reason, MostText), s.Failures, c.wakes, after, c.ID, c.Owner, c.Fence)
	if err == nil && n == 0 {
		err = ErrFenced
	}
	if err != nil {
		return fmt.Errorf("settle %s %s: %w", c.Kind, c.ID, err)
	}
	return tx.settled(ctx, c.Kind, c.ID)
}

// Hold locks the claimed row for the rest of the transaction. ErrFenced if it is another's by now.
func (tx *Tx) Hold(ctx context.Context, c Claim) error {
	n, err := tx.Exec(ctx, `UPDATE `+string(c.Kind)+` SET fence = fence WHERE id = $1 AND owner = $2 AND fence = $3`, c.ID,
		c.Owner, c.Fence)
	if err == nil && n == 0 {
		err = ErrFenced
	}
	return wrap.Errorf(err, "hold %s %s", c.Kind, c.ID)
}

// Woken is written into an UPDATE that changes a row's intent: its handler runs soon, also when it is running now.
const Woken = `wake_at = now_ms(), wakes = wakes + 1`

// Wake makes a row's handler run soon after the commit. It is a hint: with PostgreSQL it is given in a transaction of its
// own, so that rows of two kinds are never locked together, and a crash in between loses it. Handlers that wait for others
// therefore also look again by themselves.
func (tx *Tx) Wake(kind Kind, id string) { tx.wakes = append(tx.wakes, wake{kind, id}) }

type wake struct {
	kind Kind
	id   string
}

// giveWakes runs after a commit; what it cannot give the sleepers' own timers make good.
func (s *Store) giveWakes(ctx context.Context, wakes []wake) error {
	if len(wakes) == 0 {
		return nil
	}
	return s.Quietly(ctx, func(tx *Tx) error { return tx.giveWakes(ctx, wakes) })
}

// giveWakes always goes through rows in the same order.
func (tx *Tx) giveWakes(ctx context.Context, wakes []wake) error {
	slices.SortFunc(wakes, func(a, b wake) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id)) })
	for _, w := range slices.Compact(wakes) {
		if _, err := tx.Exec(ctx, `UPDATE `+string(w.kind)+` SET `+Woken+` WHERE id = $1`, w.id); err != nil {
			return fmt.Errorf("wake %s %s: %w", w.kind, w.id, err)
		}
	}
	return nil
}

// Now is the database's clock.
func (tx *Tx) Now(ctx context.Context) (time.Time, error) {
	var ms int64
	if err := tx.Row(ctx, `SELECT now_ms()`).Scan(&ms); err != nil {
		return time.Time{}, err
	}
	return Instant(ms), nil
}

// Flag is the value of a column for a yes or no.
func Flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Instant is the time of a column; 0 is the zero time.
func Instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
