package noded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// orphanVariable makes the test's binary the parent of many children; its value is the random seed.
const orphanVariable = "MUSTER_TEST_ORPHANS"

// TestEveryStatusReachesItsOwnerAndNoOrphanStays runs in a process of its own, since a Reaper waits for all children.
func TestEveryStatusReachesItsOwnerAndNoOrphanStays(t *testing.T) {
	for seed := range 3 {
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), fmt.Sprintf("%s=%d", orphanVariable, seed+1))
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("seed %d: %v: %s", seed+1, err, out)
		}
	}
}

func orphanMain() int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Println(err)
		return 1
	}
	seed, _ := strconv.ParseUint(os.Getenv(orphanVariable), 10, 64)
	random := rand.New(rand.NewPCG(seed, 0))
	ctx, cancel := context.WithCancel(context.Background())
	r := NewReaper()
	var collector, children sync.WaitGroup
	collector.Go(func() { r.Collect(ctx) })
	failures := make(chan string, 1000)
	for i := range 60 {
		kind, status := random.IntN(5), random.IntN(5)
		children.Go(func() {
			if err := oneChild(r, kind, status, i); err != nil {
				failures <- err.Error()
			}
		})
	}
	children.Wait()
	// Orphans end soon; then there must be no child left, dead or alive.
	for range 6000 {
		r.collect()
		if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err == syscall.ECHILD {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		failures <- fmt.Sprintf("children are left: %v", err)
	}
	cancel()
	collector.Wait()
	close(failures)
	bad := 0
	for f := range failures {
		fmt.Println(f)
		bad = 1
	}
	return bad
}

// oneChild starts a child of one of five kinds and says how its end differs from what it should be.
func oneChild(r *Reaper, kind, status, i int) error {
	want := "<nil>"
	if status != 0 {
		want = fmt.Sprintf("exit status %d", status)
	}
	script := fmt.Sprintf("exit %d", status)
	switch kind {
	case 1: // leaves an orphan that ends later
		script = fmt.Sprintf("(sleep 0.05; exit 9) & exit %d", status)
	case 2: // is killed
		p, err := r.Start(Command{Argv: []string{"sleep", "60"}, Output: func(string) {}})
		if err != nil {
			return err
		}
		p.Signal(syscall.SIGTERM)
		<-p.Done()
		p.Signal(syscall.SIGTERM) // reaches no process
		if got := fmt.Sprint(p.Err()); got != "killed by terminated" {
			return fmt.Errorf("child %d: %s", i, got)
		}
		return nil
	case 3: // is run with its output
		out, err := r.Run(context.Background(), "sh", "-c", fmt.Sprintf("echo %d; echo oops >&2; exit %d", i, status))
		if status == 0 && (err != nil || string(out) != fmt.Sprintln(i)) {
			return fmt.Errorf("child %d: %q %v", i, out, err)
		}
		if status != 0 && (err == nil || !strings.Contains(err.Error(), want+": oops")) {
			return fmt.Errorf("child %d: %v, want %s", i, err, want)
		}
		return nil
	case 4: // is called off, with a child of its own that holds its output
		over := errors.New("called off")
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Duration(status)*20*time.Millisecond, over)
		defer cancel()
		if _, err := r.Run(ctx, "sh", "-c", "sleep 60 & wait"); !errors.Is(err, over) {
			return fmt.Errorf("child %d: %v, want %v", i, err, over)
		}
		return nil
	}
	p, err := r.Start(Command{Argv: []string{"sh", "-c", script}, Output: func(string) {}})
	if err != nil {
		return err
	}
	<-p.Done()
	if got := fmt.Sprint(p.Err()); got != want {
		return fmt.Errorf("child %d: %s, want %s", i, got, want)
	}
	return nil
}
