package slurm

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/drivers/scheduler/schedulertest"
	"muster/internal/protocol"
)

func accountingHead(t *testing.T, image bool) (*driver, *protocol.Config) {
	files := schedulertest.NewFiles(t)
	if image {
		for _, program := range []string{databaseProgram, dbdProgram} {
			if _, err := files.Write(program, nil, 0o755, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	self := protocol.Peer{Name: "head", Address: "10.77.0.2", Role: protocol.Head, MemoryMiB: 4096}
	return open(schedulertest.Host(files)), &protocol.Config{Cluster: "cfd", Account: "aero", Self: self,
		Peers: []protocol.Peer{self}, Users: []protocol.User{{Name: "bob"}, {Name: "alice"}}}
}

// begin has the driver start with a configuration, as a node does.
func begin(t *testing.T, d *driver, config *protocol.Config) {
	t.Helper()
	err := d.Prepare(t.Context(), config)
	if err == nil {
		_, err = d.Apply(config)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAccountsAreKeptWhereTheHeadHasMemoryForThem(t *testing.T) {
	for _, c := range []struct {
		name    string
		image   bool
		role    protocol.Role
		account string
		says    string
		memory  int
		want    bool
	}{
		{"enough", true, protocol.Head, "aero", "", 1024, true},
		{"not known", true, protocol.Head, "aero", "", 0, true},
		{"too little", true, protocol.Head, "aero", "", 1023, false},
		{"too little, and the file wants it", true, protocol.Head, "aero", "full", 512, true},
		{"the file does not", true, protocol.Head, "aero", "none", 4096, false},
		{"an image without a database", false, protocol.Head, "aero", "full", 4096, false},
		{"a controller that names no account", true, protocol.Head, "", "", 4096, false},
		{"a compute node", true, protocol.Compute, "aero", "full", 4096, false},
	} {
		d, config := accountingHead(t, c.image)
		config.Self.Role, config.Self.MemoryMiB, config.Account, config.Accounting = c.role, c.memory, c.account, c.says
		if c.role == protocol.Compute {
			config.Peers = append(config.Peers, config.Self)
		}
		begin(t, d, config)
		text, err := d.Files.Read(confFile)
		if err != nil || strings.Contains(text, "AccountingStorageHost=10.77.0.2\n") != c.want {
			t.Errorf("%s: %q, %v", c.name, text, err)
		}
		var names []string
		for _, daemon := range d.Daemons(config) {
			names = append(names, daemon.Name)
		}
		want := "munged slurmctld"
		switch {
		case c.want:
			want = "munged mariadbd slurmdbd slurmctld" // each is there before, and ends after, who needs it
		case c.role == protocol.Compute:
			want = "munged slurmd"
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", c.name, got, want)
		}
	}
}

func TestMembersAreLoadedOnceAndAgainAfterAFailure(t *testing.T) {
	d, config := accountingHead(t, true)
	var ran []string
	broken := errors.New("no")
	d.Control = Control{func(_ context.Context, argv ...string) ([]byte, error) {
		ran = append(ran, strings.Join(argv, " "))
		return nil, broken
	}}
	enrol := func(fails, runs bool) {
		t.Helper()
		ran = nil
		if err := d.enrol(t.Context(), loads); (err != nil) != fails || (len(ran) > 0) != runs {
			t.Errorf("%v, it ran %q", err, ran)
		}
	}
	enrol(false, false)
	begin(t, d, config)
	enrol(true, true)
	enrol(false, false) // so soon again
	broken = nil
	d.books.tried = time.Time{}
	enrol(false, true)
	enrol(false, false)
	const want = `Cluster - 'cfd'
Parent - 'root'
Account - 'aero':Description='aero':Organization='aero'
Parent - 'aero'
User - 'alice':DefaultAccount='aero'
User - 'bob':DefaultAccount='aero'
`
	if text, err := d.Files.Read(membersFile); err != nil || text != want {
		t.Errorf("%q, %v", text, err)
	}
	config.Users = append(config.Users, protocol.User{Name: "carol"})
	begin(t, d, config)
	enrol(false, true)
}

func TestSharesAreThoseOfTheClusterFile(t *testing.T) {
	d, config := accountingHead(t, true)
	d.Control = Control{func(context.Context, ...string) ([]byte, error) { return nil, nil }}
	for _, step := range []struct {
		shares map[string]int
		want   string // of alice, and of bob
	}{{nil, "'' ''"}, {map[string]int{"bob": 3, "gone": 7}, "'':Fairshare=1 '':Fairshare=3"}, {map[string]int{"alice": 0},
		"'':Fairshare=0 '':Fairshare=1"}, {nil, "'':Fairshare=1 '':Fairshare=1"}} {
		config.Shares = step.shares
		begin(t, d, config)
		d.books.tried = time.Time{}
		if err := d.enrol(t.Context(), loads); err != nil {
			t.Fatal(err)
		}
		text, err := d.Files.Read(membersFile)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(text) {
			if _, rest, user := strings.Cut(strings.TrimSpace(line), "DefaultAccount='aero"); user {
				got = append(got, "'"+rest)
			}
		}
		if !slices.Equal(got, strings.Fields(step.want)) {
			t.Errorf("%v: %q, want %s", step.shares, got, step.want)
		}
	}
}

func TestWhatIsNotRecordedIsTold(t *testing.T) {
	d, config := accountingHead(t, true)
	runs, waits := map[string]bool{}, "0"
	d.Running = func(daemon string) bool { return runs[daemon] }
	d.Control = Control{func(context.Context, ...string) ([]byte, error) {
		return []byte("Server thread count:  2\nDBD Agent queue size:   " + waits + "\n\nJobs submitted: 7\n"), nil
	}}
	says := func(want string) {
		t.Helper()
		d.records.at = time.Time{}
		if got := d.unrecorded(t.Context()); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	says("")
	begin(t, d, config)
	says("mariadbd does not run")
	runs[mariadbd] = true
	says("slurmdbd does not run")
	runs[slurmdbd] = true
	says("")
	waits = "7"
	says("") // they may be on their way
	says("does not take 7 records")
	waits = "3"
	says("")
	waits = "0"
	says("")
}

// TestADatabaseIsThereAsAWholeOrNotAtAll: what an earlier try has left is not taken for one.
func TestADatabaseIsThereAsAWholeOrNotAtAll(t *testing.T) {
	d, _ := accountingHead(t, true)
	half := databaseDir + ".begun/mysql/half"
	fails := errors.New("no")
	d.Run = func(_ context.Context, argv ...string) ([]byte, error) {
		if d.Files.Exists(half) {
			t.Error("what was left is there")
		}
		if _, err := d.Files.Write(half, nil, 0o600, ""); err != nil {
			t.Fatal(err)
		}
		return nil, fails
	}
	for _, want := range []bool{false, false, true} {
		if want {
			fails = nil
		}
		if err := d.database(t.Context()); err != nil || d.Files.Exists(databaseDir+"/mysql/half") != want {
			t.Errorf("%v; it is there: %v", err, !want)
		}
	}
	d.Run = func(context.Context, ...string) ([]byte, error) { t.Error("it is made again"); return nil, nil }
	if err := d.database(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAnImageThatCannotRecordJobsIsTold(t *testing.T) {
	for says, want := range map[string]string{"full": "the image lacks slurmdbd or mariadbd", "": "", "none": ""} {
		d, config := accountingHead(t, false)
		config.Accounting = says
		begin(t, d, config)
		if got := d.unrecorded(t.Context()); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("accounting %q: %q", says, got)
		}
	}
}

// TestARunningHeadDoesNotBeginToKeepAccounts: its daemons are those that it started with.
func TestARunningHeadDoesNotBeginToKeepAccounts(t *testing.T) {
	d, config := accountingHead(t, true)
	config.Self.MemoryMiB = 800
	begin(t, d, config)
	config.QOS = []protocol.QOS{{Name: "short"}}
	if _, err := d.Apply(config); err != nil {
		t.Fatal(err)
	}
	text, err := d.Files.Read(confFile)
	if err != nil || strings.Contains(text, "AccountingStorageType") || len(d.Daemons(config)) != 2 {
		t.Errorf("it keeps accounts: %v\n%s", err, text)
	}
	if got := d.unrecorded(t.Context()); !strings.Contains(got, "before the head reboots") {
		t.Errorf("it is not told: %q", got)
	}
	begin(t, d, config)
	if len(d.Daemons(config)) != 4 || d.unkept.Load() {
		t.Error("nor does it when it starts again")
	}
}

// TestACopyOfAClusterBeginsWithoutItsAccounts: under its own name it goes on with them. A cluster that had none takes its number
// from slurmdbd.
func TestACopyOfAClusterBeginsWithoutItsAccounts(t *testing.T) {
	for _, c := range []struct {
		name, number    string
		kept            bool // the accounts are there, and are kept
		says            string
		numbered, holds bool // afterwards
	}{
		{"its own", "cfd|2817", true, "full", true, true},
		{"another's", "other|2817", true, "full", false, false},
		{"another's, and none are wanted", "other|2817", true, "none", false, false},
		{"its own, and it has none yet", "cfd|2817", false, "full", false, false},
		{"its own, and none are wanted", "cfd|2817", false, "none", true, false},
	} {
		d, config := accountingHead(t, true)
		config.Accounting = c.says
		files := map[string]string{numberFile: c.number}
		if c.kept {
			files[databaseDir+"/ibdata1"] = "jobs"
		}
		for file, text := range files {
			if err := d.Files.Directory(filepath.Dir(file), 0o700, ""); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Files.Write(file, []byte(text), 0o600, ""); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Prepare(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		for file, want := range map[string]bool{numberFile: c.numbered, databaseDir: c.holds} {
			if d.Files.Exists(file) != want {
				t.Errorf("%s: %s is there: %v", c.name, file, !want)
			}
		}
	}
}
