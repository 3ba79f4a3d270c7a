package core_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/internal/core"
	"muster/internal/core/sealing"
	"muster/internal/kinds"
	"muster/internal/kinds/authority"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/spec"
)

// raw opens a database beside the database.
func raw(t *testing.T, url string) *sql.DB {
	t.Helper()
	driver := "sqlite"
	if strings.Contains(url, "://") {
		driver = "pgx"
	}
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func do(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(query, err)
	}
}

// backup is all that a copy of a database's files has.
func backup(t *testing.T, at string) []byte {
	t.Helper()
	var all []byte
	add := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme == "" {
		add(at)
		add(at + "-wal")
		return all
	}
	db := raw(t, at)
	do(t, db, "CHECKPOINT")
	var data, own string // other tests' databases are on the same server
	query := "SELECT current_setting('data_directory'), oid FROM pg_database WHERE datname = current_database()"
	if err := db.QueryRow(query).Scan(&data, &own); err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(filepath.Join(data, "base", own), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			add(path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(all) < 1<<20 {
		t.Fatalf("only %d bytes of PostgreSQL's files were found", len(all))
	}
	return all
}

// withoutKey is a fresh database that has not been opened with a key yet, of the same sort as url's.
func withoutKey(t *testing.T, url string) string {
	if strings.Contains(url, "://") {
		return kindstest.EmptyPostgres(t)
	}
	return url
}

// secrets are those of a site.
type secrets struct {
	root, private, munge string
}

func (o secrets) looks() map[string]string {
	return map[string]string{
		"the root secret": o.root, "a gateway's key": "c2VjcmV0IGhvc3Qga2V5", "a munge key": o.munge,
		"a munge key in base64": base64.StdEncoding.EncodeToString([]byte(o.munge)),
	}
}

// site has the database of a site that keeps secrets: one of the site's own, a gateway's, and of more clusters than are sealed
// again in one transaction.
func site(t *testing.T, s *core.Store) secrets {
	t.Helper()
	o := secrets{
		root:    base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("root secret!"), 3)[:32]),
		private: "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0IGhvc3Qga2V5\n-----END OPENSSH PRIVATE KEY-----\n",
		munge:   strings.Repeat("munge key ", 13)[:128],
	}
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		const line = "ssh-ed25519 AAAA"
		_, err1 := tx.Secret(ctx, "root", o.root)
		box, err2 := tx.Seal(ctx, core.SealedColumn{Table: "gateway_key", Name: "private", Row: "line"}, line,
			core.NewSecret([]byte(o.private)))
		_, err3 := tx.Exec(ctx, `INSERT INTO gateway_key (line, private, from_at) VALUES ($1, $2, 1)`, line, box)
		_, err4 := tx.Exec(ctx, `INSERT INTO project (name, created_at) VALUES ('default', 1)`)
		err := errors.Join(err1, err2, err3, err4)
		for i := 0; i < 61 && err == nil; i++ {
			id := fmt.Sprintf("c%03d", i)
			err = cluster.Add(ctx, tx, cluster.Cluster{ID: id, Project: "default", Name: id, Spec: spec.Cluster{Name: id},
				Image: "sha256:00", Credential: core.NewSecret([]byte(o.munge)), CreatedBy: "admin"})
		}
		return err
	})
	return o
}

func openWith(t *testing.T, url string, keys *sealing.Ring) *core.Store {
	t.Helper()
	s, err := kinds.Open(t.Context(), url, keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestABackupAloneIsWorthNothing(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		url = withoutKey(t, url)
		file := filepath.Join(t.TempDir(), "site.key")
		s := openWith(t, url, sealing.File(file, true))
		secrets := site(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		files := backup(t, url)
		if !bytes.Contains(files, []byte("ssh-ed25519 AAAA")) {
			t.Fatal("what is no secret is not found either: this test looks in the wrong place")
		}
		for what, secret := range secrets.looks() {
			if bytes.Contains(files, []byte(secret)) {
				t.Errorf("%s is in the database's files in clear", what)
			}
		}
		s = openWith(t, url, sealing.File(file, false))
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if root, err := tx.Secret(ctx, "root", "another"); err != nil || root != secrets.root {
				t.Errorf("the root secret is %q, %v", root, err)
			}
			keys, err := authority.GatewayKeys(ctx, tx)
			if err != nil || len(keys) != 1 || revealed(t, tx, keys[0].Private) != secrets.private {
				t.Errorf("%v %v", keys, err)
			}
			c, err := cluster.Get(ctx, tx, "c007")
			if err != nil || revealed(t, tx, c.Credential) != secrets.munge {
				t.Errorf("%v %v", c, err)
			}
			return nil
		})
	})
}

func TestAWrongKeyChangesNothing(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		url = withoutKey(t, url)
		file := filepath.Join(t.TempDir(), "site.key")
		s := openWith(t, url, sealing.File(file, true))
		secrets := site(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		content := func() string {
			var all strings.Builder
			for _, table := range []string{"site_key", "secret", "gateway_key", "goose_db_version"} {
				rows, err := raw(t, url).Query(`SELECT * FROM ` + table)
				if err != nil {
					t.Fatal(err)
				}
				columns, _ := rows.Columns()
				for rows.Next() {
					values := make([]any, len(columns))
					for i := range values {
						values[i] = new(any)
					}
					if err := rows.Scan(values...); err != nil {
						t.Fatal(err)
					}
					for _, v := range values {
						fmt.Fprintf(&all, "%v|", *v.(*any))
					}
				}
				_ = rows.Close()
			}
			return all.String()
		}
		// A migration is due, too: it must not be tried.
		do(t, raw(t, url), `DELETE FROM goose_db_version WHERE version_id = (SELECT MAX(version_id) FROM goose_db_version)`)
		before := content()
		missing := filepath.Join(t.TempDir(), "site.key")
		other := filepath.Join(t.TempDir(), "other.key")
		if err := sealing.File(other, true).Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, keys := range []*sealing.Ring{sealing.File(missing, true), sealing.File(other, true), kindstest.Keys()} {
			s, err := kinds.Open(t.Context(), url, keys)
			if err == nil {
				_ = s.Close()
				t.Fatalf("%s opened the database", keys.Source())
			}
			for _, part := range []string{"sealed with key", keys.Source(), "--key-file", "nothing was changed"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in: %v", part, err)
				}
			}
			if strings.Contains(err.Error(), secrets.root) {
				t.Error("the error tells a secret")
			}
		}
		if _, err := os.Stat(missing); err == nil {
			t.Error("a new key was made beside a database that has one")
		}
		if content() != before {
			t.Error("the database was changed")
		}
	})
}

// TestARekeyEndsWhoeverDoesIt: new key, half of the secrets sealed again, then the controller dies; another one ends it.
func TestARekeyEndsWhoeverDoesIt(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		url = withoutKey(t, url)
		file := filepath.Join(t.TempDir(), "site.key")
		s := openWith(t, url, sealing.File(file, true))
		secrets := site(t, s)
		old, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Rekey(t.Context()); err != nil {
			t.Fatal(err)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			keys, err := tx.SiteKeys(ctx)
			if err != nil || len(keys) != 2 || keys[0].Boxes != 0 || keys[1].Boxes != 63 {
				t.Errorf("%+v %v", keys, err)
			}
			// A secret that comes now is sealed with the new key.
			_, err = tx.Secret(ctx, "another", "made meanwhile")
			return err
		})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openWith(t, url, sealing.File(file, true)) // it ends what the other began
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			keys, err := tx.SiteKeys(ctx)
			if err != nil || len(keys) != 1 || keys[0].Boxes != 64 {
				t.Errorf("%+v %v", keys, err)
			}
			root, err := tx.Secret(ctx, "root", "another")
			if err != nil || root != secrets.root {
				t.Errorf("%q %v", root, err)
			}
			return err
		})
		now, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(old), "\n") {
			if line != "" && line[0] != '#' && strings.Contains(string(now), line) {
				t.Error("the old key is still in the file")
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err := kinds.Open(t.Context(), url, sealing.Text(string(old))); err == nil {
			_ = s.Close()
			t.Error("the old key opens the database")
		}
	})
}

func TestABoxOpensInItsOwnRowOnly(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			for _, id := range []string{"mine", "theirs"} {
				if err := cluster.Add(ctx, tx, cluster.Cluster{ID: id, Project: "default", Name: id, Spec: spec.Cluster{Name: id},
					Image: "sha256:00", Credential: core.NewSecret([]byte("key of " + id)), CreatedBy: "admin"}); err != nil {
					return err
				}
			}
			return nil
		})
		do(t, raw(t, url), `UPDATE cluster SET credential = (SELECT credential FROM cluster WHERE id = 'theirs') WHERE id = 'mine'`)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			c, err := cluster.Get(ctx, tx, "mine")
			if err != nil {
				return err
			}
			if plain, err := tx.Reveal(ctx, c.Credential); err == nil {
				t.Errorf("a moved box opened: %q", plain)
			}
			return nil
		})
	})
}

func TestANewerDatabaseIsLeftAlone(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		url = withoutKey(t, url)
		file := filepath.Join(t.TempDir(), "site.key")
		if err := openWith(t, url, sealing.File(file, true)).Close(); err != nil {
			t.Fatal(err)
		}
		do(t, raw(t, url), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, `+
			map[bool]string{true: "TRUE", false: "1"}[strings.Contains(url, "://")]+`)`)
		s, err := kinds.Open(t.Context(), url, sealing.File(file, true))
		if err == nil {
			_ = s.Close()
			t.Fatal("it was opened")
		}
		if !strings.Contains(err.Error(), "newer version of Muster") {
			t.Error(err)
		}
	})
}

func TestASecretIsNotPrinted(t *testing.T) {
	s := core.NewSecret([]byte("hunter2"))
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("look", "secret", s, "in", struct{ S core.Secret }{s})
	text, err := json.Marshal(struct{ S core.Secret }{s})
	if err != nil {
		t.Fatal(err)
	}
	all := []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %x %q", s, s, s, s, s, s),
		fmt.Sprintf("%+v", struct{ S core.Secret }{s}), string(text), log.String()}
	for _, form := range []string{"hunter2", "68756e74657232", base64.StdEncoding.EncodeToString([]byte("hunter2")), "104 117"} {
		if i := slices.IndexFunc(all, func(s string) bool { return strings.Contains(s, form) }); i >= 0 {
			t.Errorf("it is told: %s", all[i])
		}
	}
	if _, err := s.Value(); err == nil {
		t.Error("a database takes it as it is")
	}
}
