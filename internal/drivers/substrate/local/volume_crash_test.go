package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// crashSharedEnv makes the test binary a controller that makes and removes clusters' files until it is killed.
const crashSharedEnv = "MUSTER_LOCAL_TEST_COMMONS"

func sharedForever(site string) {
	d, err := openAt(site, filepath.Join(site, "state"))
	ctx := context.Background()
	if err == nil {
		fmt.Println("open")
	}
	for err == nil {
		if err = d.EnsureShared(ctx, "c1", alone); err == nil {
			err = d.RemoveShared(ctx, "c1")
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// killed runs a controller for a moment, counted from when it has opened the driver.
func killed(t *testing.T, env, site string, after time.Duration) {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	controller := exec.Command(self)
	controller.Env = append(os.Environ(), env+"="+site)
	output := &strings.Builder{}
	controller.Stderr = output
	controller.WaitDelay = time.Second
	opened, err := controller.StdoutPipe()
	check(t, err)
	check(t, controller.Start())
	_, _ = opened.Read(make([]byte, 1)) // its end, if it fails
	time.Sleep(after)
	check(t, controller.Process.Kill())
	_ = controller.Wait()
	if output.Len() > 0 {
		t.Errorf("the controller failed before it was killed: %s", output)
	}
}

// besideKilled opens a driver beside controllers that are killed. What these have started goes to the host's pid 1, and not
// to this process.
func besideKilled(t *testing.T) (string, fixture) {
	t.Helper()
	site := site(t)
	check(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0))
	t.Cleanup(func() { check(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) })
	d, err := openAt(site, filepath.Join(site, "state"))
	check(t, err)
	return site, fixture{d}
}

func TestAKilledControllerLeavesNoFileSystemBehind(t *testing.T) {
	site, w := besideKilled(t)
	defer w.down(t)
	for range 12 {
		killed(t, crashSharedEnv, site, 30*time.Millisecond+rand.N(200*time.Millisecond))
		if rand.N(2) == 0 {
			check(t, w.EnsureShared(t.Context(), "c1", alone))
			w.write(t, "c1", "written")
			if got := w.read(t, "c1"); got != "written" {
				t.Errorf("%q", got)
			}
		}
		check(t, w.RemoveShared(t.Context(), "c1"))
	}
	w.wantNothingLeft(t)
}

func TestAHomeThatIsNotThereDoesNotGrow(t *testing.T) {
	w := open(t, site(t))
	check(t, w.GrowHome(t.Context(), "c1", 1<<30))
	if size, used, err := w.HomeUsage(t.Context(), "c1"); size != 0 || used != 0 || err != nil {
		t.Error(size, used, err)
	}
	if clusters, err := w.ListShared(t.Context()); err != nil || len(clusters) > 0 {
		t.Error(clusters, err)
	}
}
