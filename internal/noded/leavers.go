package noded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/clock"
	"muster/internal/kit/osthread"
	"muster/internal/protocol"
)

// sweepEvery is how often processes of those who have left are looked for after none was found: what a job left behind, or
// a crontab of an image's own cron started.
const sweepEvery = 30 * time.Second

// leavers ends what users who have left leave behind: every process of a locked account that is not of a job.
type leavers struct {
	proc    string // /proc
	console *console

	mu    sync.Mutex     // held while processes end
	names map[int]string // by UID
	// jobRoot is the name of root's processes that all programs of a job descend from.
	jobRoot string
	due     chan struct{}
}

func newLeavers(console *console) *leavers {
	return &leavers{proc: "/proc", console: console, due: make(chan struct{}, 1)}
}

// jobsBelow says by what jobs are known; "": by nothing.
func (l *leavers) jobsBelow(root string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobRoot = root
}

// want says whose processes are to end, and has it done at once.
func (l *leavers) want(names map[int]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names = maps.Clone(names)
	clock.Wake(l.due)
}

// follow works until ctx ends.
func (l *leavers) follow(ctx context.Context) {
	for {
		l.mu.Lock()
		names := l.names
		l.mu.Unlock()
		var later <-chan time.Time
		if len(names) > 0 {
			l.sweep(ctx, names)
			later = time.After(sweepEvery)
		}
		select {
		case <-l.due:
		case <-later:
		case <-ctx.Done():
			return
		}
	}
}

// rounds bounds how often one sweep looks again. One does, but for a user whose job starts processes meanwhile.
const rounds = 20

// sweep ends the processes of these users. What it cannot end it says.
func (l *leavers) sweep(ctx context.Context, names map[int]string) {
	for _, uid := range slices.Sorted(maps.Keys(names)) {
		ended := 0
		for n := 0; n < rounds && ctx.Err() == nil; n++ {
			going, err := l.once(uid)
			if err != nil {
				l.console.printf("cannot end what %s, who has left, has running: %v", names[uid], err)
				break
			}
			if going == 0 {
				break
			}
			ended += going
			_ = clock.Sleep(ctx, 20*time.Millisecond) // for them to be collected
		}
		if ended > 0 {
			l.console.printf("ended processes of %s, who has left", names[uid])
		}
	}
}

// once ends what a user has running now, unless the user is back: once want has said so nothing more ends.
func (l *leavers) once(uid int) (ended int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, left := l.names[uid]; !left {
		return 0, nil
	}
	going, staying, err := l.look(uid)
	if err == nil && len(going) > 0 {
		err = l.end(uid, staying)
	}
	return len(going), err
}

// end kills what goes now. What stays is stopped meanwhile: none of them forks, and none is missed, as the kernel signals
// all of a user's processes in one step.
func (l *leavers) end(uid int, staying []process) error {
	if len(staying) == 0 {
		return signalAll(uid, unix.SIGKILL)
	}
	if err := signalAll(uid, unix.SIGSTOP); err != nil {
		return err
	}
	running := map[int]bool{}
	for _, p := range staying {
		running[p.pid] = p.state != 'T' // who was stopped before stays so
	}
	going, staying, err := l.look(uid)
	for _, p := range going {
		if killed := unix.Kill(p.pid, unix.SIGKILL); killed != nil && !errors.Is(killed, unix.ESRCH) {
			err = errors.Join(err, killed)
		}
	}
	for _, p := range staying {
		if was, known := running[p.pid]; was || !known {
			_ = unix.Kill(p.pid, unix.SIGCONT) // ESRCH: it has ended
		}
	}
	return err
}

// process is one in /proc.
type process struct {
	pid, parent, group, session int
	state                       byte
	name                        string
	uids                        [3]int // real, effective, saved
}

// of says that a user can have started it. A daemon of root's that acts as the user for a moment is not the user's.
func (p process) of(uid int) bool { return p.uids[0] == uid || p.uids[2] == uid }

// look lists a user's processes: those to end, and those of jobs. A job's are the descendants of root's jobRoot, and who is in a
// session with one of them, which no process can enter from outside. Dead ones that were not collected are neither.
func (l *leavers) look(uid int) (going, staying []process, err error) {
	entries, err := os.ReadDir(l.proc)
	if err != nil {
		return nil, nil, fmt.Errorf("list processes: %w", err)
	}
	all := map[int]process{}
	any := false
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if p, ok := l.read(pid); ok && p.state != 'Z' && p.state != 'X' {
			all[pid] = p
			any = any || p.of(uid)
		}
	}
	if !any {
		return nil, nil, nil
	}
	sessions := map[int]bool{} // of jobs
	for pid, p := range all {
		if p.of(uid) && l.inJob(all, pid) {
			sessions[p.session] = true
		}
	}
	for pid, p := range all {
		switch {
		case !p.of(uid):
		case sessions[p.session] || l.inJob(all, pid):
			staying = append(staying, p)
		default:
			going = append(going, p)
		}
	}
	return going, staying, nil
}

// inJob says that a process is a job's.
func (l *leavers) inJob(all map[int]process, pid int) bool {
	for range len(all) { // no further: what is read one after the other may go round
		p, ok := all[pid]
		if !ok {
			return false
		}
		if p.name == l.jobRoot && p.uids[0] == 0 { // users name their own processes, but not root's
			program, err := os.Readlink(filepath.Join(l.proc, strconv.Itoa(pid), "exe"))
			return err != nil || strings.HasPrefix(filepath.Base(program), l.jobRoot) // Debian's has an ending
		}
		pid = p.parent
	}
	return false
}

// read reads a process; false: it has gone.
func (l *leavers) read(pid int) (p process, ok bool) {
	dir := filepath.Join(l.proc, strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	// pid (name) state parent group session …; a name may hold anything.
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if err != nil || open < 0 || end < open || len(stat) < end+3 {
		return p, false
	}
	p.pid, p.name, p.state = pid, string(stat[open+1:end]), stat[end+2]
	if _, err := fmt.Sscan(string(stat[end+3:]), &p.parent, &p.group, &p.session); err != nil {
		return p, false
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return p, false
	}
	_, uids, _ := strings.Cut(string(status), "\nUid:")
	_, err = fmt.Sscan(uids, &p.uids[0], &p.uids[1], &p.uids[2])
	return p, err == nil
}

// nobodys is a user ID that no process has: one of the last that every node has.
const nobodys = protocol.Users - 16

// signalAll signals all processes of a user at once, as kill(2) does for that user with -1. It is asked by a thread that is
// the user in effect and somebody else in its other IDs: so it may signal the user's processes, and no other user's, and they may
// not signal it.
func signalAll(uid int, sig syscall.Signal) error {
	if uid < firstUID {
		return fmt.Errorf("user ID %d is not a user's", uid)
	}
	return osthread.Spend(func() error {
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobodys, uintptr(uid), nobodys); errno != 0 {
			return fmt.Errorf("become user %d: %w", uid, errno)
		}
		_, _, errno := unix.RawSyscall(unix.SYS_KILL, ^uintptr(0), uintptr(sig), 0)
		if errno != 0 && errno != unix.ESRCH {
			return fmt.Errorf("signal user %d: %w", uid, errno)
		}
		return nil
	})
}
