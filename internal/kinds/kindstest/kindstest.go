// Package kindstest gives tests the databases that Muster runs on, with all kinds: a fresh SQLite file, and a fresh database of a
// PostgreSQL server that lives as long as the test binary.
package kindstest

import (
	"context"
	"errors"
	"hash/fnv"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds"
	"muster/internal/kinds/person"
)

// Each runs a test on both databases, each fresh, at the same time; a test has nothing after it.
func Each(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, filepath.Join(t.TempDir(), "muster.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, Postgres(t))
	})
}

// Either runs a test to which the database does not matter, beside other tests. A short run, as `make test` is, has it on one of
// the two: on the same each time, and about half of the tests on each. Otherwise it is Each.
func Either(t *testing.T, test func(t *testing.T, url string)) {
	t.Parallel()
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(t.Name()))
	switch {
	case !testing.Short():
		Each(t, test)
	case sum.Sum32()%2 == 0:
		t.Run("sqlite", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "muster.db")) })
	default:
		t.Run("postgres", func(t *testing.T) { test(t, Postgres(t)) })
	}
}

// The site that Open establishes.
const (
	Admin   = "admin"       // an operator, and the owner of Project
	Project = "default"     // the only one
	Token   = "muster_test" // Admin's
)

// Open opens a database for the length of a test, and establishes a site in it.
func Open(t *testing.T, url string, options ...core.Option) *core.Store {
	t.Helper()
	if !strings.Contains(url, "://") {
		lay(t, url)
	}
	s, err := kinds.Open(t.Context(), url, Keys(), append(options, core.Volatile)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Update(t.Context(), func(tx *core.Tx) error {
		return person.Establish(t.Context(), tx, Admin, person.HashToken(Token), "t1", Project)
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

// Run has an engine work until ctx ends. On a host that is too busy for it to let go of its rows then, their leases end by
// themselves.
func Run(ctx context.Context, e *core.Engine) error {
	err := e.Run(ctx)
	if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
