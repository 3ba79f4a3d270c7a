package rig

import (
	"os"
	"os/exec"
	"testing"
)

func TestProgramsAreCountedWhereverTheyStart(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("programs are not counted: this needs root")
	}
	p := WatchPrograms(t)
	run := func(script string) {
		t.Helper()
		if out, err := exec.Command("unshare", "--pid", "--fork", "sh", "-c", script).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	run("true; /bin/true; (/bin/true; /bin/sleep 0); :")
	got := p.Started(t)
	if got["true"] != 2 || got["sleep"] != 1 || got["sh"] != 1 || got["unshare"] != 1 {
		t.Errorf("started: %v", got)
	}
	p.Forget()
	run("/bin/sleep 0")
	if got := p.Started(t); got["true"] != 0 || got["sleep"] != 1 {
		t.Errorf("started after the first were forgotten: %v", got)
	}
}
