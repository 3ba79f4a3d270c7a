package devices

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestAFileThatIsCalledLikeAGroupIsNoDevice(t *testing.T) {
	named := filepath.Join(t.TempDir(), "vfio", "4711")
	if err := os.Mkdir(filepath.Dir(named), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(named, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{named: false, os.DevNull: true} {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if got := isDevice(fmt.Sprintf("/proc/self/fd/%d", file.Fd())); got != want {
			t.Errorf("%s is a device: %v", path, got)
		}
	}
}
