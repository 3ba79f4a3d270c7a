package onhost

import (
	"os"
	"strings"
	"testing"
)

func TestCommandLinesAreReadToABound(t *testing.T) {
	seen := false
	err := CommandLines(func(pid int, text string) error {
		if pid == os.Getpid() {
			seen = strings.HasPrefix(text, os.Args[0]+"\x00")
		}
		if len(text) > mostArguments {
			t.Errorf("process %d: %d bytes", pid, len(text))
		}
		return nil
	})
	if err != nil || !seen {
		t.Errorf("this process is seen: %v, %v", seen, err)
	}
}
