// Package storetest gives tests the databases that Muster runs on: a fresh SQLite file, and a fresh database of a PostgreSQL
// server that lives as long as the test binary.
package storetest

import (
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/store"
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

// Either runs a test on one of the two, on which does not matter to it: on the same each time, and about half of the tests on each. With
// MUSTER_TEST_DATABASES=both it is Each.
func Either(t *testing.T, test func(t *testing.T, url string)) {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(t.Name()))
	switch {
	case os.Getenv("MUSTER_TEST_DATABASES") == "both":
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
func Open(t *testing.T, url string, options ...store.Option) *store.Store {
	t.Helper()
	if !strings.Contains(url, "://") {
		lay(t, url)
	}
	s, err := store.Open(t.Context(), url, Keys(), append(options, store.Volatile)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Update(t.Context(), func(tx *store.Tx) error {
		return tx.Establish(t.Context(), Admin, store.HashToken(Token), "t1", Project)
	}); err != nil {
		t.Fatal(err)
	}
	return s
}
