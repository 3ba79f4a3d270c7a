package rackd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/rack"
)

// lab is a rack that is up, and what somebody in front of it has at hand.
type lab struct {
	t *testing.T
	rack.Folder
}

func newLab(t *testing.T, shape rack.Shape) lab {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: a rack needs root")
	}
	for _, tool := range []string{qemu, "ipmitool", "etherwake", "curl", "nsenter", "dnsmasq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("skipped: %s is not installed", tool)
		}
	}
	parent, err := os.MkdirTemp("", "rack") // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	l := lab{t, rack.Folder(filepath.Join(parent, "r"))}
	t.Cleanup(func() {
		log, _ := os.ReadFile(l.Log())
		if t.Failed() || bytes.Contains(log, []byte("DATA RACE")) {
			t.Errorf("the rack's log:\n%s", log)
		}
		if err := l.Down(context.Background()); err != nil {
			t.Error(err)
		}
		if err := os.Remove(parent); err != nil {
			t.Error(err)
		}
	})
	if _, err := l.up(shape); err != nil {
		t.Fatal(err)
	}
	return l
}

// in is the same rack, for a test below the one that set it up.
func (l lab) in(t *testing.T) lab {
	l.t = t
	return l
}

func (l lab) up(shape rack.Shape) (rack.State, error) {
	return l.Up(l.t.Context(), shape, []string{os.Args[0], asRack, string(l.Folder)})
}

// run runs a program in the rack's network, and returns what it says.
func (l lab) run(args ...string) (string, error) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + l.Netns()}, args...)...).
		CombinedOutput()
	return string(out), err
}

// says is run, of what must succeed and say that.
func (l lab) says(want string, args ...string) {
	l.t.Helper()
	if out, err := l.run(args...); err != nil || !strings.Contains(out, want) {
		l.t.Errorf("%s: %v: %q lacks %q", strings.Join(args, " "), err, out, want)
	}
}

// file writes one beside the rack's own, which ends with the test.
func (l lab) file(name, content string) string {
	l.t.Helper()
	path := filepath.Join(l.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return path
}

func (l lab) password() string {
	l.t.Helper()
	c, err := ensureCredentials(l.Credentials())
	if err != nil {
		l.t.Fatal(err)
	}
	return c.password
}

func (l lab) do(name, what string) {
	l.t.Helper()
	if _, err := l.Do(l.t.Context(), name, what, 0); err != nil {
		l.t.Errorf("%s %s: %v", what, name, err)
	}
}

func (l lab) look(name string) rack.Status {
	l.t.Helper()
	state, err := l.Look(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	for _, m := range state.Machines {
		if m.Name == name {
			return m
		}
	}
	l.t.Fatalf("%s is not in the rack", name)
	return rack.Status{}
}

// is checks a machine's state by what the rack says and by whether there is a process.
func (l lab) is(name, want string) {
	l.t.Helper()
	if m := l.look(name); m.State != want {
		l.t.Errorf("%s is %s, not %s", name, m.State, want)
	}
	if running := len(l.processes("-name\x00"+name+"\x00")) > 0; running != (want == "on") {
		l.t.Errorf("%s should be %s, and QEMU runs: %v", name, want, running)
	}
}

// eventually waits for what machines do in their own time.
func (l lab) eventually(what string, is func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatalf("waited for nothing: %s", what)
		}
	}
}

// processes of this rack whose arguments hold some text too.
func (l lab) processes(text string) (ids []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err == nil && bytes.Contains(line, []byte(l.Folder)) && bytes.Contains(line, []byte(text)) {
			ids = append(ids, filepath.Base(filepath.Dir(path)))
		}
	}
	return ids
}

func (l lab) console(name string) string {
	l.t.Helper()
	var text bytes.Buffer
	if err := l.Console(l.t.Context(), name, false, &text); err != nil {
		l.t.Fatal(err)
	}
	return text.String()
}

// ticks is how long a machine's QEMU has computed, in hundredths of seconds (proc(5), fields 14 and 15 of stat).
func (l lab) ticks(name string) (n int) {
	l.t.Helper()
	for _, id := range l.processes("-name\x00" + name + "\x00") {
		text, _ := os.ReadFile("/proc/" + id + "/stat")
		_, after, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(after)
		var user, system int
		if len(fields) > 12 {
			_, _ = fmt.Sscan(fields[11], &user)
			_, _ = fmt.Sscan(fields[12], &system)
		}
		n += user + system
	}
	return n
}

// dnsmasq gives the rack's machines addresses, and returns what it has said so far.
func (l lab) dnsmasq() func() string {
	l.t.Helper()
	said := filepath.Join(l.t.TempDir(), "said")
	c := exec.Command("nsenter", "--net="+l.Netns(), "dnsmasq", "--no-daemon", "--conf-file=/dev/null",
		"--user=root", "--port=0",
		"--interface="+rack.Bridge, "--bind-interfaces", "--dhcp-authoritative", "--no-ping", "--log-dhcp",
		"--dhcp-range=10.78.0.11,10.78.0.11,1h",
		"--dhcp-leasefile="+filepath.Join(l.t.TempDir(), "leases"))
	file, err := os.Create(said)
	if err != nil {
		l.t.Fatal(err)
	}
	c.Stdout, c.Stderr = file, file
	if err := c.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		file.Close()
	})
	return func() string {
		text, err := os.ReadFile(said)
		if err != nil {
			l.t.Fatal(err)
		}
		return string(text)
	}
}
