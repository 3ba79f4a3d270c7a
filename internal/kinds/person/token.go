package person

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"time"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kit/wrap"
)

// HashToken is how a token is stored: its SHA-256, hex. Tokens are random and long, so no salt is needed.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Bearerless stands in place of a hash for a token that no text belongs to: a browser has logged in by it, and it ends with that
// browser's cookie.
func Bearerless() string { return "browser " + rand.Text() }

// bearerless is the condition that a token is such a one.
const bearerless = `hash LIKE 'browser %'`

// TokenKind is how a token came to be.
type TokenKind string

// The kinds.
const (
	LocalToken TokenKind = "local" // lies in the data directory; never expires
	APIToken   TokenKind = "api"   // made by its person
	LoginToken TokenKind = "login" // of an OIDC login
)

// Token lets its bearer act as a person. The token itself is never stored.
type Token struct {
	ID        string
	Person    string
	Name      string // what it is for
	Kind      TokenKind
	Scope     access.Scope
	Project   string // the only one that it is for; "": all
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	UsedAt    time.Time // to the minute; zero: never
}

// AddToken makes the token with this hash, good for life, but not beyond ExpiresAt if that is set; local ones
// never end. A hash that is there already changes nothing.
func AddToken(ctx context.Context, tx *core.Tx, hash string, t Token, life time.Duration) error {
	var ms sql.NullInt64
	if t.Kind != LocalToken {
		ms = sql.NullInt64{Int64: life.Milliseconds(), Valid: true}
	}
	limit := sql.NullInt64{Int64: t.ExpiresAt.UnixMilli(), Valid: !t.ExpiresAt.IsZero()}
	_, err := tx.Exec(ctx, `INSERT INTO token (id, hash, person, name, kind, scope, project, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, now_ms(),
			CASE WHEN CAST($9 AS BIGINT) < now_ms() + CAST($8 AS BIGINT) THEN CAST($9 AS BIGINT)
			ELSE now_ms() + CAST($8 AS BIGINT) END)
		ON CONFLICT (hash) DO NOTHING`,
		t.ID, hash, t.Person, t.Name, string(t.Kind), string(t.Scope), optional(t.Project), ms, limit)
	return wrap.Errorf(err, "add token")
}

const tokenColumns = `t.id, t.person, t.name, t.kind, t.scope, t.project, t.created_at, t.expires_at, t.used_at`

func scanToken(r core.Scanner) (t Token, err error) {
	var project sql.NullString
	err = r.Scan(&t.ID, &t.Person, &t.Name, &t.Kind, &t.Scope, &project, core.Time(&t.CreatedAt), core.Time(&t.ExpiresAt),
		core.Time(&t.UsedAt))
	t.Project = project.String
	return t, err
}

// Tokens lists a person's tokens that have not ended, oldest first.
func Tokens(ctx context.Context, tx *core.Tx, person string) ([]Token, error) {
	tokens, err := core.List(ctx, tx, scanToken, `SELECT `+tokenColumns+` FROM token t
		WHERE t.person = $1 AND (t.expires_at IS NULL OR t.expires_at > now_ms()) ORDER BY t.created_at, t.id`, person)
	return tokens, wrap.Errorf(err, "list tokens")
}

// RemoveToken revokes a person's token; core.ErrNotFound if they have none of that ID. The local one is not revoked by name.
func RemoveToken(ctx context.Context, tx *core.Tx, person, id string) error {
	n, err := tx.Exec(ctx, `DELETE FROM token WHERE person = $1 AND id = $2 AND kind <> 'local'`, person, id)
	if err == nil && n == 0 {
		err = core.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("revoke token %s: %w", id, err)
	}
	return personChanged(ctx, tx, person)
}

// EndLogins ends the oldest logins of a person who has more than so many.
func EndLogins(ctx context.Context, tx *core.Tx, person string, most int) error {
	n, err := tx.Exec(ctx, `DELETE FROM token WHERE id IN (
		SELECT id FROM (SELECT id, row_number() OVER (ORDER BY created_at DESC, id DESC) AS place FROM token
			WHERE person = $1 AND kind = 'login' AND expires_at > now_ms()) AS logins
		WHERE place > $2)`, person, most)
	if err != nil {
		return fmt.Errorf("end old logins of %s: %w", person, err)
	}
	if n == 0 {
		return nil
	}
	return personChanged(ctx, tx, person)
}

// TouchToken notes that a token was used, once a minute at most.
func TouchToken(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE token SET used_at = now_ms() WHERE id = $1 AND used_at < now_ms() - 60000`, id)
	return wrap.Errorf(err, "note the use of token %s", id)
}

// ForgetTokens drops the tokens that ended longer ago than age.
func ForgetTokens(ctx context.Context, tx *core.Tx, age time.Duration) error {
	_, err := tx.Exec(ctx, `DELETE FROM token WHERE expires_at < now_ms() - $1`, age.Milliseconds())
	return wrap.Errorf(err, "forget tokens")
}

// Bearer is who the bearer of a token is, and what they may; core.ErrNotFound if the token is unknown, has ended, or its
// person is disabled.
func Bearer(ctx context.Context, tx *core.Tx, hash string) (access.Caller, error) {
	return holder(ctx, tx, `t.hash = $1`, hash)
}

// Login is Bearer for the ID of a token, for those who hold what was signed at a login.
func Login(ctx context.Context, tx *core.Tx, id string) (access.Caller, error) {
	return holder(ctx, tx, `t.id = $1`, id)
}

func holder(ctx context.Context, tx *core.Tx, condition, value string) (access.Caller, error) {
	t, err := core.One(ctx, tx, scanToken, `SELECT `+tokenColumns+` FROM token t WHERE `+condition+
		` AND (t.expires_at IS NULL OR t.expires_at > now_ms())`, value)
	if err != nil {
		return access.Caller{}, fmt.Errorf("find a token: %w", err)
	}
	c, err := CallerOf(ctx, tx, t.Person)
	c.Token, c.Scope, c.Project, c.Until = t.ID, t.Scope, t.Project, t.ExpiresAt
	return c, err
}

// CallerOf is a person with their roles, with no token's limits; core.ErrNotFound if there is no person of that name, or they are
// disabled.
func CallerOf(ctx context.Context, tx *core.Tx, person string) (access.Caller, error) {
	p, err := Get(ctx, tx, person)
	if err == nil && p.Disabled {
		err = fmt.Errorf("person %s is disabled: %w", person, core.ErrNotFound)
	}
	if err != nil {
		return access.Caller{}, err
	}
	c := access.Caller{Name: p.Name, Operator: p.Operator, Scope: access.Whole, Roles: map[string]access.Role{}}
	members, err := Memberships(ctx, tx, "", person)
	for _, m := range members {
		c.Roles[m.Project] = m.Role
	}
	return c, err
}

// Key is an SSH public key of a person.
type Key struct {
	Person      string
	Fingerprint string // SHA256:…
	Line        string // authorized_keys format
	CreatedAt   time.Time
}

// AddKey registers a key whose private half the person has proved to have; core.ErrExists if somebody has it already.
func AddKey(ctx context.Context, tx *core.Tx, k Key) error {
	_, err := tx.Exec(ctx, `INSERT INTO user_key (person, fingerprint, line, created_at) VALUES ($1, $2, $3, now_ms())`,
		k.Person, k.Fingerprint, k.Line)
	if core.Taken(err) {
		return fmt.Errorf("key %s: %w", k.Fingerprint, core.ErrExists)
	}
	if err != nil {
		return fmt.Errorf("add key: %w", err)
	}
	return personChanged(ctx, tx, k.Person)
}

// RemoveKey forgets a key; core.ErrNotFound if the person has none of that fingerprint.
func RemoveKey(ctx context.Context, tx *core.Tx, person, fingerprint string) error {
	n, err := tx.Exec(ctx, `DELETE FROM user_key WHERE person = $1 AND fingerprint = $2`, person, fingerprint)
	if err == nil && n == 0 {
		err = core.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("remove key %s: %w", fingerprint, err)
	}
	return personChanged(ctx, tx, person)
}

func scanKey(r core.Scanner) (k Key, err error) {
	err = r.Scan(&k.Person, &k.Fingerprint, &k.Line, core.Time(&k.CreatedAt))
	return k, err
}

// Keys lists a person's keys, oldest first.
func Keys(ctx context.Context, tx *core.Tx, person string) ([]Key, error) {
	keys, err := core.List(ctx, tx, scanKey,
		`SELECT person, fingerprint, line, created_at FROM user_key WHERE person = $1 ORDER BY created_at, fingerprint`, person)
	return keys, wrap.Errorf(err, "list keys")
}

// KeyOf finds the key with a fingerprint, and so whose it is.
func KeyOf(ctx context.Context, tx *core.Tx, fingerprint string) (Key, error) {
	k, err := core.One(ctx, tx, scanKey, `SELECT person, fingerprint, line, created_at FROM user_key WHERE fingerprint = $1`,
		fingerprint)
	return k, wrap.Errorf(err, "key %s", fingerprint)
}
