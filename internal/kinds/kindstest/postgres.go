package kindstest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"muster/internal/kinds"
)

// Postgres returns the URL of a fresh database on the test binary's own PostgreSQL server. It has all migrations and the key of
// Keys; who opens it with others takes EmptyPostgres. The database ends with the test, the server with the test binary, however
// that ends. Where PostgreSQL or root is missing the test is skipped and says so.
func Postgres(t *testing.T) string {
	t.Helper()
	return database(t, migrated)
}

// EmptyPostgres is Postgres without any migration.
func EmptyPostgres(t *testing.T) string {
	t.Helper()
	return database(t, "template0")
}

// database makes one for a test, as a copy of another.
func database(t *testing.T, template string) string {
	t.Helper()
	server, err := serverOfAllTests()
	if errors.Is(err, errMissing) {
		t.Skip("PostgreSQL is not tested: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("test%d", server.made.Add(1))
	if err := server.do(t.Context(), "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.do(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return server.url(name)
}

// migrated is the database that all others are copies of.
const migrated = "migrated"

// errMissing says what this machine lacks to run PostgreSQL.
var errMissing = errors.New("this machine lacks what it takes")

// serverOfAllTests starts the server when the first test wants it.
var serverOfAllTests = sync.OnceValues(func() (*server, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: PostgreSQL is not installed (apt-get install postgresql)", errMissing)
	}
	account, err := user.Lookup("postgres")
	if err != nil || os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: root, and the account postgres", errMissing)
	}
	uid, _ := strconv.ParseUint(account.Uid, 10, 32)
	gid, _ := strconv.ParseUint(account.Gid, 10, 32)
	return startServer(filepath.Dir(found[len(found)-1]), &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)})
})

// server is a PostgreSQL that listens on a unix socket only.
type server struct {
	programs string              // the folder of initdb and postgres
	as       *syscall.Credential // who runs it
	dir      string              // its data, its socket and its log
	made     atomic.Int64        // databases, for their names

	keeper *exec.Cmd
	pipe   io.WriteCloser // open for as long as the server is to run
}

// startServer starts a server whose database migrated is up to date: on a copy of a data directory that an earlier test has made
// and kept, if there is one.
func startServer(programs string, as *syscall.Credential) (*server, error) {
	schema, err := schemaSum()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(memory(), "muster-pg-") // t.TempDir is too long for a socket's path
	if err != nil {
		return nil, err
	}
	if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
		return nil, err
	}
	s := &server{programs: programs, as: as, dir: dir}
	kept := filepath.Join(buildDir(), fmt.Sprintf("postgres-%s-sealed-%s", filepath.Base(filepath.Dir(programs)), schema))
	if _, err := os.Stat(kept); err != nil {
		if err := s.makeTemplate(kept); err != nil {
			return nil, err
		}
	}
	if err := copyTree(kept, s.data()); err != nil {
		return nil, err
	}
	return s, s.start()
}

// memory is a folder that is no disk's: a database of Muster is a thousand files, and on a disk they are half of what it costs to
// make and to drop one. Where there is none it is "", for the system's folder of temporary files.
func memory() string {
	const shared = "/dev/shm"
	var room unix.Statfs_t
	if err := unix.Statfs(shared, &room); err != nil || room.Type != unix.TMPFS_MAGIC || room.Bavail*uint64(room.Bsize) < 2<<30 {
		return ""
	}
	return shared
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

// url is where the server's database of that name is found.
func (s *server) url(name string) string {
	return fmt.Sprintf("postgres://postgres@/%s?host=%s", name, s.dir)
}

// do runs one statement beside all tests' databases.
func (s *server) do(ctx context.Context, statement string) error {
	connection, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close(ctx) }()
	if _, err := connection.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// keeper runs the server beside the test binary. When the binary's end of the pipe is closed, as it is when the binary was
// killed, it ends the server and removes its folder. A word through the pipe ends the server only.
const keeper = `dir=$1; shift; "$@" & read -r word; kill -INT $!; wait $!; test "$word" || rm -rf "$dir"`

// start starts the server and returns when it answers.
func (s *server) start() error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	s.keeper = exec.Command("sh", "-c", keeper, "keeper", s.dir, filepath.Join(s.programs, "postgres"), "-D", s.data(), "-k",
		s.dir,
		"-c", "listen_addresses=", "-c", "max_connections=200", "-c", "autovacuum=off", "-c", "fsync=off",
		"-c", "full_page_writes=off", "-c", "wal_level=minimal", "-c", "max_wal_senders=0", "-c", "max_wal_size=128MB")
	s.keeper.Dir, s.keeper.Stdout, s.keeper.Stderr = s.dir, log, log
	s.keeper.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setsid: true} // a terminal's signals are not for it
	if s.pipe, err = s.keeper.StdinPipe(); err != nil {
		return err
	}
	if err := s.keeper.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := s.do(context.Background(), "SELECT 1")
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("PostgreSQL does not start: %w\n%s", err, text)
		}
	}
}

// stop ends the server and leaves its folder.
func (s *server) stop() error {
	_, err := io.WriteString(s.pipe, "stay\n")
	return errors.Join(err, s.keeper.Wait())
}

// makeTemplate makes a data directory with the database migrated, and keeps it there, unless another test binary was faster.
func (s *server) makeTemplate(kept string) error {
	initdb := exec.Command(filepath.Join(s.programs, "initdb"),
		"-D", s.data(), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C")
	initdb.Dir, initdb.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.as}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if err := s.start(); err != nil {
		return err
	}
	if err := errors.Join(s.migrate(), s.stop()); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		return err
	}
	half, err := os.MkdirTemp(filepath.Dir(kept), ".postgres-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(half) }()
	if err := copyTree(s.data(), filepath.Join(half, "data")); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(half, "data"), kept); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return os.RemoveAll(s.data())
}

// migrate makes the database that is the template of the others.
func (s *server) migrate() error {
	ctx := context.Background()
	if err := s.do(ctx, "CREATE DATABASE "+migrated); err != nil {
		return err
	}
	db, err := kinds.Open(ctx, s.url(migrated), Keys())
	if err != nil {
		return err
	}
	return db.Close()
}

// copyTree copies a folder with all its owners and modes.
func copyTree(from, to string) error {
	if out, err := exec.Command("cp", "-a", "--reflink=auto", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy a database: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
