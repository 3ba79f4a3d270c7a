// Package private reads the files that the API only names: programs and secrets in folders of root's.
//
// What enters: a folder in the data directory, and a name out of a request. What leaves: the file's content, if only root could
// have put it there and, of a secret, others cannot read it; and to whom a secret may be shown. Operators run the site without
// being root on the controller's host: a path, a command or a secret's destination of theirs is no root's.
package private

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"muster/internal/kit/pattern"
)

// Dir is a folder of files that are named through the API: power.d, signal.d or secrets.d. "": the site has none.
type Dir string

// most is how many bytes a file may have.
const most = 64 << 10

var nameForm = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// CheckName says what is wrong with a name of a file: it leads to no other folder, and nowhere hidden.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%.80q is no name of a file; letters, digits, '.', '_' and '-' make one, and no path", name)
	}
	return nil
}

// kind is what is asked of a file's mode.
type kind struct {
	forbidden  os.FileMode
	executable bool
	mend       string
}

const notWritable = "nobody but root may write it: chmod go-w"

// Program is the path of a program that root has put there. What it finds holds for as long as only root may change the
// folder, which it sees to: so a program is found again before each run.
func (d Dir) Program(name string) (path string, err error) {
	file, path, err := d.open(name, kind{0o022, true, notWritable})
	if err != nil {
		return "", err
	}
	return path, file.Close()
}

// Text is the content of a file that is no secret: a script, a certificate.
func (d Dir) Text(name string) (string, error) {
	return d.read(name, kind{0o022, false, notWritable})
}

// Secret reads a secret.
func (d Dir) Secret(name string) (Secret, error) {
	text, err := d.read(name, kind{0o027, false, "others may not read it, nor anyone else write it: chmod 0600"})
	if err != nil {
		return Secret{}, err
	}
	s, err := ParseSecret(text)
	if err != nil {
		return s, fmt.Errorf("%s: %w", filepath.Join(string(d), name), err)
	}
	return s, nil
}

func (d Dir) read(name string, k kind) (string, error) {
	file, path, err := d.open(name, k)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if len(text) > most {
		return "", fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return string(text), err
}

// open opens the folder and, in it, the file, and looks at what it opened, so that nothing can be put in its place meanwhile.
// Links are not followed, and a pipe cannot hold it.
func (d Dir) open(name string, k kind) (*os.File, string, error) {
	if d == "" {
		return nil, "", fmt.Errorf("this site has no directory for %.80q", name)
	}
	if err := CheckName(name); err != nil {
		return nil, "", err
	}
	path := filepath.Join(string(d), name)
	folder, err := os.OpenFile(string(d), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, "", fmt.Errorf("%s: %w; as root: install -d -m 0700 %s", d, os.ErrNotExist, d)
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil, "", fmt.Errorf("%s is no directory of its own; a link is not followed", d)
	case err != nil:
		return nil, "", err
	}
	defer func() { _ = folder.Close() }()
	if err := ofRoot(folder, string(d), kind{forbidden: 0o022, mend: notWritable}); err != nil {
		return nil, "", err
	}
	fd, err := unix.Openat(int(folder.Fd()), name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, "", fmt.Errorf("%s is no plain file; a link is not followed", path)
	case err != nil:
		return nil, "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no plain file", path)
	}
	if err == nil {
		err = ofRoot(file, path, k)
	}
	if err != nil {
		_ = file.Close()
		return nil, "", err
	}
	return file, path, nil
}

// ofRoot says whether only root decides what is in an open file or folder.
func ofRoot(file *os.File, path string, k kind) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	switch mode := info.Mode().Perm(); {
	case owner != 0 && int(owner) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d; it must belong to root: chown root %s", path, owner, path)
	case mode&k.forbidden != 0:
		return fmt.Errorf("%s has mode %04o; %s %s", path, mode, k.mend, path)
	case k.executable && mode&0o111 == 0:
		return fmt.Errorf("%s is not executable: chmod +x %s", path, path)
	}
	return nil
}

// Secret is what proves somebody, and to whom it may be shown: an operator who may name it may not choose that.
type Secret struct {
	Text string
	For  []string // addresses, networks, names of hosts, *.DOMAIN; or the name of a program
}

// ParseSecret reads the secret, which is the first line, and below it lines "for HOST …".
func ParseSecret(text string) (Secret, error) {
	var s Secret
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	s.Text = lines[0]
	if s.Text == "" {
		return s, errors.New("its first line is to be the secret, and is empty")
	}
	for _, l := range lines[1:] {
		words := strings.Fields(l)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if words[0] != "for" || len(words) < 2 {
			return s, errors.New(`below the secret only lines as "for 10.0.9.0/24 bmc1.rack *.rack" may stand, which say whom it may be shown to`)
		}
		s.For = append(s.For, words[1:]...)
	}
	return s, nil
}

// Allows says whether a secret may be shown to a host, which is a name or an address, or given to a program, as
// "command:NAME".
func (s Secret) Allows(host string) error {
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	for _, who := range s.For {
		if err == nil {
			if prefix, bad := netip.ParsePrefix(who); bad == nil && prefix.Contains(address.WithZone("").Unmap()) {
				return nil
			}
			if one, bad := netip.ParseAddr(who); bad == nil && one.Unmap() == address.Unmap() {
				return nil
			}
			continue
		}
		if strings.EqualFold(who, host) {
			return nil
		}
		domain, wild := strings.CutPrefix(who, "*.")
		if wild && !strings.HasPrefix(host, "command:") && len(host) > len(domain)+1 &&
			strings.EqualFold(host[len(host)-len(domain)-1:], "."+domain) {
			return nil
		}
	}
	return fmt.Errorf("root has not said that it may be shown to %s: add the line \"for %s\" below the secret", host, host)
}
