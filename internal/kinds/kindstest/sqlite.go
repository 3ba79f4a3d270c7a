package kindstest

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"muster/internal/kinds"
)

// buildDir is the tree's folder for what is built: empty databases are kept there, since to copy one is less work than to
// make it. Tests run in their package's folder, below it.
func buildDir() string {
	dir, err := os.Getwd()
	for ; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	return filepath.Join(dir, "build")
}

// schemaSum names the migrations that this tree has: a kept database of the same name needs none.
func schemaSum() (string, error) {
	migrations, err := filepath.Glob(filepath.Join(buildDir(), "../internal/core/migrations/*.sql"))
	if err != nil || len(migrations) == 0 {
		return "", fmt.Errorf("there are no migrations beside %s: %w", buildDir(), errors.Join(err, fs.ErrNotExist))
	}
	sum := sha256.New()
	for _, name := range migrations {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(name), len(text), text)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8]), nil
}

// lay puts an empty database there, if there is none: a copy of one that has all migrations and its key already.
func lay(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	schema, err := schemaSum()
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(buildDir(), fmt.Sprintf("sqlite-sealed-%s.db", schema))
	empty, err := os.ReadFile(kept)
	if errors.Is(err, fs.ErrNotExist) {
		empty, err = keepEmpty(t, kept)
	}
	if err == nil {
		err = os.WriteFile(path, empty, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// keepEmpty makes an empty database and keeps it there. Two tests that do so at the same time make the same.
func keepEmpty(t *testing.T, at string) ([]byte, error) {
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return nil, err
	}
	half := filepath.Join(t.TempDir(), "empty.db")
	s, err := kinds.Open(t.Context(), half, Keys())
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	empty, err := os.ReadFile(half)
	if err != nil {
		return nil, err
	}
	part := at + "." + rand.Text()
	if err := os.WriteFile(part, empty, 0o644); err != nil {
		return nil, err
	}
	return empty, os.Rename(part, at)
}
