package person

import (
	"context"
	"fmt"
	"time"

	"muster/internal/access"
	"muster/internal/core"
)

// WebLogin lets a browser in to one app of one cluster. It ends with the token that asked for it.
type WebLogin struct {
	Token   string // ID
	Cluster string // ID
	App     string
}

// AddWebLogin makes a login by the code with this hash, good for life.
func AddWebLogin(ctx context.Context, tx *core.Tx, hash string, l WebLogin, life time.Duration) error {
	if _, err := tx.Exec(ctx, `DELETE FROM web_login WHERE expires_at <= now_ms()`); err != nil {
		return fmt.Errorf("forget web logins: %w", err)
	}
	_, err := tx.Exec(ctx, `INSERT INTO web_login (hash, cookie, token, cluster_id, app, expires_at) VALUES ($1, 0, $2, $3,
		$4, now_ms() + $5)`,
		hash, l.Token, l.Cluster, l.App, life.Milliseconds())
	if err != nil {
		return fmt.Errorf("add a web login: %w", err)
	}
	return nil
}

// IsWebCode says that a code can be exchanged now.
func IsWebCode(ctx context.Context, tx *core.Tx, code string) (is bool, err error) {
	if err := tx.Row(ctx, `SELECT EXISTS (SELECT 1 FROM web_login WHERE hash = $1 AND cookie = 0 AND expires_at > now_ms())`,
		code).Scan(&is); err != nil {
		return false, fmt.Errorf("look for a code: %w", err)
	}
	return is, nil
}

// UseWebCode exchanges a code for a cookie that is good for life, or until its token ends; core.ErrNotFound if the code was
// used or has ended.
func UseWebCode(ctx context.Context, tx *core.Tx, code, cookie string, life time.Duration) error {
	n, err := tx.Exec(ctx, `UPDATE web_login SET hash = $1, cookie = 1, expires_at = (SELECT CASE
		WHEN t.expires_at < now_ms() + $2 THEN t.expires_at ELSE now_ms() + $2 END
		FROM token t WHERE t.id = web_login.token) WHERE hash = $3 AND cookie = 0
		AND expires_at > now_ms()`, cookie, life.Milliseconds(), code)
	if err == nil && n == 0 {
		err = core.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("use a code: %w", err)
	}
	return nil
}

// FindWebLogin is who a cookie belongs to, with what they may do, what it opens, and how long from now it is good;
// core.ErrNotFound if it has ended, or its token has.
func FindWebLogin(ctx context.Context, tx *core.Tx, cookie string) (c access.Caller, l WebLogin, left time.Duration, err error) {
	var ms int64
	scan := func(r core.Scanner) (l WebLogin, err error) { return l, r.Scan(&l.Token, &l.Cluster, &l.App, &ms) }
	l, err = core.One(ctx, tx, scan,
		`SELECT token, cluster_id, app, expires_at - now_ms() FROM web_login WHERE hash = $1 AND cookie = 1 AND expires_at >
			now_ms()`, cookie)
	if err != nil {
		return c, l, 0, fmt.Errorf("find a web login: %w", err)
	}
	c, err = Login(ctx, tx, l.Token)
	return c, l, time.Duration(ms) * time.Millisecond, err
}
