package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
)

// ofNoUse are programs with privileges that Debian brings along and that give no user anything in a node: accounts have no
// passwords, no capability to mount is there, ping works without (see pings), and no user logs in by a host's key.
func ofNoUse(program string) bool {
	switch program {
	case "su", "passwd", "chsh", "chfn", "chage", "expiry", "newgrp", "gpasswd", "unix_chkpwd", "mount", "umount", "mount.nfs",
		"ssh-agent", "ssh-keysign", "dbus-daemon-launch-helper", "ping":
		return true
	}
	return false
}

// privileged remembers which programs of an image give their callers more rights than they have. An image never changes,
// so each is looked at once by a Driver.
type privileged struct {
	mu    sync.Mutex
	known map[string]func() ([]string, error) // by where the image is mounted
}

// in lists them, but for those of no use. The image stays mounted meanwhile, as a node of it is being made.
func (p *privileged) in(ctx context.Context, image string, log *slog.Logger) ([]string, error) {
	p.mu.Lock()
	look, ok := p.known[image]
	if !ok {
		look = sync.OnceValues(func() ([]string, error) {
			found, err := privilegedBelow(image)
			if err == nil && len(found) > 0 {
				log.InfoContext(ctx, "nodes of an image can gain privileges, since it has programs that give them",
					"image", filepath.Base(image), "programs", strings.Join(found, " "))
			}
			return found, err
		})
		p.known[image] = look
	}
	p.mu.Unlock()
	found, err := look()
	if err != nil {
		p.mu.Lock()
		delete(p.known, image) // to be looked at again
		p.mu.Unlock()
	}
	return found, err
}

// privilegedBelow walks a file system for programs with the bits of setuid or setgid, or with capabilities.
func privilegedBelow(root string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Mode()&0o111 == 0 || ofNoUse(entry.Name()) {
			return err
		}
		gives := info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0
		if !gives {
			_, err := unix.Lgetxattr(path, "security.capability", nil)
			if err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOTSUP) {
				return fmt.Errorf("capabilities of %s: %w", path, err)
			}
			gives = err == nil
		}
		if gives {
			found = append(found, strings.TrimPrefix(path, root))
		}
		return nil
	})
	return found, err
}

// noNewPrivileges says whether the processes of a node are to be kept from ever gaining rights by a program. The site's word
// comes first; without it, they are if its image has no such program that is of use.
func (d *Driver) noNewPrivileges(ctx context.Context, n substrate.Node) (bool, error) {
	if d.config.Opened.Setuid != nil {
		return !*d.config.Opened.Setuid, nil
	}
	found, err := d.privileged.in(ctx, d.imageAt(n.Image), d.config.Log)
	if err != nil {
		return false, fmt.Errorf("programs that give privileges: %w", err)
	}
	return len(found) == 0, nil
}
