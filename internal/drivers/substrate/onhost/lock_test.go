package onhost

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A process that holds a lock and is stopped: flock(1) of the system stands for it.
func TestAStoppedHolderForfeitsItsLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	holder := exec.Command("flock", "--no-fork", path, "sleep", "60")
	if err := holder.Start(); err != nil {
		t.Skip("locks are not tested: ", err)
	}
	defer func() { _ = holder.Process.Kill(); _ = holder.Wait() }()
	for {
		if file, err := tryLock(path, syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		} else if file == nil {
			break // it has the lock
		} else { // the file stays: a holder that has opened it would have the lock of one without a name
			file.Close()
			time.Sleep(5 * time.Millisecond)
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	if _, err := Exclusive(short, path); err == nil {
		t.Fatal("the lock of a running process was taken")
	}
	if err := holder.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	long, cancel := context.WithTimeout(t.Context(), 240*patience)
	defer cancel()
	held, err := Exclusive(long, path)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	if err := held.Lost(); err != nil {
		t.Error(err)
	}
}

func TestOneWhoLostTheLockIsToldAndTakesNothingWithIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Exclusive(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil { // as takeForfeited does
		t.Fatal(err)
	}
	second, err := Exclusive(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if first.Lost() == nil || second.Lost() != nil {
		t.Error(first.Lost(), second.Lost())
	}
	first.Release()
	if err := second.Lost(); err != nil {
		t.Error("the loser took the winner's lock away:", err)
	}
	second.Release()
}

func TestHoldersAreReadFromTheKernelsTable(t *testing.T) {
	table := []byte("1: POSIX  ADVISORY  WRITE 11 fe:00:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 12 fe:00:77 0 EOF\n2: -> FLOCK  " +
		"ADVISORY  WRITE 13 fe:00:77 0 EOF\n3: FLOCK  ADVISORY  READ 14 fe:00:78 0 EOF\n4: FLOCK ADVISORY READ 0 fe:00:77 0 " +
		"EOF\nnonsense\n")
	if got := flockHolders(table, 0xfe00, 77); len(got) != 1 || got[0] != 12 {
		t.Error(got)
	}
}

func TestLocksThatAKilledProcessLeftAreSwept(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	held, err := Exclusive(t.Context(), at("held"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	unlock, err := Shared(t.Context(), at("shared"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := os.WriteFile(at("left"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(dir); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(at("*"))
	if err != nil || len(names) != 2 || held.Lost() != nil {
		t.Errorf("%v are there: %v, %v", names, err, held.Lost())
	}
}
