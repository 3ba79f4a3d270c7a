package onhost

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// mostArguments is how many bytes of a command line are read: a process says by itself where its own lies, and how long it is.
const mostArguments = 64 << 10

// CommandLines hands on the beginning of the command line of each process, with its zero bytes; those of processes that end
// meanwhile are left out.
func CommandLines(each func(pid int, text string) error) error {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(file, mostArguments))
		_ = file.Close()
		if err != nil {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err := each(pid, string(text)); err != nil {
			return err
		}
	}
	return nil
}
