package store

import (
	"context"
	"fmt"
	"time"
)

// GatewayKey is a host key of the SSH gateways.
type GatewayKey struct {
	Line    string // the public key, authorized_keys format
	Private Secret // PEM
	From    time.Time
}

// AddGatewayKey stores a key that is in use after a while.
func (tx *Tx) AddGatewayKey(ctx context.Context, k GatewayKey, after time.Duration) error {
	box, err := tx.seal(ctx, gatewayPrivate(), k.Line, k.Private)
	if err != nil {
		return err
	}
	_, err = tx.exec(ctx, `INSERT INTO gateway_key (line, private, from_at) VALUES ($1, $2, now_ms() + $3)`, k.Line, box, after.Milliseconds())
	if err != nil {
		return fmt.Errorf("add a gateway's key: %w", err)
	}
	return nil
}

// GatewayKeys lists the key in use, first, and those that are to follow it.
func (tx *Tx) GatewayKeys(ctx context.Context) ([]GatewayKey, error) {
	scan := func(r scanner) (k GatewayKey, err error) {
		var from int64
		var box string
		err = r.Scan(&k.Line, &box, &from)
		k.From, k.Private = instant(from), sealed(gatewayPrivate(), k.Line, box)
		return k, err
	}
	keys, err := list(ctx, tx, scan, `SELECT line, private, from_at FROM gateway_key
		WHERE from_at >= (SELECT COALESCE(MAX(from_at), 0) FROM gateway_key WHERE from_at <= now_ms()) ORDER BY from_at, line`)
	if err != nil {
		return nil, fmt.Errorf("list the gateways' keys: %w", err)
	}
	return keys, nil
}

// ForgetGatewayKeys drops the keys that are no longer in use.
func (tx *Tx) ForgetGatewayKeys(ctx context.Context) error {
	_, err := tx.exec(ctx, `DELETE FROM gateway_key WHERE from_at < (SELECT COALESCE(MAX(from_at), 0) FROM gateway_key WHERE from_at <= now_ms())`)
	if err != nil {
		return fmt.Errorf("forget the gateways' old keys: %w", err)
	}
	return nil
}
