package onhost

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"muster/internal/kit/locks"
)

// takeForfeited removes the lock file at path if all who hold it are stopped (SIGSTOP, a debugger): then the file that
// others make in its place is free. A stopped process that goes on finds out by Hold.Lost.
func takeForfeited(path string) error {
	// One at a time, so that no process removes the file that another has just made in place of the forfeited one.
	guard, err := os.OpenFile(filepath.Dir(path), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer guard.Close()
	if held, err := locks.Flock(int(guard.Fd()), unix.LOCK_EX|unix.LOCK_NB); !held {
		return err // somebody looks already
	}
	var file unix.Stat_t
	if err := unix.Stat(path, &file); err != nil {
		return nil // given back
	}
	table, err := lockTable()
	if err != nil || len(table) == mostLocks {
		return err
	}
	holders := flockHolders(table, file.Dev, file.Ino)
	if len(holders) == 0 {
		return nil
	}
	for _, pid := range holders {
		if stopped, err := isStopped(pid); err != nil || !stopped {
			return err
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// mostLocks is how many bytes of the kernel's table of locks are read: nodes may hold millions, and while it is read no process
// on the host takes or gives back any.
const mostLocks = 1 << 20

func lockTable() ([]byte, error) {
	file, err := os.Open("/proc/locks")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, mostLocks))
}

// flockHolders lists the processes that hold a flock on a file, from lines such as
//
//	2: FLOCK  ADVISORY  WRITE 7553 fe:00:9981555 0 EOF
//
// of proc_locks(5). Lines with "->" are those who wait.
func flockHolders(table []byte, device, inode uint64) []int {
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(device), unix.Minor(device), inode)
	var pids []int
	for line := range bytes.Lines(table) {
		words := strings.Fields(string(line))
		if len(words) < 6 || words[1] != "FLOCK" || words[5] != file {
			continue
		}
		if pid, err := strconv.Atoi(words[4]); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isStopped says whether a process is in state T or t of proc_pid_stat(5). One that is gone is not: its locks are too.
func isStopped(pid int) (bool, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, after, found := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	return found && (after[0] == 'T' || after[0] == 't'), nil
}
