// Package core is the database and the engine's half of it: transactions, claims on rows, events, wake-ups, the clock, secrets at
// rest. It runs on SQLite (embedded, one controller) or PostgreSQL (several replicas), with one SQL text for both. It knows no
// kind by name: what kinds there are is told to Open.
//
// What enters: the kinds' definitions and queries. What leaves: transactions, claims, and the event log. The database's clock is
// the only clock; its constraints, not this code, make it impossible to give a machine twice.
package core

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"

	"muster/internal/core/sealing"
	"muster/internal/core/telemetry"
	"muster/internal/kit/limit"
	"muster/internal/kit/locks"
	"muster/internal/kit/wrap"
)

// ErrNotFound is returned for a row that is not there.
var ErrNotFound = errors.New("not found")

// ErrExists is returned when a name is taken.
var ErrExists = errors.New("exists already")

// ErrFenced is returned to a controller whose claim on a row was taken over: it must drop what it was about to write.
var ErrFenced = errors.New("fenced out: another controller has taken this over")

type dialect int

const (
	sqliteFile dialect = iota
	postgres
)

// portable words in the SQL texts, and what each database calls them.
var words = map[dialect]*strings.Replacer{
	sqliteFile: strings.NewReplacer("now_ms()", "CAST(unixepoch('subsec') * 1000 AS INTEGER)", "FOR UPDATE SKIP LOCKED", "",
		"FOR UPDATE", ""),
	postgres: strings.NewReplacer("now_ms()", "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"),
}

// Store is a database. Use View and Update; both may be called from any goroutine.
type Store struct {
	Telemetry *telemetry.Telemetry // is told of transactions; set it before the first one, or not at all

	dialect dialect
	write   *sql.DB
	read    *sql.DB
	apart   *sql.DB // for reads that take long
	writing limit.Turns
	looking limit.Turns // reads that take long
	kinds   []Definition
	keys    *sealing.Ring // nil: secrets can be neither read nor written
	file    *os.File      // SQLite: held under an exclusive lock for as long as the database is open

	clock       *Clock
	synchronous string // SQLite: how far a commit is written when it is told

	mu     sync.Mutex
	change chan struct{} // closed and replaced after every commit in this process
}

// Option changes how a database is opened.
type Option func(*Store)

// Volatile is for databases that may be lost, as tests have: commits to an SQLite file do not wait for the disk, and a power cut
// may cost all of it.
func Volatile(s *Store) { s.synchronous = "OFF" }

// WithClock makes now what the clock says. All who open one database must use one clock.
func WithClock(c *Clock) Option { return func(s *Store) { s.clock = c } }

// Clock is the database's, and may be put forward. The zero value is the database's own.
type Clock struct{ ahead atomic.Int64 } // milliseconds

// Advance puts the clock forward, for transactions that begin after it.
func (c *Clock) Advance(d time.Duration) { c.ahead.Add(d.Milliseconds()) }

// Open opens and migrates the database of some kinds at url: "postgres://…", or a path of an SQLite file (created with mode
// 0600).
// A second process that opens the same SQLite file is refused.
//
// Secrets are sealed with the keys of the ring. A ring that cannot open the database's secrets is refused, and nothing was
// changed then. Secrets that are not sealed, or with an older key, are sealed before it returns. Without a ring everything else
// can be read and written.
func Open(ctx context.Context, url string, keys *sealing.Ring, kinds []Definition, options ...Option) (*Store, error) {
	s := &Store{kinds: kinds, change: make(chan struct{}), keys: keys, clock: new(Clock), synchronous: "FULL"}
	for _, option := range options {
		option(s)
	}
	var err error
	if strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://") {
		err = s.openPostgres(url)
	} else {
		err = s.openSQLite(ctx, url)
	}
	if err == nil && keys != nil {
		if err = keys.Load(ctx); err == nil {
			err = s.prove(ctx)
		}
	}
	if err == nil {
		err = migrate(ctx, s.write, s.dialect)
	}
	if err == nil {
		err = s.makeTables(ctx)
	}
	if err == nil && keys != nil {
		err = s.unlock(ctx)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// silence is how long a controller may sit in a transaction: between two statements, and while it sends one, which takes
// seconds where it has megabytes and the host is busy. One that was stopped in a transaction keeps its locks; then PostgreSQL
// ends the session, so that the others go on.
const silence = 10 * time.Second

func (s *Store) openPostgres(url string) error {
	s.dialect = postgres
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return errors.New("open the database: cannot read the URL " + redact(url)) // the driver's own text may hold the password
	}
	config.RuntimeParams["application_name"] = "muster"
	config.RuntimeParams["idle_in_transaction_session_timeout"] = strconv.FormatInt(silence.Milliseconds(), 10)
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	s.write, s.read, s.apart = db, db, db
	s.writing.Places, s.looking.Places = 12, 2 // which leaves some for other reads
	return nil
}

func (s *Store) openSQLite(ctx context.Context, path string) error {
	s.dialect = sqliteFile
	file, err := locks.Try(path + ".lock")
	if errors.Is(err, locks.ErrHeld) {
		return fmt.Errorf("database %s is in use by another controller; several controllers need --db postgres://…", path)
	}
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	s.file = file
	s.writing.Places, s.looking.Places = 1, 2
	created, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	_ = created.Close()
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)&_pragma=synchronous(" + s.synchronous + ")" +
		"&_pragma=secure_delete(1)&_pragma=temp_store(MEMORY)&_time_format=sqlite"
	if s.write, err = pool(dsn+"&_txlock=immediate", 1); err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	if _, err := s.write.ExecContext(ctx, "PRAGMA journal_mode = WAL"); err != nil {
		return fmt.Errorf("open the database %s: %w", path, err)
	}
	for of, size := range map[**sql.DB]int{&s.read: 4, &s.apart: 2} {
		if *of, err = pool(dsn, size); err != nil {
			return fmt.Errorf("open the database: %w", err)
		}
	}
	return nil
}

// pool keeps up to so many connections to an SQLite file open: each reads the whole schema when it is opened.
func pool(dsn string, size int) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(keeping{connector})
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db, nil
}

// Close waits for running statements and lets go of the database.
func (s *Store) Close() error {
	var errs []error
	if s.write != nil {
		errs = append(errs, s.write.Close())
	}
	for _, reads := range []*sql.DB{s.read, s.apart} {
		if reads != nil && reads != s.write {
			errs = append(errs, reads.Close())
		}
	}
	if s.file != nil {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(errs...)
}

// Shared says whether other controllers may work on the same database.
func (s *Store) Shared() bool { return s.dialect == postgres }

// Changed returns a channel that is closed after the next commit of this process. Take it before you look, then wait:
// nothing is missed. Commits of other replicas are not announced; poll beside it.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.change
}

// alone is how often Follow repeats a look where no other process writes: for one that failed.
const alone = 5 * time.Second

// Follow calls look at once and then after commits, until ctx ends: at most once in least, however many commits there are,
// and for those of other replicas once in most. A commit of this process is never missed. look says by itself what went wrong;
// it is called again.
func (s *Store) Follow(ctx context.Context, least, most time.Duration, look func()) {
	if !s.Shared() {
		most = max(most, alone)
	}
	for ctx.Err() == nil {
		changed, began := s.Changed(), time.Now()
		look()
		select {
		case <-changed:
			select { // not at all, if least has passed
			case <-time.After(least - time.Since(began)):
			case <-ctx.Done():
			}
		case <-time.After(most):
		case <-ctx.Done():
		}
	}
}

func (s *Store) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.change)
	s.change = make(chan struct{})
}

// Tx is one transaction. Its methods stand beside their entities.
type Tx struct {
	of     *Store
	tx     *sql.Tx
	d      dialect
	ahead  int64 // milliseconds by which now is ahead of the database's clock
	keys   *sealing.Ring
	rows   *int    // that it has read
	events []Event // written last, so that the event counter's lock is held only for the commit
	wakes  []wake
	frozen bool // a View
}

type payerKey struct{}

// For is ctx for transactions that somebody causes: of those who wait to write, or for a View that takes long, the next one is
// who has had least of the database's time of late. Those of "" are the controller's own.
func For(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, payerKey{}, who)
}

// OfPerson and OfProject are who causes something, for For: what a person asks for by whichever door, and what the nodes and rows
// of a project need.
func OfPerson(name string) string  { return "person " + name }
func OfProject(name string) string { return "project " + name }

// Payer is who causes what is done with ctx; "" for the controller itself.
func Payer(ctx context.Context) string {
	who, _ := ctx.Value(payerKey{}).(string)
	return who
}

type apartKey struct{}

// Apart is ctx for a View that takes long: such wait for each other, and others do not wait for them.
func Apart(ctx context.Context) context.Context { return context.WithValue(ctx, apartKey{}, true) }

// View runs f on a consistent snapshot. f must not write.
func (s *Store) View(ctx context.Context, f func(*Tx) error) error {
	began, rows := time.Now(), 0
	err := s.view(ctx, &rows, f)
	s.Telemetry.Transaction("read", began, rows, 0, broken(ctx, err))
	return err
}

// Look is what f reads in a View.
func Look[T any](ctx context.Context, s *Store, f func(*Tx) (T, error)) (seen T, err error) {
	err = s.View(ctx, func(tx *Tx) (err error) {
		seen, err = f(tx)
		return err
	})
	return seen, err
}

func (s *Store) view(ctx context.Context, rows *int, f func(*Tx) error) error {
	options := &sql.TxOptions{ReadOnly: true}
	if s.dialect == postgres {
		options.Isolation = sql.LevelRepeatableRead
	}
	reads := s.read
	if ctx.Value(apartKey{}) != nil {
		leave, err := s.looking.Take(ctx, Payer(ctx))
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		defer leave()
		reads = s.apart
	}
	tx, err := reads.BeginTx(ctx, options)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	return f(&Tx{of: s, tx: tx, d: s.dialect, ahead: s.clock.ahead.Load(), keys: s.keys, rows: rows, frozen: true})
}

// tries is how often Update repeats a transaction that lost against a concurrent one.
const tries = 20

// Update runs f in one transaction: all of it is stored with its events, or nothing. f may run several times and must
// have no effect outside the transaction; never wait in it. When two transactions reach for the same machine, the
// loser runs again and sees it taken.
func (s *Store) Update(ctx context.Context, f func(*Tx) error) error {
	var done *Tx
	err := s.Quietly(ctx, func(tx *Tx) error {
		done = tx
		return f(tx)
	})
	if err != nil {
		return err
	}
	if s.Shared() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = s.giveWakes(limited, done.wakes) // only hints, and the transaction stands
	}
	s.announce()
	return nil
}

// Quietly is Update without telling anyone: claims and leases are no news to anyone.
func (s *Store) Quietly(ctx context.Context, f func(*Tx) error) error {
	began, rows, again := time.Now(), 0, 0
	err := s.once(ctx, &rows, f)
	for ; again < tries-1 && s.lostRace(err); again++ {
		err = s.once(ctx, &rows, f)
	}
	s.Telemetry.Transaction("write", began, rows, again, broken(ctx, err))
	return err
}

func (s *Store) once(ctx context.Context, rows *int, f func(*Tx) error) error {
	leave, err := s.writing.Take(ctx, Payer(ctx))
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer leave()
	raw, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = raw.Rollback() }()
	tx := &Tx{of: s, tx: raw, d: s.dialect, ahead: s.clock.ahead.Load(), keys: s.keys, rows: rows}
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.writeEvents(ctx); err != nil {
		return err
	}
	if !s.Shared() { // there is one writer at a time: no two can wait for each other's rows
		if err := tx.giveWakes(ctx, tx.wakes); err != nil {
			return err
		}
	}
	return raw.Commit()
}

// lostRace says that the same transaction may well succeed when run again.
func (s *Store) lostRace(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	const serialization, deadlock, unique = "40001", "40P01", "23505"
	races := func(d Definition) bool { return slices.Contains(d.Races, pg.ConstraintName) }
	return pg.Code == serialization || pg.Code == deadlock || pg.Code == unique && slices.ContainsFunc(s.kinds, races)
}

// LostRace says that err ends a transaction that may well succeed when run again, which Update does.
func (tx *Tx) LostRace(err error) bool { return tx.of.lostRace(err) }

// broken says that the database failed a transaction, rather than the caller, who has reasons of its own.
func broken(ctx context.Context, err error) bool {
	var pg *pgconn.PgError
	var lite *sqlite.Error
	var connect *pgconn.ConnectError
	return err != nil && ctx.Err() == nil && !Taken(err) &&
		(errors.As(err, &pg) || errors.As(err, &lite) || errors.As(err, &connect) || errors.Is(err, driver.ErrBadConn))
}

// Taken says that err is a violated uniqueness.
func Taken(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "23505"
	}
	var lite *sqlite.Error
	const constraintUnique, constraintPrimaryKey = 2067, 1555
	return errors.As(err, &lite) && (lite.Code() == constraintUnique || lite.Code() == constraintPrimaryKey)
}

// ReadOnly says that the transaction is a View: it takes no locks.
func (tx *Tx) ReadOnly() bool { return tx.frozen }

// text is a query in the words of its database.
func (tx *Tx) text(query string) string {
	if tx.ahead != 0 {
		query = strings.ReplaceAll(query, "now_ms()", fmt.Sprintf("(now_ms() + %d)", tx.ahead))
	}
	return words[tx.d].Replace(query)
}

func (tx *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	result, err := tx.tx.ExecContext(ctx, tx.text(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// LockSite makes everybody else who asks for it wait until the transaction ends: what only one may decide at a time.
func (tx *Tx) LockSite(ctx context.Context) error {
	_, err := tx.Exec(ctx, `UPDATE site_lock SET taken = taken + 1`)
	return wrap.Errorf(err, "lock the site")
}

func (tx *Tx) Row(ctx context.Context, query string, args ...any) *sql.Row {
	*tx.rows++
	return tx.tx.QueryRowContext(ctx, tx.text(query), args...)
}

// Scanner is a *sql.Row or *sql.Rows.
type Scanner interface{ Scan(...any) error }

// List collects every row of a query.
func List[T any](ctx context.Context, tx *Tx, scan func(Scanner) (T, error), query string, args ...any) ([]T, error) {
	var all []T
	err := Each(ctx, tx, scan, func(one T) error {
		all = append(all, one)
		return nil
	}, query, args...)
	return all, err
}

// Each hands the rows of a query on one by one, until one is an error.
func Each[T any](ctx context.Context, tx *Tx, scan func(Scanner) (T, error), take func(T) error, query string,
	args ...any) error {
	rows, err := tx.tx.QueryContext(ctx, tx.text(query), args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		*tx.rows++
		one, err := scan(rows)
		if err == nil {
			err = take(one)
		}
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

// One returns the single row of a query, or ErrNotFound.
func One[T any](ctx context.Context, tx *Tx, scan func(Scanner) (T, error), query string, args ...any) (T, error) {
	value, err := scan(tx.Row(ctx, query, args...))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return value, err
}

// Maybe is One, but for the zero value where there is no row.
func Maybe[T any](ctx context.Context, tx *Tx, scan func(Scanner) (T, error), query string, args ...any) (T, error) {
	value, err := One(ctx, tx, scan, query, args...)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return value, err
}

// redact returns url without its password.
func redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(unreadable URL)"
	}
	return u.Redacted()
}
