// Package datadir is the data directory of a controller, and what tells other programs of its host where the controller is.
//
// What enters: its path. What leaves: where each thing is in it, and the file from which the command line learns the controller's
// address.
package datadir

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"muster/internal/kit/files"
	"muster/internal/kit/pattern"
)

// Dir is a data directory, for root alone.
//
//	muster.db         the database, unless it is PostgreSQL
//	admin.token       the local administrator's token
//	site.key          what the secrets in the database are sealed with, unless that lies elsewhere
//	controller.json   where the controller listens, for command lines on this host
//	site              which store this directory belongs to
//	images/           environment images by name and digest
//	local/            state of the nodes on this host
//	guests/           state of the virtual machines of this host
//	sockets/          where agents on this host reach the controllers, a socket each
//	control/          where root on this host does
//	power.d/          a site's own programs that switch machines
//	signal.d/         a site's own scripts that have a subnet manager read its partitions again
//	secrets.d/        passwords and tokens for BMCs and UFM, by name, with whom each may be shown to
//	recordings/       what terminals showed, of projects that keep that
//	fabrics/          copies of fabrics that drivers make to try what they are about to tell; they may be lost
//	ipxe/             a site's own iPXE files, before those of the system
type Dir string

// Path is where a name of the directory is; the methods below are the paths of what their names say.
func (d Dir) Path(name string) string { return filepath.Join(string(d), name) }
func (d Dir) Database() string        { return d.Path("muster.db") }
func (d Dir) Key() string             { return d.Path("site.key") }
func (d Dir) Images() string          { return d.Path("images") }
func (d Dir) Sockets() string         { return d.Path("sockets") }
func (d Dir) Controls() string        { return d.Path("control") }
func (d Dir) Commands() string        { return d.Path("power.d") }
func (d Dir) Signals() string         { return d.Path("signal.d") }
func (d Dir) Secrets() string         { return d.Path("secrets.d") }
func (d Dir) Recordings() string      { return d.Path("recordings") }
func (d Dir) Fabrics() string         { return d.Path("fabrics") }

// Make makes the directory and what is in it, for root alone; one that is there already becomes so.
func (d Dir) Make(log *slog.Logger) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := d.close(log); err != nil {
		return fmt.Errorf("data directory %s: %w", string(d), err)
	}
	for _, path := range []string{d.Sockets(), d.Controls(), d.Fabrics(), d.Signals(), d.Secrets()} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
	}
	return nil
}

// theSystems are directories that a slip of the pen may name. They are not made root's alone.
var theSystems = pattern.New(`^/(bin|boot|dev|etc|home|lib|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var|var/(lib|log|opt|run|spool|tmp))?$`)

// close sees to it that the directory is the caller's, and takes away what others may do in it.
func (d Dir) close(log *slog.Logger) error {
	folder, err := os.Open(string(d))
	if err != nil {
		return err
	}
	defer folder.Close()
	about, err := folder.Stat()
	if err != nil {
		return err
	}
	if owner, own := ownerOf(about), os.Geteuid(); owner != own {
		return fmt.Errorf("user %d owns it, and could change all that is in it: `chown %d` it, if what it holds is the "+
			"site's, or give another --data", owner, own)
	}
	real, err := filepath.EvalSymlinks(string(d))
	if err != nil {
		return err
	}
	if mode := about.Mode(); mode.Perm()&0o077 != 0 {
		if theSystems.MatchString(real) || mode&fs.ModeSticky != 0 {
			return errors.New("others may read it, and it has files that are not Muster's: give --data a directory of its own, " +
				"such as " + filepath.Join(real, "muster"))
		}
		if err := folder.Chmod(0o700); err != nil {
			return err
		}
		log.Warn("others could read the data directory; its mode is now 0700", "data", string(d), "mode_was",
			mode.Perm().String())
	}
	for _, path := range []string{string(d), real} {
		if parent := loose(filepath.Dir(path)); parent != "" {
			log.Warn("users other than root can replace the data directory, since they can write to a directory above it", "data",
				string(d), "writable", parent)
			break
		}
	}
	return nil
}

// loose is the directory, of this one and those above it, in which others than root may replace what is not theirs; "" if there
// is none.
func loose(path string) string {
	for ; ; path = filepath.Dir(path) {
		about, err := os.Lstat(path)
		switch {
		case err != nil || about.Mode()&fs.ModeSymlink != 0: // what it leads to is looked at by its own path
		case ownerOf(about) != 0, about.Mode().Perm()&0o022 != 0 && about.Mode()&fs.ModeSticky == 0:
			return path
		}
		if path == filepath.Dir(path) {
			return ""
		}
	}
}

func ownerOf(about fs.FileInfo) int {
	if system, ok := about.Sys().(*syscall.Stat_t); ok {
		return int(system.Uid)
	}
	return -1
}

// Token reads the administrator's token, the first time making it. Replicas that start together agree on one.
func (d Dir) Token() (string, error) {
	return d.keep("admin.token", func() string {
		var random [32]byte
		_, _ = rand.Read(random[:])
		return "muster_" + base64.RawURLEncoding.EncodeToString(random[:])
	})
}

// keep reads a small secret file, the first time writing what made returns.
func (d Dir) keep(name string, made func() string) (string, error) {
	path := d.Path(name)
	for {
		text, err := os.ReadFile(path)
		if err == nil {
			return strings.TrimSpace(string(text)), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("data directory: %w", err)
		}
		if err := files.Create(path, []byte(made()+"\n"), 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
}

// BelongTo refuses a directory that was made by a controller with another database.
func (d Dir) BelongTo(site string) error {
	owner, err := d.keep("site", func() string { return site })
	if err == nil && owner != site {
		err = fmt.Errorf("data directory %s belongs to another database; give --db that one, or another --data", string(d))
	}
	return err
}

// Announcement is what controller.json says.
type Announcement struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
	SSH string `json:"ssh,omitempty"` // where the SSH gateway is reached: host:port
	// Control is the path of a socket with the same API for root alone, which has room when the address has none.
	Control string `json:"control,omitempty"`
}

// Announce writes controller.json, of this process.
func (d Dir) Announce(a Announcement) error {
	a.PID = os.Getpid()
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return files.Write(d.Path("controller.json"), append(text, '\n'), 0o600)
}

// Find reads where the controller of a data directory listens, and its administrator's token.
func Find(data string) (a Announcement, token string, err error) {
	d := Dir(data)
	text, err := os.ReadFile(d.Path("controller.json"))
	if err != nil {
		return a, "", err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, "", fmt.Errorf("%s: %w", d.Path("controller.json"), err)
	}
	secret, err := os.ReadFile(d.Path("admin.token"))
	return a, strings.TrimSpace(string(secret)), err
}

// Listen opens a socket. Those beside it, of replicas that are no more, are cleared away.
func Listen(path, who string) (net.Listener, error) {
	old, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.sock"))
	if err != nil {
		return nil, err
	}
	for _, path := range old {
		probe, err := net.Dial("unix", path)
		if err != nil {
			_ = os.Remove(path)
			continue
		}
		_ = probe.Close()
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", who, err)
	}
	return l, nil
}
