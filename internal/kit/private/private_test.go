package private

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOnlyWhatRootHasPutThereIsRead tries names that lead elsewhere, and files that others may have put there.
func TestOnlyWhatRootHasPutThereIsRead(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "secrets.d")
	outside := filepath.Join(top, "admin.token")
	for path, mode := range map[string]os.FileMode{outside: 0o600, filepath.Join(dir, "good"): 0o600,
		filepath.Join(dir, "group"): 0o640, filepath.Join(dir, "world"): 0o604, filepath.Join(dir, "writable"): 0o620} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("secret\nfor h1\n"), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Symlink(outside, filepath.Join(dir, "link")), unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
		os.Mkdir(filepath.Join(dir, "folder"), 0o700),
		os.Symlink(dir, filepath.Join(top, "linked.d")), os.WriteFile(filepath.Join(dir, "large"), make([]byte, 100<<10), 0o600),
		os.WriteFile(filepath.Join(dir, "theirs"), []byte("x"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"good": "", "group": "", "world": "chmod 0600", "writable": "chmod 0600", "link": "a link is not followed",
		"pipe": "no plain file", "folder": "no plain file",
		"large": "more than", "none": "no such file", "../admin.token": "no path", outside: "no path", "": "no path",
		".": "no path", "..": "no path", ".hidden": "no path",
		"a/b": "no path", "good\n": "no path", "good\x00": "no path", "-rf": "no path",
	} {
		s, err := Dir(dir).Secret(name)
		if want == "" && (err != nil || s.Text != "secret") || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %+v %v, %q wanted", name, s, err, want)
		}
	}
	if _, err := Dir("").Secret("good"); err == nil || !strings.Contains(err.Error(), "no directory") {
		t.Error(err)
	}
	if _, err := Dir(filepath.Join(top, "linked.d")).Secret("good"); err == nil ||
		!strings.Contains(err.Error(), "link is not followed") {
		t.Error(err)
	}
	if _, err := Dir(dir).Program("good"); err == nil || !strings.Contains(err.Error(), "not executable") {
		t.Error(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(filepath.Join(dir, "theirs"), 4242, 4242); err != nil {
			t.Fatal(err)
		}
		if _, err := Dir(dir).Secret("theirs"); err == nil || !strings.Contains(err.Error(), "belongs to user 4242") {
			t.Error(err)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Dir(dir).Secret("good"); err == nil || !strings.Contains(err.Error(), "nobody but root may write it") {
		t.Error(err)
	}
}

// TestASecretIsShownToWhomRootSays is what keeps who may name a secret from choosing where it goes.
func TestASecretIsShownToWhomRootSays(t *testing.T) {
	s, err := ParseSecret("admin:x for evil\r\n# ours\nfor 10.0.9.0/24 fd00::/8 bmc1.rack\nfor *.lab.example command:pdu " +
		"192.0.2.7\n")
	if err != nil || s.Text != "admin:x for evil" {
		t.Fatal(s, err)
	}
	for host, good := range map[string]bool{
		"10.0.9.77": true, "::ffff:10.0.9.77": true, "10.0.10.1": false, "fd00::9:2": true, "[fd00::9:2]": true,
		"bmc1.rack": true, "BMC1.rack": true, "bmc2.rack": false,
		"a.lab.example": true, "lab.example": false, "evillab.example": false, "command:pdu": true, "command:other": false,
		"192.0.2.7": true, "127.0.0.1": false,
		"evil": false, "": false, "command:x.lab.example": false, "pdu": false,
	} {
		if err := s.Allows(host); (err == nil) != good {
			t.Errorf("%q: %v", host, err)
		}
	}
	for _, text := range []string{"", "\nfor x", "a\nb", "a\nfor"} {
		if _, err := ParseSecret(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
