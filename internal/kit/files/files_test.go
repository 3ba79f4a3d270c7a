package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestAFileIsReplacedWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, one := range []struct {
		text string
		mode fs.FileMode
		do   func(path string, text []byte, mode fs.FileMode) error
	}{
		{"first", 0o600, Create}, {"second", 0o644, Write},
		{"third", 0o640, func(path string, text []byte, mode fs.FileMode) error { return Replace(path, text, mode) }},
	} {
		if err := one.do(path, []byte(one.text), one.mode); err != nil {
			t.Fatal(err)
		}
		holds(t, path, one.text, one.mode)
	}
	if err := Create(path, []byte("x"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("it was there: %v", err)
	}
	holds(t, path, "third", 0o640)
}

func TestWhatFailsLeavesNothing(t *testing.T) {
	path, no := filepath.Join(t.TempDir(), "file"), errors.New("no")
	if err := Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := Replace(path, []byte("new"), 0o644, func(part *os.File) error {
		holds(t, part.Name(), "", 0o644) // a secret is never there for another than its owner
		return no
	})
	if !errors.Is(err, no) {
		t.Error(err)
	}
	holds(t, path, "old", 0o600)
	folder := filepath.Join(filepath.Dir(path), "folder")
	if err := os.MkdirAll(filepath.Join(folder, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(folder, nil, 0o600); err == nil {
		t.Error("a folder was replaced")
	}
}

// holds wants the file to be so, and no other beside it.
func holds(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text || info.Mode() != mode {
		t.Errorf("%q of mode %v, %v", got, info.Mode(), err)
	}
	if parts, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(parts) > 0 && parts[0] != path {
		t.Errorf("%v is left, %v", parts, err)
	}
}
