package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/internal/core/sealing"
	"muster/internal/kit/wrap"
)

// SiteKey is a key that secrets in the database are sealed with, as the database knows it: by its name.
type SiteKey struct {
	ID     string
	Number int64 // grows with each
	Proof  string
	Since  time.Time
	Boxes  int // secrets that it has sealed; see SiteKeys
}

// proofPlace is what a key's proof is bound to, and says.
func proofPlace(id string) string { return "site_key.proof " + id }

// prove refuses a ring that cannot open what is in the database. It looks before anything in the database is changed, also by
// a migration, and does nothing where nothing was sealed yet.
func (s *Store) prove(ctx context.Context) error {
	query := `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'site_key'`
	if s.dialect == postgres {
		query = `SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'site_key'`
	}
	var tables int
	if err := s.write.QueryRowContext(ctx, query).Scan(&tables); err != nil {
		return fmt.Errorf("look for the site's key: %w", err)
	}
	if tables == 0 {
		return nil
	}
	return s.View(ctx, func(tx *Tx) error {
		_, err := tx.proven(ctx)
		return err
	})
}

// proven lists the keys of the database that the ring was found to have, the newest first.
func (tx *Tx) proven(ctx context.Context) ([]SiteKey, error) {
	scan := Fields(func(k *SiteKey) []any { return []any{&k.ID, &k.Number, &k.Proof, Time(&k.Since)} })
	known, err := List(ctx, tx, scan, `SELECT id, number, proof, since FROM site_key ORDER BY number DESC`)
	if err != nil {
		return nil, fmt.Errorf("list the site's keys: %w", err)
	}
	for _, k := range known {
		if _, err := tx.keys.Open(ctx, proofPlace(k.ID), k.Proof); errors.Is(err, sealing.ErrNoKey) {
			has := strings.Join(tx.keys.IDs(), ", ")
			if has = "has key " + has; len(tx.keys.IDs()) == 0 {
				has = "is not there, or has none"
			}
			return nil, fmt.Errorf("the secrets in the database are sealed with key %s; %s %s; put that key back, or name "+
				"where it is by --key-file or --key-command; nothing was changed",
				k.ID, tx.keys.Source(), has)
		} else if err != nil {
			return nil, fmt.Errorf("the database's proof of key %s does not open: %w", k.ID, err)
		}
	}
	return known, nil
}

// unlock sees to it that the database has a key, and that the newest has sealed all secrets. It may be interrupted and run again.
func (s *Store) unlock(ctx context.Context) error {
	err := s.Quietly(ctx, func(tx *Tx) error {
		if err := tx.LockSite(ctx); err != nil {
			return err
		}
		known, err := tx.proven(ctx)
		if err != nil || len(known) > 0 {
			return err
		}
		if len(s.keys.IDs()) == 0 {
			if err := s.keys.Create(ctx); err != nil {
				return fmt.Errorf("the site has no key yet: %w", err)
			}
		}
		return tx.addSiteKey(ctx, s.keys.IDs()[0])
	})
	if err != nil {
		return err
	}
	return s.Reseal(ctx)
}

// addSiteKey makes a key of the ring the one to seal with.
func (tx *Tx) addSiteKey(ctx context.Context, id string) error {
	proof, err := tx.keys.Seal(ctx, id, proofPlace(id), []byte(id))
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO site_key (id, number, proof, since) VALUES ($1, (SELECT COALESCE(MAX(number), 0) + 1
		FROM site_key), $2, now_ms())`, id, proof)
	return wrap.Errorf(err, "add the site's key %s", id)
}

// ErrSameKey is returned by Rekey where the source has no new key.
var ErrSameKey = errors.New("there is no new key")

// Rekey makes a new key the one to seal with. In the controller's own file it makes that itself; from another source it
// takes the first, which must be new: ErrSameKey. Reseal does the rest.
func (s *Store) Rekey(ctx context.Context) error {
	if s.keys == nil {
		return errors.New("the database was opened without the site's key")
	}
	return s.Update(ctx, func(tx *Tx) error {
		if err := tx.LockSite(ctx); err != nil {
			return err
		}
		if err := s.keys.Load(ctx); err != nil {
			return err
		}
		known, err := tx.proven(ctx)
		if err != nil {
			return err
		}
		isNew := func() bool {
			return !slices.ContainsFunc(known, func(k SiteKey) bool { return k.ID == s.keys.IDs()[0] })
		}
		if !isNew() && s.keys.Own() { // one that is new was made by a try that did not come to its end
			if err := s.keys.Add(ctx); err != nil {
				return err
			}
		}
		if !isNew() {
			return fmt.Errorf("%w: the first of %s is %s, which seals already", ErrSameKey, s.keys.Source(), s.keys.IDs()[0])
		}
		tx.Log(Event{Type: "secrets.rekeyed", Text: "secrets in the database are sealed again, with key " + s.keys.IDs()[0]})
		return tx.addSiteKey(ctx, s.keys.IDs()[0])
	})
}

// SiteKeys lists the keys, the newest first, with how many secrets each has sealed.
func (tx *Tx) SiteKeys(ctx context.Context) ([]SiteKey, error) {
	known, err := tx.proven(ctx)
	if err != nil {
		return nil, err
	}
	for i, k := range known {
		for _, c := range tx.of.sealedColumns() {
			var n int
			if err := tx.Row(ctx, `SELECT count(*) FROM `+c.Table+` WHERE `+c.Name+` LIKE $1`, sealing.Of(k.ID)+"%").
				Scan(&n); err != nil {
				return nil, fmt.Errorf("count what is sealed: %w", err)
			}
			known[i].Boxes += n
		}
	}
	return known, nil
}

// batch is how many secrets are sealed in one transaction.
const batch = 50

// Reseal seals what older keys have sealed with the newest; then it forgets the older keys. Any controller may call
// it at any time; there is mostly nothing to do.
func (s *Store) Reseal(ctx context.Context) error {
	if s.keys == nil {
		return nil
	}
	var keys int
	if err := s.read.QueryRowContext(ctx, `SELECT count(*) FROM site_key`).Scan(&keys); err != nil || keys < 2 {
		return err
	}
	for _, c := range s.sealedColumns() {
		for {
			var n int
			err := s.Quietly(ctx, func(tx *Tx) (err error) {
				n, err = tx.reseal(ctx, c)
				return err
			})
			if err != nil {
				return err
			}
			if n < batch {
				break
			}
		}
	}
	var newest string
	err := s.Quietly(ctx, func(tx *Tx) (err error) {
		newest, err = tx.forgetSiteKeys(ctx)
		return err
	})
	if err == nil && newest != "" && s.keys.Own() && len(s.keys.IDs()) > 1 {
		err = s.keys.Keep(ctx, newest)
	}
	return err
}

func (tx *Tx) reseal(ctx context.Context, c SealedColumn) (int, error) {
	newest, err := tx.newestKey(ctx)
	if err != nil {
		return 0, err
	}
	scan := Fields(func(v *[2]string) []any { return []any{&v[0], &v[1]} })
	old, err := List(ctx, tx, scan,
		fmt.Sprintf(`SELECT %s, %s FROM %s WHERE %s <> '' AND %s NOT LIKE $1 ORDER BY 1 LIMIT %d FOR UPDATE`,
			c.Row, c.Name, c.Table, c.Name, c.Name, batch), sealing.Of(newest)+"%")
	if err != nil {
		return 0, fmt.Errorf("look for what is to be sealed: %w", err)
	}
	for _, v := range old {
		box, err := tx.Seal(ctx, c, v[0], Sealed(c, v[0], v[1]))
		if err != nil {
			return 0, err
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf(`UPDATE %s SET %s = $1 WHERE %s = $2`, c.Table, c.Name, c.Row), box,
			v[0]); err != nil {
			return 0, fmt.Errorf("seal %s: %w", c.place(v[0]), err)
		}
	}
	return len(old), nil
}

// forgetSiteKeys forgets the keys that have sealed nothing, but for the newest, which it returns: "" if another one is
// needed still.
func (tx *Tx) forgetSiteKeys(ctx context.Context) (newest string, err error) {
	if err := tx.LockSite(ctx); err != nil {
		return "", err
	}
	// A writer that seals holds the row of the key that it seals with.
	if _, err := List(ctx, tx, Value[string], `SELECT id FROM site_key ORDER BY number FOR UPDATE`); err != nil {
		return "", fmt.Errorf("lock the site's keys: %w", err)
	}
	keys, err := tx.SiteKeys(ctx)
	if err != nil || len(keys) == 0 {
		return "", err
	}
	newest = keys[0].ID
	for _, k := range keys[1:] {
		if k.Boxes > 0 {
			newest = ""
			continue
		}
		if _, err := tx.Exec(ctx, `DELETE FROM site_key WHERE id = $1`, k.ID); err != nil {
			return "", fmt.Errorf("forget the site's key %s: %w", k.ID, err)
		}
	}
	return newest, nil
}
