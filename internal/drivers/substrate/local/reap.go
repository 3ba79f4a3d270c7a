package local

import (
	"maps"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate/onhost"
)

// wards are the first processes that this Driver started. No other process than this one can be the parent that has to
// collect them, even if another replica removes their node; and what this one did not start is not its child. So this
// is the one thing that is rightly kept in memory.
type wards struct {
	mu   sync.Mutex
	boot map[onhost.Process]boot
}

func newWards() *wards { return &wards{boot: map[onhost.Process]boot{}} }

func (w *wards) add(p onhost.Process, b boot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.boot[p] = b
}

// collect takes the dead ones off our hands, if they are our children, and keeps their exit status for Observe. It is
// called often, never waits, and costs a call of the kernel for each node.
func (w *wards) collect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.boot, func(p onhost.Process, b boot) bool {
		var nothing unix.Siginfo
		if unix.Waitid(unix.P_PID, p.PID, &nothing, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == nil && nothing.Signo == 0 {
			return false // a child that lives
		}
		state := p.State()
		if state == 'Z' {
			collect(p, b)
		}
		return state == 'Z' || state == 0
	})
}

// collect expects a dead process, which keeps its pid until its parent asks: the pid means no other one. If it is not
// our child, the kernel says so and nothing happens.
func collect(p onhost.Process, b boot) {
	var status unix.WaitStatus
	pid, err := unix.Wait4(p.PID, &status, unix.WNOHANG, nil)
	if err != nil || pid != p.PID {
		return
	}
	text := "exit status " + strconv.Itoa(status.ExitStatus())
	if status.Signaled() {
		text = "killed by signal " + strconv.Itoa(int(status.Signal()))
	}
	// For information only; if the node is removed at this moment, it is never read.
	os.WriteFile(b.path("exit"), []byte(text), 0o600)
}
