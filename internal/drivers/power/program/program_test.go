package program_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/internal/drivers/power"
	"muster/internal/drivers/power/powertest"
	"muster/internal/drivers/power/program"
)

// site is a directory of programs, and a driver for one of them.
func site(t *testing.T, script, control, credentials string) (power.Driver, string) {
	t.Helper()
	powertest.NeedRoot(t)
	dir := t.TempDir()
	powertest.Write(t, filepath.Join(dir, "pdu"), 0o700, "#!/bin/sh\n"+script)
	return powertest.Open(t, program.Factory(), dir, powertest.Target("", control, credentials)), dir
}

func TestACommandSeesItsArgumentsAndNothingElse(t *testing.T) {
	t.Setenv("MUSTER_TEST_SECRET", password)
	out := filepath.Join(t.TempDir(), "seen")
	d, _ := site(t, `exec >`+out+`; pwd; printf '<%s>' "$@"; echo; env | sort; cat`,
		"command:pdu?arg=a%20b;touch%20x&arg=$(id)&arg=", powertest.Secret(t))
	if err := d.On(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var environment []string
	for _, line := range lines[2 : len(lines)-1] {
		// the shell's own
		if name, _, _ := strings.Cut(line, "="); name != "PWD" && name != "_" && name != "SHLVL" && name != "OLDPWD" {
			environment = append(environment, line)
		}
	}
	if lines[0] != "/" || lines[1] != "<a b;touch x><$(id)><><on>" || lines[len(lines)-1] != user+":"+password {
		t.Errorf("the program saw %q", lines)
	}
	wanted := "LANG=C.UTF-8 MUSTER_MACHINE=n1 MUSTER_MACS=52:54:00:00:00:01 " +
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if got := strings.Join(environment, " "); got != wanted {
		t.Errorf("the program's environment is %s", got)
	}
}

func TestWhatACommandSays(t *testing.T) {
	secret := powertest.Secret(t)
	for _, c := range []struct {
		script string
		state  power.State
		err    string // a part of it; "": none
	}{
		{"echo on", power.On, ""},
		{"printf off", power.Off, ""},
		{"exit 3", power.Unknown, ""},
		{"echo On", power.Unknown, "neither on nor off"},
		{"true", power.Unknown, "neither on nor off"},
		{"yes on", power.Unknown, "deadline"},
		{"yes on | head -c 10000000; exit 1", power.Unknown, "exit status 1: it said nothing"},
		{"echo 'no such outlet' >&2; exit 1", power.Unknown, "exit status 1: it said: no such outlet"},
		{"read -r all; echo \"$all\" >&2; exit 1", power.Unknown, "(password)"},
		{"read -r all; echo \"$all\"", power.Unknown, "neither on nor off"},
		{"exit 4", power.Unknown, "credentials"},
		{"printf 'a\\033[2Jb\\nc' >&2; exit 1", power.Unknown, "it said: a [2Jb c"},
		{"kill -9 $$", power.Unknown, "signal: killed"},
		{"echo on; sleep 60 & exit 0", power.Unknown, "WaitDelay"}, // what it leaves behind holds its output
	} {
		t.Run(c.script, func(t *testing.T) {
			d, _ := site(t, c.script, "command:pdu", secret)
			limit := time.Minute
			if c.err == "deadline" {
				limit = 900 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			state, err := d.State(ctx)
			if state != c.state || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s, %v; not %s, %s", state, err, c.state, c.err)
			}
			if err != nil && strings.Contains(err.Error(), password) {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
	d, _ := site(t, "exit 3", "command:pdu", "")
	if err := d.Off(t.Context()); !errors.Is(err, power.ErrUnsupported) {
		t.Errorf("%v; it cannot, and said so", err)
	}
}

func TestACommandEndsWithAllThatItStarted(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	d, _ := site(t, `sleep 60 & echo $! >`+pids+`; wait`, "command:pdu", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for text := []byte(nil); ctx.Err() == nil && !bytes.HasSuffix(text, []byte("\n")); time.Sleep(5 * time.Millisecond) {
			text, _ = os.ReadFile(pids)
		}
		cancel()
	}()
	if err := d.On(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for alive(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// alive says whether a process runs; one that has not been reaped yet does not.
func alive(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(status), ") Z ")
}

func TestOnlyRootDecidesWhatIsRun(t *testing.T) {
	for name, c := range map[string]struct {
		change func(dir, file string) error
		why    string
	}{
		"the group may write it":      {func(_, file string) error { return os.Chmod(file, 0o770) }, "chmod go-w"},
		"others may write it":         {func(_, file string) error { return os.Chmod(file, 0o702) }, "chmod go-w"},
		"it is another's":             {func(_, file string) error { return os.Chown(file, 4242, 0) }, "belongs to user 4242"},
		"it is not executable":        {func(_, file string) error { return os.Chmod(file, 0o600) }, "chmod +x"},
		"others may write its folder": {func(dir, _ string) error { return os.Chmod(dir, 0o777) }, "chmod go-w"},
		"its folder is another's":     {func(dir, _ string) error { return os.Chown(dir, 4242, 0) }, "belongs to user 4242"},
		"it is a link":                {func(_, file string) error { return relink(file, "/bin/true") }, "no plain file"},
		"it is a folder": {func(_, file string) error {
			return redo(file, func() error { return os.Mkdir(file, 0o700) })
		}, "no plain file"},
		"it is a pipe": {func(_, file string) error {
			return redo(file, func() error { return syscall.Mkfifo(file, 0o700) })
		}, "no plain file"},
		"it is not there": {func(_, file string) error { return os.Remove(file) }, "no such file"},
		"it is no program of this host": {func(_, file string) error {
			return os.WriteFile(file, []byte("\x7fELF"), 0o700)
		}, "exec format error"},
	} {
		t.Run(name, func(t *testing.T) {
			d, dir := site(t, "echo on", "command:pdu", "")
			if state, err := d.State(t.Context()); err != nil || state != power.On {
				t.Fatal(state, err)
			}
			if err := c.change(dir, filepath.Join(dir, "pdu")); err != nil {
				t.Fatal(err)
			}
			if state, err := d.State(t.Context()); err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s, %v; it should say %q", state, err, c.why)
			}
		})
	}
	if _, err := (power.Registry{program.Factory()}).Open(power.Site{}, powertest.Target("", "command:pdu", "")); err == nil ||
		!strings.Contains(err.Error(), "no directory") {
		t.Errorf("a site without a directory: %v", err)
	}
}

func relink(name, to string) error { return redo(name, func() error { return os.Symlink(to, name) }) }

func redo(name string, do func() error) error {
	if err := os.Remove(name); err != nil {
		return err
	}
	return do()
}
