package person

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"muster/internal/core"
	"muster/internal/kit/pattern"
	"muster/internal/kit/wrap"
)

// Door is where somebody came in.
type Door string

// The doors.
const (
	APIDoor     Door = "api"
	ConsoleDoor Door = "console"
	SSHDoor     Door = "ssh"
	WebDoor     Door = "web" // of clusters' apps
)

// Entry of the audit log: who did what, or tried to. Nothing that passed through a door is in it.
type Entry struct {
	ID      string
	At      time.Time
	Person  string
	Token   string // ID of the token or login; "" for an SSH key
	Door    Door
	Action  string // an operation of the API, or what was done at the door
	Project string
	Object  string // what it was done to, as it was named
	Outcome string // an HTTP status, or how it ended
	Remote  string // address it came from
	Request string // X-Request-Id
}

// objectForm is what the names of the site's things look like: names, IDs, PROJECT/NAME, NAME@DIGEST, fingerprints.
var objectForm = pattern.New(`^[A-Za-z0-9(][A-Za-z0-9._:/+=,@() -]{0,159}$`)

// object is what a request was about, as it was named, where that looks like a name. What does not was made up by the caller, and
// is quoted and cut.
func object(named string) string {
	if named == "" || objectForm.MatchString(named) {
		return named
	}
	const most = 80
	if quoted := strconv.QuoteToASCII(named[:min(len(named), most)]); len(named) > most || len(quoted) > most {
		return quoted[:min(len(quoted)-1, most)] + "…"
	}
	return strconv.QuoteToASCII(named)
}

// Audit writes an entry; its time is given. What it was done to is quoted unless it looks like a name.
func Audit(ctx context.Context, tx *core.Tx, e Entry) error {
	e.Object = object(e.Object)
	_, err := tx.Exec(ctx, `INSERT INTO audit (id, at, person, token, door, action, project, object, outcome, remote, request)
		VALUES ($1, now_ms(), $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		e.ID, e.Person, e.Token, string(e.Door), e.Action, e.Project, e.Object, e.Outcome, e.Remote, e.Request)
	return wrap.Errorf(err, "write to the audit log")
}

// EntriesOf says which entries are meant. Empty fields mean any.
type EntriesOf struct {
	Person   string
	Projects []string  // nil: any, and those of none
	Own      string    // with Projects: also what this person did elsewhere
	Before   time.Time // older ones only
	BeforeID string    // with Before: those of that instant with a lower ID too
	Since    time.Time
	Until    time.Time // older ones only
	Action   string
	Object   string
	Show     Show
	Limit    int
}

// Show says which entries are of interest.
type Show string

// What may be of interest.
const (
	Everything Show = "all"
	Acts       Show = "acts" // without what only read and was allowed
	Refused    Show = "refused"
)

// shown: what is of interest → its condition. Operations that read are called so, and outcomes of the API are statuses of HTTP.
func shown(s Show) string {
	switch s {
	case Acts:
		return `NOT (outcome IN ('200', '304') AND (action LIKE 'get-%' OR action LIKE 'list-%'))`
	case Refused:
		return `(outcome LIKE '4__' OR outcome LIKE '5__')`
	}
	return ""
}

// Entries lists the audit log, newest first.
func Entries(ctx context.Context, tx *core.Tx, of EntriesOf) ([]Entry, error) {
	return newest(of.Projects, of.Own, of.Limit, func(only scope) ([]Entry, error) { return entries(ctx, tx, of, only) },
		func(a, b Entry) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID)) })
}

func entries(ctx context.Context, tx *core.Tx, of EntriesOf, only scope) ([]Entry, error) {
	scan := core.Fields(func(e *Entry) []any {
		return []any{&e.ID, core.Time(&e.At), &e.Person, &e.Token, &e.Door, &e.Action, &e.Project, &e.Object, &e.Outcome,
			&e.Remote, &e.Request}
	})
	var which core.Where
	which.When(of.Person != "", `person = $?`, of.Person)
	which.When(of.Action != "", `action = $?`, of.Action)
	which.When(of.Object != "", `object = $?`, of.Object)
	if condition := shown(of.Show); condition != "" {
		which.And(condition)
	}
	only.narrow(&which)
	which.When(!of.Until.IsZero(), `at < $?`, of.Until.UnixMilli())
	which.When(!of.Before.IsZero(), `(at < $? OR at = $? AND id < $?)`, of.Before.UnixMilli(), of.Before.UnixMilli(), of.BeforeID)
	which.When(!of.Since.IsZero(), `at >= $?`, of.Since.UnixMilli())
	which.Rest(` ORDER BY at DESC, id DESC LIMIT $?`, of.Limit)
	all, err := core.List(ctx, tx, scan,
		`SELECT id, at, person, token, door, action, project, object, outcome, remote, request FROM audit`+which.Text,
		which.Args...)
	return all, wrap.Errorf(err, "list the audit log")
}

// ForgetEntries drops the entries older than age.
func ForgetEntries(ctx context.Context, tx *core.Tx, age time.Duration) error {
	_, err := tx.Exec(ctx, `DELETE FROM audit WHERE at < now_ms() - $1`, age.Milliseconds())
	return wrap.Errorf(err, "forget the audit log")
}
