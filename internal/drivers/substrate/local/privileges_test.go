package local

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestProgramsGiveNoPrivilegesWhereNoneIsOfUse(t *testing.T) {
	yes, no := true, false
	for _, test := range []struct {
		name, program string
		mode          os.FileMode
		word          *bool
		want          string
	}{
		{"an image without any", "", 0, nil, "1"},
		{"one with Debian's own", "passwd", 0o755 | os.ModeSetuid, nil, "1"},
		{"one with sudo", "sudo", 0o755 | os.ModeSetuid, nil, "0"},
		{"one with a setgid program", "lock", 0o755 | os.ModeSetgid, nil, "0"},
		{"one with sudo where the site says no", "sudo", 0o755 | os.ModeSetuid, &no, "1"},
		{"one without any where the site says yes", "", 0, &yes, "0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := site(t)
			if test.program != "" {
				more := t.TempDir()
				check(t, os.WriteFile(filepath.Join(more, test.program), nil, 0o600))
				check(t, os.Chmod(filepath.Join(more, test.program), test.mode))
				command(t, "mksquashfs", more, filepath.Join(dir, "image.sqfs"), "-quiet", "-no-progress")
			}
			w := open(t, dir)
			w.config.Opened.Setuid = test.word
			if got := w.called(t, 1, "1000", false)["no_new_privs"]; got != test.want {
				t.Errorf("no_new_privs: %q, want %q", got, test.want)
			}
		})
	}
}

func TestProgramsWithCapabilitiesAreFound(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: file capabilities need root")
	}
	dir := t.TempDir()
	for _, name := range []string{"tool", "plain", "ping"} {
		check(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		check(t, os.Chmod(filepath.Join(dir, name), 0o755))
	}
	rawSockets := []byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // vfs_cap_data, version 2
	for _, name := range []string{"tool", "ping"} {
		if err := unix.Setxattr(filepath.Join(dir, name), "security.capability", rawSockets, 0); err != nil {
			t.Skipf("skipped: no file capabilities here: %v", err)
		}
	}
	if found, err := privilegedBelow(dir); err != nil || !slices.Equal(found, []string{"/tool"}) {
		t.Errorf("found %q, %v", found, err)
	}
}

func TestUsersOfANodeSeeTheirOwnProcessesAlone(t *testing.T) {
	w := open(t, site(t))
	if got := w.called(t, 1, "1000", false)["processes-of-others"]; got != "hidden" {
		t.Errorf("to a user they are %q", got)
	}
	if got := w.called(t, 2, "root", false)["processes-of-others"]; got != "seen" {
		t.Errorf("to root they are %q", got)
	}
}
