package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
)

// Size counts the blocks of /home and of the head's state. Files that go meanwhile are not counted.
func (d *Driver) Size(ctx context.Context, cluster string) (int64, error) {
	c, err := d.commons(cluster)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, dir := range []string{c.home(), c.state()} {
		n, err := sizeOf(ctx, dir)
		if err != nil {
			return 0, fmt.Errorf("size of cluster %s: %w", cluster, err)
		}
		sum += n
	}
	return sum, nil
}

// sizeOf is what a tree takes on disk; a file with several names counts once.
func sizeOf(ctx context.Context, dir string) (int64, error) {
	var sum int64
	linked := map[uint64]bool{}
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || linked[stat.Ino] {
			return ctx.Err()
		}
		if stat.Nlink > 1 && !info.IsDir() {
			linked[stat.Ino] = true
		}
		sum += stat.Blocks * 512
		return ctx.Err()
	})
	return sum, err
}
