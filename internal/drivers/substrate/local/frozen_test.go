package local

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAFrozenNodeEndsAndDoesNothingMore(t *testing.T) {
	w := open(t, site(t))
	w.config.Grace = 5 * time.Minute
	b := w.up(t, node("c1", 1, 1, "trap 'touch /home/woke; exit 0' TERM; touch /home/ready"))
	c, err := w.shared("c1")
	check(t, err)
	eventually(t, "it is ready", func() bool { _, err := os.Stat(filepath.Join(c.home(), "ready")); return err == nil })
	frozen := false
	for _, dir := range w.cgroups.Dirs(b.name) {
		for file, text := range map[string]string{"freezer.state": "FROZEN", "cgroup.freeze": "1"} {
			if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
				frozen = os.WriteFile(filepath.Join(dir, file), []byte(text), 0) == nil || frozen
			}
		}
	}
	if !frozen {
		t.Skip("skipped: this host's control groups have no freezer")
	}
	start := time.Now()
	check(t, w.Remove(t.Context(), node("c1", 1, 0, "").Ref))
	if took := time.Since(start); took > time.Minute {
		t.Errorf("took %v", took)
	}
	if _, err := os.Stat(filepath.Join(c.home(), "woke")); err == nil {
		t.Error("it was thawed before it was killed")
	}
	w.down(t)
	w.wantNothingLeft(t)
}
