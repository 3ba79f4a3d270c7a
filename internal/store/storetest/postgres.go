// Package storetest gives tests the databases that Muster runs on: a fresh SQLite file, and a private PostgreSQL that
// lives as long as the test binary's run of one test.
package storetest

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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
func Open(t *testing.T, url string) *store.Store {
	t.Helper()
	if !strings.Contains(url, "://") {
		lay(t, url)
	}
	s, err := store.Open(t.Context(), url, Keys())
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

// Postgres starts a PostgreSQL server of the test's own, on a unix socket only, and returns the URL of an empty database
// on it. The server ends with the test. Where PostgreSQL or root is missing the test is skipped and says so.
func Postgres(t *testing.T) string {
	t.Helper()
	bin := programs(t)
	account, err := user.Lookup("postgres")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("PostgreSQL is not tested: this needs root and the postgres account")
	}
	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	dir, err := os.MkdirTemp("", "muster-pg-") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	command := func(ctx context.Context, name string, args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
		c.Dir = dir
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, Pdeathsig: syscall.SIGQUIT}
		return c
	}
	fresh := filepath.Join(buildDir(), "postgres-"+filepath.Base(filepath.Dir(bin)))
	if _, err := os.Stat(fresh); err != nil {
		if out, err := command(t.Context(), "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C").CombinedOutput(); err != nil {
			t.Fatalf("initdb: %v\n%s", err, out)
		}
		keepTemplate(t, data, fresh)
	} else if err := copyTree(fresh, data); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	server := command(context.WithoutCancel(t.Context()), "postgres", "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT) // fast shutdown
		_ = server.Wait()
		_ = log.Close()
	})
	url := fmt.Sprintf("postgres://postgres@/postgres?host=%s", dir)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if command(t.Context(), "pg_isready", "-q", "-h", dir).Run() == nil {
			return url
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("PostgreSQL does not start:\n%s", text)
		}
	}
}

// keepTemplate puts a copy of an empty database there, unless another test was faster.
func keepTemplate(t *testing.T, data, to string) {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(to), ".postgres-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	half := filepath.Join(dir, "data")
	if err := copyTree(data, half); err != nil {
		t.Fatal(err)
	}
	_ = os.Rename(half, to)
}

// copyTree copies a folder with all its owners and modes.
func copyTree(from, to string) error {
	if out, err := exec.Command("cp", "-a", "--reflink=auto", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy a database: %w: %s", err, out)
	}
	return nil
}

// programs is the folder of the newest PostgreSQL installed.
func programs(t *testing.T) string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		t.Skip("PostgreSQL is not tested: it is not installed (apt-get install postgresql)")
	}
	return strings.TrimSuffix(found[len(found)-1], "/initdb")
}
