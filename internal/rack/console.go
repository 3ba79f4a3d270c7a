package rack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"muster/internal/kit/clock"
)

// Console writes what a machine has written to its serial line since it was switched on last, off or not. With follow it
// goes on, through the next times too, until ctx ends.
func (f Folder) Console(ctx context.Context, name string, follow bool, w io.Writer) error {
	shape, err := f.Shape()
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w in %s", ErrNoRack, f)
	}
	if err != nil {
		return err
	}
	known := false
	for _, m := range shape.Plan() {
		known = known || m.Name == name
	}
	if !known {
		return fmt.Errorf("%s: %w", name, ErrNoMachine)
	}
	path := f.ConsoleLog(name)
	for {
		if err := copyConsole(ctx, path, follow, w); err != nil || !follow {
			return err
		}
		if clock.Sleep(ctx, consoleLooks) != nil {
			return nil
		}
	}
}

const consoleLooks = 100 * time.Millisecond

// copyConsole copies one file, with follow until another is in its place. A machine that never was on has none.
func copyConsole(ctx context.Context, path string, follow bool, w io.Writer) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	mine, err := file.Stat()
	if err != nil {
		return err
	}
	for {
		there, err := os.Stat(path) // before reading, so that nothing of the end is missed
		replaced := err != nil || !os.SameFile(mine, there)
		if _, err := io.Copy(w, file); err != nil {
			return err
		}
		if !follow || replaced || clock.Sleep(ctx, consoleLooks) != nil {
			return nil
		}
	}
}
