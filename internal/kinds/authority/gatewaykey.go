package authority

import (
	"context"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
)

// GatewayKey is a host key of the SSH gateways.
type GatewayKey struct {
	Line    string      // the public key, authorized_keys format
	Private core.Secret // PEM
	From    time.Time
}

// AddGatewayKey stores a key that is in use after a while.
func AddGatewayKey(ctx context.Context, tx *core.Tx, k GatewayKey, after time.Duration) error {
	box, err := tx.Seal(ctx, gatewayPrivate(), k.Line, k.Private)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO gateway_key (line, private, from_at) VALUES ($1, $2, now_ms() + $3)`, k.Line, box,
		after.Milliseconds())
	return wrap.Errorf(err, "add a gateway's key")
}

// GatewayKeys lists the key in use, first, and those that are to follow it.
func GatewayKeys(ctx context.Context, tx *core.Tx) ([]GatewayKey, error) {
	scan := func(r core.Scanner) (k GatewayKey, err error) {
		var box string
		err = r.Scan(&k.Line, &box, core.Time(&k.From))
		k.Private = core.Sealed(gatewayPrivate(), k.Line, box)
		return k, err
	}
	keys, err := core.List(ctx, tx, scan, `SELECT line, private, from_at FROM gateway_key
		WHERE from_at >= (SELECT COALESCE(MAX(from_at), 0) FROM gateway_key WHERE from_at <= now_ms()) ORDER BY from_at, line`)
	return keys, wrap.Errorf(err, "list the gateways' keys")
}

// ForgetGatewayKeys drops the keys that are no longer in use.
func ForgetGatewayKeys(ctx context.Context, tx *core.Tx) error {
	_, err := tx.Exec(ctx, `DELETE FROM gateway_key WHERE from_at < (SELECT COALESCE(MAX(from_at), 0) FROM gateway_key WHERE
		from_at <= now_ms())`)
	return wrap.Errorf(err, "forget the gateways' old keys")
}
