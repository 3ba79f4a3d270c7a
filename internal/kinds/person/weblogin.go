package person

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kit/wrap"
)

// WebLogin lets a browser in to one app of one cluster, or to the console. It ends with the token that asked for it.
type WebLogin struct {
	Token   string // ID
	Cluster string // ID; "": the console
	App     string
	Browser string // of an app: hash of the console's cookie that it was asked for with; it ends with that. "": with a token
}

// mostBrowsers is how many web logins of one token last at a time, beside a new one. Those that would end first end then.
const mostBrowsers = 200

// AddWebLogin makes a login by the code with this hash, good for life.
func AddWebLogin(ctx context.Context, tx *core.Tx, hash string, l WebLogin, life time.Duration) error {
	if _, err := tx.Exec(ctx, `DELETE FROM web_login WHERE expires_at <= now_ms()`); err != nil {
		return fmt.Errorf("forget web logins: %w", err)
	}
	_, err := tx.Exec(ctx, `INSERT INTO web_login (hash, cookie, token, cluster_id, app, browser, expires_at) VALUES ($1, 0, $2,
		$3, $4, $5, now_ms() + $6)`, hash, l.Token, optional(l.Cluster), l.App, optional(l.Browser), life.Milliseconds())
	if err != nil {
		return fmt.Errorf("add a web login: %w", err)
	}
	n, err := tx.Exec(ctx, `DELETE FROM web_login WHERE token = $1 AND hash <> $2 AND hash NOT IN (SELECT hash FROM web_login
		WHERE token = $1 AND hash <> $2 ORDER BY expires_at DESC, hash LIMIT $3)`, l.Token, hash, mostBrowsers)
	if err != nil {
		return fmt.Errorf("end the oldest web logins: %w", err)
	}
	if n == 0 {
		return nil
	}
	return doorsChanged(ctx, tx)
}

// EndWebLogin ends the login by a cookie. One that has ended already changes nothing.
func EndWebLogin(ctx context.Context, tx *core.Tx, cookie string) error {
	login, err := tx.Exec(ctx, `DELETE FROM token WHERE `+bearerless+` AND id IN (
		SELECT token FROM web_login WHERE hash = $1 AND cookie = 1 AND cluster_id IS NULL)`, cookie)
	if err != nil {
		return fmt.Errorf("end a browser's login: %w", err)
	}
	n, err := tx.Exec(ctx, `DELETE FROM web_login WHERE hash = $1 AND cookie = 1`, cookie)
	if err != nil {
		return fmt.Errorf("end a web login: %w", err)
	}
	if login+n == 0 {
		return nil
	}
	return doorsChanged(ctx, tx)
}

// IsWebCode says that a code can be exchanged now.
func IsWebCode(ctx context.Context, tx *core.Tx, code string) (is bool, err error) {
	err = tx.Row(ctx, `SELECT EXISTS (SELECT 1 FROM web_login WHERE hash = $1 AND cookie = 0 AND expires_at > now_ms())`,
		code).Scan(&is)
	return is, wrap.Errorf(err, "look for a code")
}

// EndBrowsers ends the logins of all browsers in which somebody is signed in to the console.
func EndBrowsers(ctx context.Context, tx *core.Tx, person string) error {
	_, err := tx.Exec(ctx, `DELETE FROM token WHERE person = $1 AND `+bearerless, person)
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM web_login WHERE cluster_id IS NULL AND token IN (SELECT id FROM token WHERE person = $1)`,
			person)
	}
	if err != nil {
		return fmt.Errorf("end the browsers of %s: %w", person, err)
	}
	return doorsChanged(ctx, tx)
}

// UseWebCode exchanges a code for a cookie that is good for life, or until its token or its browser's login ends;
// core.ErrNotFound if the code was used or has ended.
func UseWebCode(ctx context.Context, tx *core.Tx, code, cookie string, life time.Duration) error {
	n, err := tx.Exec(ctx, `UPDATE web_login SET hash = $1, cookie = 1, expires_at = (SELECT MIN(ends) FROM (
			SELECT now_ms() + $2 AS ends
			UNION ALL SELECT t.expires_at FROM token t WHERE t.id = web_login.token
			UNION ALL SELECT b.expires_at FROM web_login b WHERE b.hash = web_login.browser) AS bounds)
		WHERE hash = $3 AND cookie = 0 AND expires_at > now_ms()`, cookie, life.Milliseconds(), code)
	if err == nil && n == 0 {
		err = core.ErrNotFound
	}
	return wrap.Errorf(err, "use a code")
}

// FindWebLogin is who a cookie belongs to, with what they may do, what it opens, and how long from now it is good;
// core.ErrNotFound if it has ended, or its token has.
func FindWebLogin(ctx context.Context, tx *core.Tx, cookie string) (c access.Caller, l WebLogin, left time.Duration, err error) {
	scan := func(r core.Scanner) (l WebLogin, err error) {
		var cluster sql.NullString
		err = r.Scan(&l.Token, &cluster, &l.App, core.Span(&left, time.Millisecond))
		l.Cluster = cluster.String
		return l, err
	}
	l, err = core.One(ctx, tx, scan,
		`SELECT token, cluster_id, app, expires_at - now_ms() FROM web_login WHERE hash = $1 AND cookie = 1 AND expires_at >
			now_ms()`, cookie)
	if err != nil {
		return c, l, 0, fmt.Errorf("find a web login: %w", err)
	}
	c, err = Login(ctx, tx, l.Token)
	return c, l, left, err
}
