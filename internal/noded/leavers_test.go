package noded

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// left is a user that no other process of the test's host has.
const left = 61234

// as starts a program as that user, in a session of its own.
func as(t *testing.T, uid int, argv ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if uid > 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	must(t, c.Start())
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = unix.Kill(-c.Process.Pid, unix.SIGKILL)
		select {
		case <-ended:
		case <-time.After(2 * time.Minute):
			t.Errorf("%q goes on", argv)
		}
	})
	return c
}

// running counts the user's processes.
func running(t *testing.T, l *leavers) int {
	t.Helper()
	going, staying, err := l.look(left)
	must(t, err)
	return len(going) + len(staying)
}

func untilSo(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so: %s", what)
		}
	}
}

// noisy is a console that can be read.
type noisy struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *noisy) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *noisy) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// TestWhoHasLeftLeavesNoProcessButJobs starts what a user can start so that it outlives a session.
func TestWhoHasLeftLeavesNoProcessButJobs(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: processes of other users are root's to end")
	}
	for _, tool := range []string{"perl", "dash", "setpriv", "nohup"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("skipped: %s is not installed", tool)
		}
	}
	said := &noisy{}
	l := newLeavers(&console{out: said})
	l.jobsBelow("slurmstepd")
	t.Cleanup(func() { _ = signalAll(left, unix.SIGKILL) })
	other := as(t, left+1, "sleep", "1000")

	// A job: root's slurmstepd with a task of the user's, which has a child that ignores what can be ignored, and one whose
	// parent ended.
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	step := filepath.Join(dir, "slurmstepd")
	dash, err := exec.LookPath("dash")
	must(t, err)
	text, err := os.ReadFile(dash)
	must(t, err)
	must(t, os.WriteFile(step+"-wlm", text, 0o755)) // as in Debian
	must(t, os.Symlink(step+"-wlm", step))
	as(t, 0, step, "-c", "setpriv --reuid "+strconv.Itoa(left)+" --regid "+strconv.Itoa(left)+
		" --clear-groups dash -c '(sleep 1001 &); sleep 1002 & wait' & wait")
	untilSo(t, "the job runs", func() bool { return running(t, l) == 3 })

	// In the order of how hard they are to catch.
	as(t, left, "nohup", "dash", "-c", "trap '' TERM HUP INT; while :; do sleep 1; done")
	for range 3 { // each generation lives a moment
		as(t, left, "perl", "-e", "use POSIX; while(1){POSIX::_exit(0) if fork}")
	}
	as(t, left, "perl", "-e", "$0='slurmstepd'; for(1..20){last unless fork} while(1){if(!fork){exit} wait}")
	// lets others go on
	as(t, left, "perl", "-e", "sleep 1; $SIG{TERM}='IGNORE'; while(1){kill 'CONT', -1; select undef,undef,undef,0.0005}")
	untilSo(t, "they run", func() bool { return running(t, l) > 10 })

	l.want(map[int]string{left: "bob"})
	l.sweep(t.Context(), map[int]string{left: "bob"})
	untilSo(t, "only the job is left", func() bool {
		going, staying, err := l.look(left)
		must(t, err)
		return len(going) == 0 && len(staying) == 3
	})
	_, staying, err := l.look(left)
	must(t, err)
	for _, p := range staying {
		if p.state == 'T' {
			t.Errorf("process %d of the job is stopped", p.pid)
		}
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Error("another user's process:", err)
	}
	if !strings.Contains(said.String(), "bob") {
		t.Errorf("said: %q", said)
	}

	// When the job has ended nothing is left; and nothing can be made again faster than it ends.
	as(t, left, "perl", "-e", "while(1){exit if fork}")
	for _, p := range staying {
		_ = unix.Kill(p.pid, unix.SIGKILL)
	}
	untilSo(t, "nothing is left", func() bool {
		l.want(map[int]string{left: "bob"})
		l.sweep(t.Context(), map[int]string{left: "bob"})
		return running(t, l) == 0
	})
}

// TestEndingALeaverEndsNobodyElse asks for those who must never be ended.
func TestEndingALeaverEndsNobodyElse(t *testing.T) {
	for _, uid := range []int{-1, 0, 1, firstUID - 1} {
		if err := signalAll(uid, 0); err == nil {
			t.Errorf("user %d was signalled", uid)
		}
	}
}

func TestLeaversAreLookedForAgain(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: processes of other users are root's to end")
	}
	l := newLeavers(&console{out: &noisy{}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.follow(ctx) }()
	as(t, left, "sleep", "1000")
	untilSo(t, "it runs", func() bool { return running(t, l) == 1 })
	l.want(map[int]string{left: "bob"})
	untilSo(t, "it ended", func() bool { return running(t, l) == 0 })
	l.want(nil) // back again
	as(t, left, "sleep", "1000")
	untilSo(t, "it runs", func() bool { return running(t, l) == 1 })
	l.want(map[int]string{left + 5: "eve"})
	time.Sleep(100 * time.Millisecond)
	if running(t, l) != 1 {
		t.Error("it was ended though its user is back")
	}
	l.want(map[int]string{left: "bob"})
	untilSo(t, "it ended", func() bool { return running(t, l) == 0 })
	cancel()
	<-done
}
