package agents

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestMachinesGetTheAgentThatTheyWereToldOf although the program was replaced by another while the controller runs.
func TestMachinesGetTheAgentThatTheyWereToldOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster")
	replace := func(content string) {
		if err := os.WriteFile(path+".new", []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	replace("this version")
	files := NewFiles(nil, path)
	told, err := files.agent()
	if err != nil {
		t.Fatal(err)
	}
	defer told.file.Close()
	replace("the next version")
	for range 2 {
		got, err := files.Blob(told.Digest)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(got)
		if string(content) != "this version" || told.Size != int64(len(content)) || err != nil {
			t.Errorf("%q of %d bytes, %v", content, told.Size, err)
		}
		got.Close()
	}
}
