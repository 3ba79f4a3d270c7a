// Package schedulertest is the contract that all drivers of schedulers pass, and a node for their tests.
package schedulertest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/drivers/drivertest"
	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
)

// Files are below a folder of the test's own. Owners are kept, not set.
type Files struct {
	Root   string
	Owners map[string]string
}

// NewFiles returns files without any.
func NewFiles(t *testing.T) Files {
	t.Helper()
	return Files{t.TempDir(), map[string]string{}}
}

// Path is the file's on this machine.
func (f Files) Path(name string) string { return filepath.Join(f.Root, name) }

// Read returns "" for a file that is not there.
func (f Files) Read(name string) (string, error) {
	text, err := os.ReadFile(f.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

// Write makes the file be so.
func (f Files) Write(name string, content []byte, mode fs.FileMode, owner string) (changed bool, err error) {
	if old, err := os.ReadFile(f.Path(name)); err == nil && string(old) == string(content) {
		return false, nil
	}
	if err := f.Directory(filepath.Dir(name), 0o755, ""); err != nil {
		return false, err
	}
	if err := os.RemoveAll(f.Path(name)); err != nil {
		return false, err
	}
	f.Owners[name] = owner
	return true, os.WriteFile(f.Path(name), content, mode)
}

// Directory makes it and its parents.
func (f Files) Directory(name string, mode fs.FileMode, owner string) error {
	f.Owners[name] = owner
	return os.MkdirAll(f.Path(name), mode|0o700) // for the test itself, which may not be root
}

// Exists says whether it is there.
func (f Files) Exists(name string) bool {
	_, err := os.Stat(f.Path(name))
	return err == nil
}

// Host is a node where nothing runs and nothing answers.
func Host(files scheduler.Files) scheduler.Host {
	down := errors.New("nothing answers")
	return scheduler.Host{
		Files:     files,
		Run:       func(context.Context, ...string) ([]byte, error) { return nil, down },
		Dial:      func(context.Context, string, string) error { return down },
		Listening: func(int) bool { return false },
		Running:   func(string) bool { return false },
		Printf:    func(string, ...any) {},
		Go:        func(do func()) { go do() },
		Home:      func(ctx context.Context) error { return ctx.Err() },
		Accepted:  func(ctx context.Context) error { return ctx.Err() },
		GPUs:      func(protocol.Peer) []protocol.GPUFacts { return nil },
	}
}

const secret = "the credential of a cluster, which nobody may read"

func config(role protocol.Role) *protocol.Config {
	peers := []protocol.Peer{
		{Name: "head", Address: "10.77.0.2", Role: protocol.Head},
		{Name: "n1", Address: "10.77.0.3", Role: protocol.Compute, Queue: "cpu", CPUs: 2, MemoryMiB: 4096, Ready: true},
	}
	c := &protocol.Config{Revision: 1, Cluster: "cfd", ClusterID: "c1", Peers: peers, Credential: []byte(secret),
		Queues: []protocol.Queue{{Name: "cpu", Default: true}}}
	if c.Self = peers[0]; role == protocol.Compute {
		c.Self = peers[1]
	}
	return c
}

// Live is a scheduler that runs. Its functions call the contracts below with what it has.
type Live struct{ Runner, Control func(*testing.T) }

// subject is a driver with all that it is.
type subject struct {
	scheduler.Factory
	Capabilities scheduler.Capabilities
	Driver       scheduler.Driver
	Control      scheduler.Control
	Runner       scheduler.Runner
	Suspender    scheduler.Suspender
	Teller       scheduler.Teller
	Reads        scheduler.Launch
	live         *Live
}

// Contract is what every driver keeps. live is its scheduler where one runs; nil: what needs one is skipped, and is for the test
// that has one.
func Contract(t *testing.T, f scheduler.Factory, live *Live) {
	drivertest.Run(t, parts(), func(t *testing.T) subject {
		s := subject{Factory: f, Capabilities: f.Caps, Driver: f.Open(Host(NewFiles(t))), Reads: f.Launch, live: live}
		s.Control, _ = s.Driver.(scheduler.Control)
		s.Runner, _ = s.Driver.(scheduler.Runner)
		s.Suspender, _ = s.Driver.(scheduler.Suspender)
		s.Teller, _ = s.Driver.(scheduler.Teller)
		return s
	}, nil)
}

// parts are the promises, and what each of them tries.
func parts() []drivertest.Part[subject] {
	part := func(name string, run func(*testing.T, subject), tries ...string) drivertest.Part[subject] {
		return drivertest.Part[subject]{Name: name, Tries: tries, Run: run}
	}
	on := func(role protocol.Role) func(*testing.T, subject) {
		return func(t *testing.T, s subject) { serves(t, s.Factory, role) }
	}
	whole := []string{"Driver.Prepare", "Driver.Apply", "Driver.Daemons", "Driver.Checks", "Driver.Settled"}
	return []drivertest.Part[subject]{
		part("it says what it is", func(t *testing.T, s subject) { describes(t, s.Factory) }, "Factory.Name", "Factory.Title",
			"Factory.Caps", "Factory.Words", "Factory.Open"),
		part("it has a host file, or needs none", hasHostFile, "Factory.HostFile"),
		part("a head", on(protocol.Head), whole...),
		part("a compute node", on(protocol.Compute), whole...),
		part("who knows of jobs has a daemon that does", on(protocol.Head), "Capabilities.Jobs", "Capabilities.Controller"),
		part("checks that come late are there", on(protocol.Compute), "Capabilities.Late"),
		part("the credential is a secret", on(protocol.Head), "Capabilities.Credential"),
		part("accounts are kept where the image has what keeps them", keepsAccounts, "Capabilities.Accounts"),
		part("jobs are known by a process", rootOfJobs, "Capabilities.JobRoot"),
		part("programs learn on the head which nodes are ready", lists, "Capabilities.Listed"),
		part("no job is found where there is none", readsNothing, "Factory.Launch", "Launch.Nodes", "Launch.Rank"),
		part("what scripts say to it is read, or refused", readsScripts, "Factory.Script"),
		part("users have commands for their jobs, or there are none", commands, "Factory.Acts"),
		part("it runs users' programs", runs, "Runner.Submit", "Runner.Find", "Runner.Follow", "Runner.Cancel", "Runner.Launch"),
		part("it controls nodes", controls, "Control.Observe", "Control.Drain", "Control.Resume", "Control.Remove",
			"Control.End", "Control.Refuse"),
		part("it lets jobs sleep", controls, "Suspender.Suspend", "Suspender.Awake"),
		part("it tells people of jobs", controls, "Teller.Tell"),
	}
}

func hasHostFile(t *testing.T, s subject) {
	if !path.IsAbs(s.HostFile) || strings.ContainsAny(s.HostFile, " \n") {
		t.Errorf("Open MPI cannot read %q as the path of a file", s.HostFile)
	}
}

// keepsAccounts asks a head for accounts on an image that can, and on one that cannot.
func keepsAccounts(t *testing.T, s subject) {
	for _, can := range []bool{true, false} {
		files, c := NewFiles(t), config(protocol.Head)
		c.Account, c.Accounting = "aero", "full"
		for _, name := range s.Capabilities.Accounts {
			if !can {
				continue
			}
			if _, err := files.Write("/usr/sbin/"+name, nil, 0o755, ""); err != nil {
				t.Fatal(err)
			}
		}
		driver := s.Open(Host(files))
		if err := driver.Prepare(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		for _, name := range s.Capabilities.Accounts {
			is := func(d scheduler.Daemon) bool { return d.Name == name }
			if slices.ContainsFunc(driver.Daemons(c), is) != can {
				t.Errorf("%s runs where the image has what keeps accounts (%v): %v", name, can, !can)
			}
		}
	}
}

// rootOfJobs: the kernel keeps 15 bytes of a process's name.
func rootOfJobs(t *testing.T, s subject) {
	if root := s.Capabilities.JobRoot; len(root) > 15 || strings.ContainsAny(root, "/ ") {
		t.Errorf("no process is named %q", root)
	}
}

// lists has a node become ready: the head writes something else then.
func lists(t *testing.T, s subject) {
	files := NewFiles(t)
	driver, c := s.Open(Host(files)), config(protocol.Head)
	if _, err := driver.Apply(c); err != nil {
		t.Fatal(err)
	}
	before := tree(t, files)
	c.Peers[1].Ready = false
	if _, err := driver.Apply(c); err != nil {
		t.Fatal(err)
	}
	if cmp.Equal(before, tree(t, files), cmp.AllowUnexported(file{})) {
		t.Error("programs do not learn that a node is not ready")
	}
}

func readsNothing(t *testing.T, s subject) {
	nothing := func(string) string { return "" }
	names, ranks, err := s.Reads.Nodes(nothing)
	rank, of := s.Reads.Rank(nothing)
	if names != nil || ranks != nil || err != nil || rank != "" || of != "" {
		t.Error(names, ranks, err, rank, of)
	}
}

// readsScripts has scripts of commands alone, and of no sense.
func readsScripts(t *testing.T, s subject) {
	for _, script := range []string{"", "hostname", "#!/bin/sh\n# a comment\nhostname\n"} {
		if limit, err := s.Script(script); err != nil || limit != 0 {
			t.Errorf("of %q it reads %s, %v", script, limit, err)
		}
	}
	if limit, err := s.Script("\x00\xff\n#"); err != nil && limit != 0 || limit < 0 {
		t.Errorf("of what is no script it reads %s, %v", limit, err)
	}
}

// commands have the job as a word of its own, whatever it is.
func commands(t *testing.T, s subject) {
	if len(s.Acts) > 0 != s.Caps.Jobs {
		t.Errorf("jobs: %v; there are commands for %d acts", s.Caps.Jobs, len(s.Acts))
	}
	const job = "12_3; reboot"
	for act, command := range s.Acts {
		if !slices.Contains(scheduler.Acts(), act) || command == nil {
			t.Errorf("%q is none, or has no command", act)
		} else if argv := command(job); len(argv) < 2 || argv[0] == job || !slices.Contains(argv, job) {
			t.Errorf("%s: %q is no command for job %q", act, argv, job)
		}
	}
	if s.Caps.Jobs && len(s.Acts) != len(scheduler.Acts()) {
		t.Errorf("there are commands for %d acts of %d", len(s.Acts), len(scheduler.Acts()))
	}
}

const notRunning = "no scheduler runs here; the test that has one calls RunnerContract and ControlContract"

func runs(t *testing.T, s subject) {
	if s.live == nil {
		t.Skip(notRunning)
	}
	s.live.Runner(t)
}

func controls(t *testing.T, s subject) {
	if s.live == nil {
		t.Skip(notRunning)
	}
	s.live.Control(t)
}

func describes(t *testing.T, f scheduler.Factory) {
	if f.Name == "" || f.Name != strings.ToLower(f.Name) || strings.ContainsAny(f.Name, " /\n") || f.Title == "" ||
		f.Open == nil {
		t.Errorf("name %q, title %q", f.Name, f.Title)
	}
	w := f.Words
	if slices.Contains([]string{w.Leaves, w.Renews, w.HeadLeaves, w.HeadRenews, w.HeadStops, w.HeadLate}, "") ||
		strings.Count(w.HeadLate, "%s") != 1 {
		t.Errorf("it lacks words: %+v", w)
	}
	if f.Caps.Jobs != (f.Caps.Controller != "") {
		t.Errorf("who knows of jobs has a daemon that does: %+v", f.Caps)
	}
	if c := f.Caps.Credential; (c.Name == "") != (c.Bytes == 0) || c.Bytes > 0 && c.Bytes < 16 {
		t.Errorf("credential %+v", c)
	}
}

func serves(t *testing.T, f scheduler.Factory, role protocol.Role) {
	files, c := NewFiles(t), config(role)
	driver := f.Open(Host(files))
	if _, controls := driver.(scheduler.Control); controls != f.Caps.Jobs {
		t.Errorf("it controls: %v, it knows of jobs: %v", controls, f.Caps.Jobs)
	}
	if _, runs := driver.(scheduler.Runner); runs != f.Caps.Jobs {
		t.Errorf("it runs programs: %v, it knows of jobs: %v", runs, f.Caps.Jobs)
	}
	for range 2 {
		if err := driver.Prepare(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := driver.Apply(c); err != nil {
		t.Fatal(err)
	}
	before := tree(t, files)
	stale, err := driver.Apply(c)
	if diff := cmp.Diff(before, tree(t, files), cmp.AllowUnexported(file{})); err != nil || len(stale) > 0 || diff != "" {
		t.Errorf("applied again: %v, stale %v, %s", err, stale, diff)
	}
	for name, file := range before {
		if holds := strings.Contains(file.text, secret); holds && (f.Caps.Credential.Bytes == 0 || file.mode&0o077 != 0) {
			t.Errorf("%s holds the credential and has mode %v", name, file.mode)
		}
	}
	daemons := daemons(t, driver, c)
	if there := slices.Contains(daemons, f.Caps.Controller); role == protocol.Head && f.Caps.Controller != "" && !there {
		t.Errorf("no daemon %s among %v", f.Caps.Controller, daemons)
	}
	checks(t, f, driver, c, daemons)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if driver.Settled(ctx) == nil {
		t.Error("a wait goes on after its end")
	}
	if control, ok := driver.(scheduler.Control); ok && role == protocol.Head {
		if _, err := control.Observe(t.Context()); !errors.Is(err, scheduler.ErrStarting) {
			t.Errorf("it says of itself, while nothing listens: %v", err)
		}
	}
}

func daemons(t *testing.T, driver scheduler.Driver, c *protocol.Config) (names []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, d := range driver.Daemons(c) {
		if d.Name == "" || slices.Contains(names, d.Name) || len(d.Argv) == 0 || !filepath.IsAbs(d.Argv[0]) {
			t.Errorf("daemon %+v", d)
		}
		if d.Wait != nil && d.Wait(ctx) == nil {
			t.Errorf("%s starts although its node ends", d.Name)
		}
		names = append(names, d.Name)
	}
	return names
}

func checks(t *testing.T, f scheduler.Factory, driver scheduler.Driver, c *protocol.Config, daemons []string) {
	t.Helper()
	var names []string
	for _, check := range driver.Checks(c) {
		switch set := check.Name == f.Caps.Controller; {
		case check.Name == "" || slices.Contains(names, check.Name):
			t.Errorf("check %+v", check)
		case set != (check.Probe == nil):
			t.Errorf("check %s: only the one that the head's look sets has no probe", check.Name)
		case !set && (check.Every <= 0 || !slices.Contains(daemons, check.Daemon)):
			t.Errorf("check %s of daemon %q every %v", check.Name, check.Daemon, check.Every)
		case !set && check.Probe(t.Context()) == nil:
			t.Errorf("check %s passes where nothing runs", check.Name)
		}
		names = append(names, check.Name)
	}
	for _, late := range f.Caps.Late {
		if c.Self.Role == protocol.Compute && !slices.Contains(names, late) {
			t.Errorf("there is no check %s", late)
		}
	}
	if c.Self.Role == protocol.Head && f.Caps.Controller != "" && !slices.Contains(names, f.Caps.Controller) {
		t.Errorf("there is no check %s", f.Caps.Controller)
	}
}

type file struct {
	text string
	mode fs.FileMode
}

// tree is what there is, links by where they lead.
func tree(t *testing.T, files Files) map[string]file {
	t.Helper()
	found := map[string]file{}
	err := filepath.WalkDir(files.Root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, files.Root)
		if entry.Type()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(path)
			found[name] = file{text: "-> " + to}
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		found[name] = file{string(text), info.Mode().Perm()}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
