package slurm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
)

// A head keeps accounts of its cluster's jobs: slurmdbd, in a database of MariaDB that it alone can reach. The database is the
// cluster's, as slurmctld's state is.
const (
	mariadbd = "mariadbd"
	slurmdbd = "slurmdbd"

	databaseProgram = "/usr/sbin/" + mariadbd
	dbdProgram      = "/usr/sbin/" + slurmdbd

	dbdPort        = 6819
	dbdFile        = "/etc/slurm/slurmdbd.conf"
	databaseFile   = "/etc/muster/mariadb.cnf"
	databaseDir    = protocol.StateDir + "/mysql"
	databaseSocket = "/run/mysqld/mysqld.sock"
	membersFile    = "/run/muster/members"
)

// databaseConf is what MariaDB reads: it is small, and within reach of slurmdbd alone.
const databaseConf = written + `[mariadbd]
# Who reaches the socket may do everything. Its folder is the account's that both run as.
socket = ` + databaseSocket + `
skip-grant-tables
skip-networking
pid-file = /run/mysqld/mysqld.pid
skip-log-bin
skip-name-resolve
# Or it makes a key for TLS each time it starts, which takes up to half a second.
skip-ssl
performance-schema = OFF
# slurmdbd makes 17 tables when a cluster starts for the first time: in one file they are made faster, and take half the room.
innodb-file-per-table = OFF
innodb-undo-tablespaces = 0
innodb-log-file-size = 4M
innodb-autoextend-increment = 4
innodb-temp-data-file-path = ibtmp1:1M:autoextend
innodb-buffer-pool-size = 32M
innodb-log-buffer-size = 2M
aria-pagecache-buffer-size = 1M
key-buffer-size = 64K
max-connections = 32
table-open-cache = 200
# Nodes may not use io_uring.
innodb-use-native-aio = OFF
# What was written in the last second may be lost with the host, and never what is older.
innodb-flush-log-at-trx-commit = 2
# As slurmdbd wants it: archiving locks tables for long.
innodb-lock-wait-timeout = 900
`

// accountingMemory is what a head must have for it where the cluster file does not say, in MiB: the two take 60.
const accountingMemory = 1024

// databaseGrace is how long they may take to end in order.
const databaseGrace = 20 * time.Second

// asked says that the cluster file asks for accounts, or for what needs them.
func asked(config *protocol.Config) bool {
	return config.Accounting == "full" || len(config.QOS)+len(config.Shares) > 0
}

// accounts says that a head which starts now is to keep accounts.
func (d *driver) accounts(config *protocol.Config) bool {
	if config.Self.Role != protocol.Head || config.Account == "" || config.Accounting == "light" ||
		config.Accounting == "none" || !d.accountable() {
		return false
	}
	memory := config.Self.MemoryMiB
	return asked(config) || memory == 0 || memory >= accountingMemory
}

// accountable says that the image has what keeps them.
func (d *driver) accountable() bool {
	return d.Files.Exists(databaseProgram) && d.Files.Exists(dbdProgram)
}

// dbdConf returns slurmdbd.conf. What is as old as it says is forgotten.
func dbdConf(head protocol.Peer) string {
	return fmt.Sprintf(written+`DbdHost=%s
DbdAddr=%s
SlurmUser=slurm
AuthType=auth/munge
PidFile=/run/slurm/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
PurgeJobAfter=24months
PurgeStepAfter=3months
PurgeEventAfter=12months
PurgeSuspendAfter=3months
PurgeResvAfter=24months
PurgeTXNAfter=12months
PurgeUsageAfter=24months
`, head.Name, head.Address)
}

// accountingDaemons are the two, in order of start.
func (d *driver) accountingDaemons() []scheduler.Daemon {
	return []scheduler.Daemon{{
		Name: mariadbd, Argv: []string{databaseProgram, "--defaults-file=" + databaseFile, "--datadir=" + databaseDir},
		User: User, Wait: d.database, Grace: databaseGrace, Noise: []string{"[Note]", "is deprecated"},
	}, {
		Name: slurmdbd, Argv: []string{dbdProgram, "-D"}, User: User, Grace: databaseGrace,
		Wait: func(ctx context.Context) error {
			if err := d.Settled(ctx); err != nil {
				return err
			}
			return d.Until(ctx, "unix", databaseSocket)
		},
		// How MariaDB is set up, which it thinks of as small; and users whom it has just been told of.
		Noise: []string{"Database settings not recommended values", "We can't find assoc"},
	}}
}

// database makes one where the cluster has none.
func (d *driver) database(ctx context.Context) error {
	if d.Files.Exists(databaseDir) {
		return ctx.Err()
	}
	if err := d.makeDatabase(ctx); err != nil && ctx.Err() == nil {
		d.Printf("make the database of jobs: %v", err) // mariadbd ends then, and this is tried again
	}
	return ctx.Err()
}

// makeDatabase makes an empty database: MariaDB's own tables, which its package has as statements, and a folder for those of
// slurmdbd, which is what a database is to MariaDB. It is there as a whole or not at all: so MariaDB need not write each table to
// the disk for sure, which takes a second on a busy disk.
func (d *driver) makeDatabase(ctx context.Context) error {
	const begun = databaseDir + ".begun"
	failed := os.RemoveAll(d.Files.Path(begun))
	for _, folder := range []string{begun, begun + "/mysql", begun + "/slurm_acct_db"} {
		failed = errors.Join(failed, d.Files.Directory(folder, 0o700, User))
	}
	if failed != nil {
		return failed
	}
	_, err := d.Run(ctx, "/bin/sh", "-c", "{ echo 'USE mysql;'; cat /usr/share/mariadb/mariadb_system_tables.sql; } | exec "+
		databaseProgram+" --defaults-file="+databaseFile+" --user="+User+" --datadir="+begun+
		" --bootstrap --debug-no-sync --innodb-flush-method=nosync")
	if err == nil {
		err = syncAll(d.Files.Path(begun))
	}
	if err != nil {
		return err
	}
	return os.Rename(d.Files.Path(begun), d.Files.Path(databaseDir))
}

// syncAll has the file system of a folder written to the disk.
func syncAll(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer folder.Close()
	return unix.Syncfs(int(folder.Fd()))
}

// book is what slurmdbd is to know.
type book struct {
	members string // who may submit, as membersOf writes it; "": nothing is kept
	account string
	qos     []protocol.QOS
	shares  bool // the file says some
}

func (b book) equal(other book) bool {
	return b.members == other.members && b.account == other.account && slices.Equal(b.qos, other.qos)
}

// books are that of the configuration, and that which slurmdbd was told.
type books struct {
	mu            sync.Mutex
	wanted, known book
	tried         time.Time
}

// membersOf is what `sacctmgr load` reads: it adds who is not there yet, and leaves what it is not told, as shares and limits
// that root has set. Shares are written if the cluster file says some, or did.
func membersOf(config *protocol.Config, shares bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Cluster - '%s'\nParent - 'root'\n", config.Cluster)
	fmt.Fprintf(&b, "Account - '%s':Description='%[1]s':Organization='%[1]s'\nParent - '%[1]s'\n", config.Account)
	users := slices.Clone(config.Users)
	slices.SortFunc(users, func(a, b protocol.User) int { return strings.Compare(a.Name, b.Name) })
	for _, u := range users {
		fmt.Fprintf(&b, "User - '%s':DefaultAccount='%s'", u.Name, config.Account)
		if shares {
			share, named := config.Shares[u.Name]
			if !named {
				share = 1
			}
			fmt.Fprintf(&b, ":Fairshare=%d", share)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (b *books) want(config *protocol.Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	has := len(config.Shares) > 0
	b.wanted = book{membersOf(config, has || b.known.shares), config.Account, config.QOS, has}
}

// used says that there is one.
func (b *books) used() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wanted.members != ""
}

// again is the pause between two tries.
const again = 5 * time.Second

// due is what slurmdbd is to be told now, if anything is.
func (b *books) due() (now book, due bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wanted.equal(b.known) || time.Since(b.tried) < again {
		return book{}, false
	}
	b.tried = time.Now()
	return b.wanted, true
}

func (b *books) done(now book) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known, b.tried = now, time.Time{}
}

// How long it may take to load accounts: before slurmctld starts, which refuses jobs of users without them, and beside it, where
// a head that waits is silent.
const (
	loadsFirst = 30 * time.Second
	loads      = 10 * time.Second
)

// enrol has slurmdbd know who may submit jobs, and under which QOS. It may be called again, and does nothing where nothing is
// new.
func (d *driver) enrol(ctx context.Context, within time.Duration) error {
	now, due := d.books.due()
	if !due {
		return nil
	}
	if _, err := d.Files.Write(membersFile, []byte(now.members), 0o600, ""); err != nil {
		return fmt.Errorf("write %s: %w", membersFile, err)
	}
	if _, err := d.within(ctx, within, "load accounts", "sacctmgr", "-iQ", "load", membersFile); err != nil {
		return err
	}
	if err := d.setQOS(ctx, now.account, now.qos); err != nil {
		return err
	}
	d.books.done(now)
	return nil
}

// records are those that slurmctld has for slurmdbd, as it was asked for them now and then.
type records struct {
	at     time.Time
	waited int // at the last look
	stuck  bool
}

// unrecorded says why jobs are not recorded now; "": they are, or are not to be. Nothing is lost by that: slurmctld keeps what it
// has to say.
func (d *driver) unrecorded(ctx context.Context) string {
	if d.unkept.Load() && !d.accountable() {
		return "jobs are not recorded: the image lacks " + slurmdbd + " or " + mariadbd
	}
	if d.unkept.Load() {
		return "jobs are not recorded, and QOS not known, before the head reboots: it was started without accounts"
	}
	if !d.books.used() {
		return ""
	}
	for _, daemon := range []string{mariadbd, slurmdbd} {
		if !d.Running(daemon) {
			return "jobs are not recorded: " + daemon + " does not run"
		}
	}
	if r := &d.records; time.Since(r.at) >= asksRecords {
		r.at = time.Now()
		if text, err := d.run(ctx, "ask for what is not recorded", "sdiag"); err == nil { // else it is as it was at the last look
			waits := recordsIn(text)
			r.stuck, r.waited = waits > 0 && r.waited > 0 && waits >= r.waited, waits
		}
	}
	if d.records.stuck {
		return fmt.Sprintf("jobs are not recorded: slurmdbd does not take %d records; what it says is on the head's console",
			d.records.waited)
	}
	return ""
}

// asksRecords is the pause between two looks at what is not recorded.
const asksRecords = 15 * time.Second

// recordsIn reads the number in what sdiag prints; 0 if it is not there.
func recordsIn(text string) int {
	_, rest, _ := strings.Cut(text, "DBD Agent queue size:")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0
	}
	return n
}

// beforeSlurmctld waits for munged, and for slurmdbd where there is one: slurmctld has its number from it when it starts for the
// first time, and refuses jobs of users that it does not know. Later it starts without it, if it has to.
func (d *driver) beforeSlurmctld(ctx context.Context, config *protocol.Config) error {
	if err := d.Settled(ctx); err != nil || !d.keeps {
		return err
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if d.Files.Exists(numberFile) {
		limited, cancel = context.WithTimeout(ctx, databaseGrace)
	}
	defer cancel()
	err := d.Until(limited, "tcp", net.JoinHostPort(config.Self.Address, strconv.Itoa(dbdPort)))
	if err == nil {
		err = d.enrol(ctx, loadsFirst)
	}
	if err != nil && ctx.Err() == nil {
		d.Printf("jobs are not recorded yet: %v", err)
	}
	return ctx.Err()
}
