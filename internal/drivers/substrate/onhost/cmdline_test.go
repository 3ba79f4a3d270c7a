package onhost

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestCommandLinesAreReadToABound(t *testing.T) {
	long := exec.Command("sh", "-c", "read line # "+strings.Repeat("x", mostArguments))
	input, err := long.StdinPipe()
	if err == nil {
		err = long.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = input.Close()
		_ = long.Wait() // it has read nothing
	}()
	lengths := map[int]int{}
	err = CommandLines(func(pid int, text string) error {
		if lengths[pid] = len(text); pid == os.Getpid() && !strings.HasPrefix(text, os.Args[0]+"\x00") {
			t.Errorf("this process is %q", text)
		}
		return nil
	})
	if err != nil || lengths[os.Getpid()] == 0 || lengths[long.Process.Pid] != mostArguments {
		t.Errorf("%d and %d bytes are read, %v", lengths[os.Getpid()], lengths[long.Process.Pid], err)
	}
}
