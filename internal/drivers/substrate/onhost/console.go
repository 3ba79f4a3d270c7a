package onhost

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/clock"
)

// LastLine returns the last line of a file that is not blank, of at most 1 KiB; or why a kernel has panicked, where the last
// 16 KiB say so, as what it says after that says less.
func LastLine(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	const most, looked = 1 << 10, 16 << 10
	if end, err := file.Seek(0, io.SeekEnd); err == nil && end > looked {
		file.Seek(-looked, io.SeekEnd)
	} else {
		file.Seek(0, io.SeekStart)
	}
	text, _ := io.ReadAll(io.LimitReader(file, looked))
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	line := lines[len(lines)-1]
	for _, one := range lines {
		if bytes.Contains(one, []byte("Kernel panic - not syncing")) {
			line = one
		}
	}
	line = bytes.TrimSpace(line[max(0, len(line)-most):])
	return strings.ToValidUTF8(string(line), "?")
}

const (
	keptEnd  = 4 << 20
	endsLook = time.Second
)

// KeepEnds has the files that match the patterns take no more of the disk than their last megabytes, until ctx ends: what a node
// says may have no end. What is before is a hole then (fallocate(2), FALLOC_FL_PUNCH_HOLE); those who write do not notice.
func KeepEnds(ctx context.Context, patterns ...string) {
	for clock.Sleep(ctx, endsLook) == nil {
		for _, pattern := range patterns {
			paths, _ := filepath.Glob(pattern) // a bad pattern finds none, as a test would see
			for _, path := range paths {
				_ = keepEnd(path) // gone, or its file system makes no holes: there is nothing to be done
			}
		}
	}
}

func keepEnd(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	var info unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &info); err != nil || info.Blocks*512 <= 2*keptEnd {
		return err
	}
	return unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, info.Size-keptEnd)
}
