package host

import (
	"context"
	"time"

	"muster/internal/core"
	"muster/internal/kit/lists"
	"muster/internal/kit/wrap"
)

// Acknowledgement says that a person knows of an alarm.
type Acknowledgement struct {
	Alarm  string // its ID
	Person string
	Note   string
	At     time.Time
	Seen   time.Time // what came later is not known to the person
	Until  time.Time
}

// Acknowledgements are those that have not ended, by the IDs of alarms.
func Acknowledgements(ctx context.Context, tx *core.Tx) (map[string]Acknowledgement, error) {
	scan := core.Fields(func(a *Acknowledgement) []any {
		return []any{&a.Alarm, &a.Person, &a.Note, core.Time(&a.At), core.Time(&a.Seen), core.Time(&a.Until)}
	})
	all, err := core.List(ctx, tx, scan,
		`SELECT alarm, person, note, at, seen_at, ends_at FROM acknowledgement WHERE ends_at > now_ms()`)
	known := lists.By(all, func(a Acknowledgement) string { return a.Alarm })
	return known, wrap.Errorf(err, "list acknowledgements")
}

// Acknowledge notes that a person knows of an alarm, in the place of what was said of it before.
func Acknowledge(ctx context.Context, tx *core.Tx, a Acknowledgement) error {
	_, err := tx.Exec(ctx, `INSERT INTO acknowledgement (alarm, person, note, at, seen_at, ends_at)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (alarm) DO UPDATE SET person = excluded.person, note = excluded.note, at = excluded.at,
			seen_at = excluded.seen_at, ends_at = excluded.ends_at`,
		a.Alarm, a.Person, a.Note, a.At.UnixMilli(), a.Seen.UnixMilli(), a.Until.UnixMilli())
	return wrap.Errorf(err, "acknowledge alarm %s", a.Alarm)
}

// TakeBack ends what was said of an alarm; false: nothing was.
func TakeBack(ctx context.Context, tx *core.Tx, alarm string) (bool, error) {
	n, err := tx.Exec(ctx, `DELETE FROM acknowledgement WHERE alarm = $1 AND ends_at > now_ms()`, alarm)
	return n > 0, wrap.Errorf(err, "take back that alarm %s is known", alarm)
}

// ForgetAcknowledgements drops those that have ended.
func ForgetAcknowledgements(ctx context.Context, tx *core.Tx) error {
	_, err := tx.Exec(ctx, `DELETE FROM acknowledgement WHERE ends_at <= now_ms()`)
	return wrap.Errorf(err, "forget acknowledgements")
}
