package images

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestChecksAreJudgedByExitOutputAndTime(t *testing.T) {
	squashfs := shellImage(t)
	for name, c := range map[string]struct {
		check Check
		want  string // in the error; empty: passes
	}{
		"exit 0":              {Check{Run: "true"}, ""},
		"expected output":     {Check{Run: "echo a; echo b 12", Expect: "^b [0-9]+$"}, ""},
		"exit 3":              {Check{Run: "echo why >&2; exit 3"}, "exit status 3: why"},
		"first of two fails":  {Check{Run: "false; true"}, "exit status"},
		"other output":        {Check{Run: "echo c", Expect: "^b"}, `got "c\n"`},
		"too slow":            {Check{Run: "read x < /dev/zero; while :; do :; done", Within: "300ms"}, "not done after 300ms"},
		"standard input":      {Check{Run: `! read x`}, ""},
		"own host name":       {Check{Run: "read h < /proc/sys/kernel/hostname; echo $h", Expect: "^accept$"}, ""},
		"no network but lo":   {Check{Run: `set -- /sys/class/net/*; echo $*`, Expect: `\A/sys/class/net/lo\n\z`}, ""},
		"own processes":       {Check{Run: "echo $$", Expect: "^1$"}, ""},
		"writes to its root":  {Check{Run: "echo x > /file && echo x > /tmp/file && echo x > /run/file"}, ""},
		"nothing is left":     {Check{Run: "! test -e /file && ! test -e /tmp/file"}, ""},
		"kernel not writable": {Check{Run: "! echo 1 > /sys/kernel/profiling"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.check.Name = name
			var got []Verdict
			err := Accept(t.Context(), squashfs, Manifest{Checks: []Check{c.check}}, func(v Verdict) { got = append(got, v) })
			if len(got) != 1 {
				t.Fatalf("%d verdicts, %v", len(got), err)
			}
			if c.want == "" {
				if err != nil {
					t.Errorf("%v: %v", err, got[0])
				}
				return
			}
			if !errors.Is(err, ErrFailed) || got[0].Err == nil || !strings.Contains(got[0].String(), c.want) {
				t.Errorf("got %v: %v, want a failure about %s", err, got[0], c.want)
			}
		})
	}
	wantNothingLeft(t)
}

func TestMissingProgramsAreNamed(t *testing.T) {
	var last Verdict
	err := Accept(t.Context(), shellImage(t), Manifest{Programs: []string{"sh", "absent", "nope"}}, func(v Verdict) { last = v })
	if !errors.Is(err, ErrFailed) || !strings.Contains(last.String(), "missing: absent nope") {
		t.Errorf("%v: %v", err, last)
	}
}

func TestAcceptanceEndsWithItsContext(t *testing.T) {
	squashfs := shellImage(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	start := time.Now()
	forever := Check{Name: "forever", Run: "while :; do :; done", Within: "10m"}
	err := Accept(ctx, squashfs, Manifest{Checks: []Check{forever}}, func(Verdict) {})
	if !errors.Is(err, context.Canceled) || time.Since(start) > time.Minute {
		t.Errorf("got %v after %s", err, time.Since(start))
	}
	wantNothingLeft(t)
}

func TestADamagedSquashfsFailsAcceptance(t *testing.T) {
	squashfs := shellImage(t)
	write(t, squashfs, "hsqs and nothing else")
	err := Accept(t.Context(), squashfs, Manifest{Checks: []Check{{Name: "a", Run: "true"}}}, func(Verdict) {})
	if !errors.Is(err, ErrFailed) {
		t.Errorf("got %v", err)
	}
}

// shellImage makes an image of the host's shell and the libraries it needs.
func shellImage(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("acceptance needs root")
	}
	for _, p := range []string{"runc", "mksquashfs", "ldd"} {
		requireProgram(t, p)
	}
	root := t.TempDir()
	for _, dir := range []string{"proc", "sys", "dev", "run", "tmp", "root"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	libraries, err := exec.Command("ldd", "/bin/sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(regexp.MustCompile(`/\S+`).FindAllString(string(libraries), -1), "/bin/sh") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	squashfs := filepath.Join(t.TempDir(), SquashfsFile)
	r := &Recipe{Epoch: time.Unix(1e9, 0), Squashfs: Squashfs{Compressor: "zstd", Level: 1}}
	if err := makeSquashfs(t.Context(), root, squashfs, r); err != nil {
		t.Fatal(err)
	}
	return squashfs
}

func wantNothingLeft(t *testing.T) {
	t.Helper()
	wantNoMounts(t, "muster-accept")
	for _, pattern := range []string{"/sys/fs/cgroup/*muster-accept*", "/sys/fs/cgroup/*/muster-accept*"} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("control groups are left: %v", left)
		}
	}
}
