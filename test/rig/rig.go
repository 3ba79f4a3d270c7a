// Package rig runs the real binary for tests: controllers that can be stopped, killed and started again, and the command
// line as a user types it. It looks for what is left behind.
package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"muster/internal/hostd"
	"muster/internal/kit/locks"
)

// Rig is one data directory and the controllers on it.
type Rig struct {
	testing.TB
	Binary string
	Data   string
	DB     string   // "" for SQLite
	Site   string   // path of a site file; "" for the built-in catalogue
	Flags  []string // further ones of controllers
	Token  string   // of who types the commands; "" for the administrator
	before host
	seen   *seen
}

// seen is what waits look at and end with; a rig in other hands or in a subtest has the same.
type seen struct {
	lock        sync.Mutex
	controllers []*Controller
	command     string // the last one, and what it printed
}

// New builds the binary and prepares a data directory with the image. Where root or the image is missing the test is
// skipped and says so. At its end nothing of the rig may be left on the host.
func New(t testing.TB, db string) *Rig {
	t.Helper()
	image := Image(t)
	data, err := os.MkdirTemp("", "muster-rig-")
	if err != nil {
		t.Fatal(err)
	}
	r := &Rig{TB: t, Binary: build(t), Data: data, DB: db, before: look(t, data), seen: &seen{}}
	t.TempDir() // it goes in the reverse order: the site file is there when what a failed test has left is cleared
	t.Cleanup(func() {
		if t.Failed() && os.Getenv("MUSTER_KEEP") != "" {
			t.Logf("kept: %s", data)
			return
		}
		r.clear()
	})
	r.Run("images", "import", image, "--name", "debian13-hpc", "--data", data)
	if inspector, err := built(t, "inspector"); err == nil {
		r.Run("images", "import", inspector, "--name", "inspector", "--data", data)
	}
	return r
}

// Import gives it one more image; the test is skipped where that was not built.
func (r *Rig) Import(name string) {
	r.Helper()
	folder, err := built(r, name)
	if err != nil {
		r.Skipf("image %s is not there; `make test-all` builds it", name)
	}
	r.Run("images", "import", folder, "--name", name, "--data", r.Data)
}

// In is the rig in a subtest: failures are that subtest's.
func (r *Rig) In(t testing.TB) *Rig {
	in := *r
	in.TB = t
	return &in
}

// As is the rig in the hands of the bearer of a token.
func (r *Rig) As(token string) *Rig {
	as := *r
	as.Token = token
	return &as
}

// Image is the folder of the image that tests use.
func Image(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("nodes are not tested: this needs root")
	}
	folder, err := built(t, "debian13-hpc")
	if err != nil {
		t.Skip("nodes are not tested: there is no image; `make image` builds it")
	}
	return folder
}

// built is the folder of an image of this name that was built for tests.
func built(t testing.TB, name string) (string, error) {
	store := os.Getenv("MUSTER_TEST_IMAGES")
	if store == "" {
		store = filepath.Join(Root(t), "build/images")
	}
	return filepath.EvalSymlinks(filepath.Join(store, name, "latest"))
}

// Root is the top of the tree.
func Root(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// build makes the programs, as `make build` does, in a folder that all tests share: what is up to date there is not linked
// again.
func build(t testing.TB) string {
	t.Helper()
	root := Root(t)
	dir := filepath.Join(root, "build/rig")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	release, err := locks.Wait(t.Context(), filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	first, binary, overlay := filepath.Join(dir, "muster-init"), filepath.Join(dir, "muster"), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(root, "internal/boot/initramfs/built/muster-init"): first}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-o", first, "muster/cmd/muster-init"},
		{"-overlay", overlay, "-o", binary, "muster/cmd/muster"},
		{"-o", binary + "-rack", "muster/cmd/muster-rack"},
	} {
		c := exec.Command("go", append([]string{"build", "-trimpath", "-ldflags", "-s -w"}, args...)...)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	return binary
}

// patience bounds what only a failure takes so long. In `make test-all` machines of other tests are emulated on the same cores.
func patience() time.Duration {
	if testing.Short() {
		return 5 * time.Minute
	}
	return 15 * time.Minute
}

// Controller is a running `muster serve`.
type Controller struct {
	*exec.Cmd
	rig   *Rig
	URL   string
	Log   string // path
	done  chan struct{}
	ended atomic.Bool // by the test
}

// Start starts a controller and waits until it answers.
func (r *Rig) Start() *Controller {
	r.Helper()
	log, err := os.CreateTemp(r.Data, "controller-*.log")
	if err != nil {
		r.Fatal(err)
	}
	_ = os.Remove(filepath.Join(r.Data, "controller.json"))
	c := &Controller{rig: r, Log: log.Name(), done: make(chan struct{})}
	c.Cmd = exec.Command(r.Binary, append([]string{"serve", "--data", r.Data, "--listen", "127.0.0.1:0", "--config", r.Site},
		r.Flags...)...)
	c.Env = append(os.Environ(), "MUSTER_DB="+r.DB)
	c.Stdout, c.Stderr = log, log
	if err := c.Cmd.Start(); err != nil {
		r.Fatal(err)
	}
	_ = log.Close()
	go func() { _ = c.Cmd.Wait(); close(c.done) }()
	r.seen.lock.Lock()
	r.seen.controllers = append(r.seen.controllers, c)
	r.seen.lock.Unlock()
	r.Cleanup(func() {
		if r.Failed() && c.runs() {
			r.explain()
		}
		c.Kill()
	})
	for deadline := time.Now().Add(patience()); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		select {
		case <-c.done:
			r.Fatalf("the controller ended:\n%s", c.Tail())
		default:
		}
		var announced struct {
			URL string `json:"url"`
			PID int    `json:"pid"`
		}
		text, err := os.ReadFile(filepath.Join(r.Data, "controller.json"))
		if err != nil || json.Unmarshal(text, &announced) != nil || announced.PID != c.Process.Pid {
			continue
		}
		if response, err := http.Get(announced.URL + "/readyz"); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				c.URL = announced.URL
				return c
			}
		}
	}
	r.Fatalf("the controller does not answer:\n%s", c.Tail())
	return nil
}

func (c *Controller) runs() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// Tail is the end of the controller's log.
func (c *Controller) Tail() string {
	text, _ := os.ReadFile(c.Log)
	return string(text[max(0, len(text)-4000):])
}

// Agents are the processes of the agents of its host.
func (c *Controller) Agents() []int {
	var pids []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", c.Process.Pid))
	for _, path := range lists {
		text, _ := os.ReadFile(path)
		for _, word := range strings.Fields(string(text)) {
			line, _ := os.ReadFile("/proc/" + word + "/cmdline")
			if pid, err := strconv.Atoi(word); err == nil && strings.HasSuffix(string(line), "\x00"+hostd.Verb+"\x00") {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Kill ends the controller as a power cut would.
func (c *Controller) Kill() {
	c.ended.Store(true)
	_ = c.Process.Signal(syscall.SIGCONT)
	_ = c.Process.Kill()
	<-c.done
}

// Stop ends it politely and fails the test if it does not go within a minute.
func (c *Controller) Stop() {
	c.rig.Helper()
	c.ended.Store(true)
	_ = c.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		c.rig.Errorf("the controller did not stop:\n%s", c.Tail())
		c.Kill()
	}
}

// Result is what a command printed and how it ended.
type Result struct {
	Out, Err string
	Code     int
}

// Muster runs the command line and returns what it did.
func (r *Rig) Muster(args ...string) Result {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience())
	defer cancel()
	c := exec.CommandContext(ctx, r.Binary, args...)
	c.Cancel, c.WaitDelay = func() error { return c.Process.Signal(os.Interrupt) }, 10*time.Second // it ends what it has started
	c.Env = append(os.Environ(), "MUSTER_DATA="+r.Data, "MUSTER_URL=", "MUSTER_TOKEN="+r.Token)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.Fatalf("muster %s: %v", strings.Join(args, " "), err)
	}
	result := Result{out.String(), errs.String(), c.ProcessState.ExitCode()}
	r.seen.lock.Lock()
	r.seen.command = fmt.Sprintf("muster %s: exit %d\n%s%s", strings.Join(args, " "), result.Code, result.Out, result.Err)
	r.seen.lock.Unlock()
	return result
}

// Run is Muster for commands that must succeed; it returns their standard output.
func (r *Rig) Run(args ...string) string {
	r.Helper()
	result := r.Muster(args...)
	if result.Code != 0 {
		r.Fatalf("muster %s: exit %d\n%s%s", strings.Join(args, " "), result.Code, result.Out, result.Err)
	}
	return result.Out
}

// Get runs a command with -o json and reads its output into value.
func (r *Rig) Get(value any, args ...string) {
	r.Helper()
	out := r.Run(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), value); err != nil {
		r.Fatalf("muster %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// File writes a cluster file and returns its path.
func (r *Rig) File(name, text string) string {
	r.Helper()
	path := filepath.Join(r.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
	return path
}

// NothingLeft fails the test for everything of this rig that is still on the host: call it when all clusters are
// deleted. Controllers may run.
func (r *Rig) NothingLeft() {
	r.Helper()
	now := look(r, r.Data)
	for _, left := range now.minus(r.before) {
		r.Errorf("left over: %s", left)
	}
}

// clear removes what a failed test has left, so that the next one starts on a clean host.
func (r *Rig) clear() {
	if now := look(r, r.Data); len(now.minus(r.before)) > 0 {
		c := r.Start()
		var list struct {
			Items []struct{ Name string }
		}
		r.Get(&list, "list")
		for _, item := range list.Items {
			r.Muster("delete", item.Name, "--wait", "--timeout", "1m") // machines that it had may be gone
		}
		c.Stop()
	}
	if err := os.RemoveAll(r.Data); err != nil {
		r.Errorf("cannot clear %s: %v", r.Data, err)
	}
}

// Until waits until ok is true, for as long as a busy machine may take.
func (r *Rig) Until(what string, ok func() bool) {
	r.Helper()
	r.Eventually(patience(), what, ok)
}

// Eventually waits until ok is true, which is promised to take no longer than the limit. It ends early when a controller has
// ended that the test did not end, and says what was seen last.
func (r *Rig) Eventually(limit time.Duration, what string, ok func() bool) {
	r.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if ok() {
			return
		}
		if c := r.seen.crashed(); c != nil {
			r.Fatalf("while waiting until %s the controller ended:\n%s", what, c.Tail())
		}
	}
	r.Fatalf("not within %s: %s; last seen:\n%s", limit, what, r.seen.last())
}

// crashed is a controller that has ended by itself; nil if there is none.
func (s *seen) crashed() *Controller {
	s.lock.Lock()
	defer s.lock.Unlock()
	i := slices.IndexFunc(s.controllers, func(c *Controller) bool { return !c.runs() && !c.ended.Load() })
	if i < 0 {
		return nil
	}
	return s.controllers[i]
}

func (s *seen) last() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.command[max(0, len(s.command)-4000):]
}

// Names says that a text has a name, and not as a part of an ID, which is made at random.
func Names(text, name string) bool {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(text)
}
