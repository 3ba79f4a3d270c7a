package noded

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"muster/internal/kit/clock"
	"muster/internal/protocol"
)

const (
	mailLook   = 5 * time.Second
	mailLater  = time.Minute    // after a failure
	mailKept   = 24 * time.Hour // what could not be sent for so long is dropped
	mostLetter = 4 << 10        // bytes
)

// mailDuty delivers a head's letters.
type mailDuty struct {
	dir     string
	post    func(context.Context, protocol.Letters) (protocol.Posted, error)
	console *console
}

// run looks for letters until ctx ends.
func (d *mailDuty) run(ctx context.Context) {
	pause, failing := mailLook, false
	for clock.Sleep(ctx, pause) == nil {
		err := d.once(ctx, time.Now())
		if err != nil && !failing && ctx.Err() == nil {
			d.console.printf("%v; trying on", err)
		}
		if failing, pause = err != nil, mailLook; failing {
			pause = mailLater
		}
	}
}

// once delivers what is there.
func (d *mailDuty) once(ctx context.Context, now time.Time) error {
	entries, err := os.ReadDir(d.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	type waiting struct {
		path string
		at   time.Time
	}
	var all []waiting
	for _, entry := range entries {
		path := filepath.Join(d.dir, entry.Name())
		info, err := entry.Info()
		switch {
		case err != nil: // it has gone
		case now.Sub(info.ModTime()) > mailKept:
			_ = os.Remove(path) // or the next time
		case strings.HasSuffix(entry.Name(), protocol.MailName):
			all = append(all, waiting{path, info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b waiting) int { return a.at.Compare(b.at) })
	var letters protocol.Letters
	var paths []string
	for _, w := range all[:min(len(all), protocol.MostLetters)] {
		letter, err := readLetter(w.path)
		if err != nil {
			d.console.printf("a letter is dropped: %v", err)
			_ = os.Remove(w.path)
			continue
		}
		letters.Letters, paths = append(letters.Letters, letter), append(paths, w.path)
	}
	if len(paths) == 0 {
		return nil
	}
	posted, err := d.post(ctx, letters)
	if err != nil {
		return err
	}
	for _, path := range paths[:max(0, min(posted.Done, len(paths)))] {
		if err := os.Remove(path); err != nil {
			return err // it would be sent again and again
		}
	}
	return nil
}

// readLetter reads a file that another account has written.
func readLetter(path string) (l protocol.Letter, err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return l, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostLetter))
	if err != nil {
		return l, err
	}
	lines := strings.SplitN(string(text), "\n", 4)
	if len(lines) < 3 {
		return l, errors.New(filepath.Base(path) + " has too few lines")
	}
	return protocol.Letter{To: lines[0], User: lines[1], Subject: lines[2]}, nil
}
