// Package schedulertest is the contract that all drivers of schedulers pass, and a node for their tests.
package schedulertest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/drivers/scheduler"
	"muster/internal/noded/protocol"
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

// Contract is what every driver keeps.
func Contract(t *testing.T, f scheduler.Factory) {
	t.Run("it says what it is", func(t *testing.T) { describes(t, f) })
	for _, role := range []protocol.Role{protocol.Head, protocol.Compute} {
		t.Run("a "+string(role), func(t *testing.T) { serves(t, f, role) })
	}
	if f.Launch != nil {
		t.Run("no job is found where there is none", func(t *testing.T) {
			nothing := func(string) string { return "" }
			names, ranks, err := f.Launch.Nodes(nothing)
			rank, of := f.Launch.Rank(nothing)
			if names != nil || ranks != nil || err != nil || rank != "" || of != "" {
				t.Error(names, ranks, err, rank, of)
			}
		})
	}
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
	if f.MPI != "" && !strings.HasSuffix(f.MPI, "\n") {
		t.Errorf("lines for Open MPI: %q", f.MPI)
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
		if err := driver.Prepare(c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := driver.Apply(c); err != nil {
		t.Fatal(err)
	}
	before := tree(t, files)
	restart, err := driver.Apply(c)
	if diff := cmp.Diff(before, tree(t, files), cmp.AllowUnexported(file{})); err != nil || len(restart) > 0 || diff != "" {
		t.Errorf("applied again: %v, restarts %v, %s", err, restart, diff)
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
