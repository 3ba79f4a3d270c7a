package noded

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"

	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// homes makes home directories on the shared /home; only the head does. Users own what is in theirs and may put links
// there while the agent works as root, so every step stays inside the directory by os.Root.
type homes struct {
	disk    disk
	cluster string // its ID
}

// ensure makes the user's home at first sight and brings the keys up to date.
func (h homes) ensure(u protocol.User) error {
	return wrap.Errorf(h.ensureInside(u), "home and keys")
}

func (h homes) ensureInside(u protocol.User) error {
	path := h.disk.path(filepath.Join("/home", u.Name))
	err := os.Mkdir(path, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// The directory is given to the user as the last step, so one that still is root's was never finished.
	first := err == nil || ownedByRoot(path)
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close()
	own := &owned{root: root, user: u.UID}
	if first {
		if err := own.copySkeleton(h.disk.path("/etc/skel")); err != nil {
			return err
		}
	}
	if err := own.directory(".ssh", 0o700); err != nil {
		return err
	}
	internal, err := own.internalKeys(h.cluster)
	if err != nil {
		return err
	}
	old, err := own.read(".ssh/authorized_keys")
	if err != nil {
		return err
	}
	if text := withKeys(old, slices.Concat(u.Keys, internal)); text != old {
		if err := own.write(".ssh/authorized_keys", []byte(text), 0o600); err != nil {
			return err
		}
	}
	if first {
		return h.disk.chown(path, u.UID, u.UID) // last: until then no user is in there
	}
	return nil
}

func ownedByRoot(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0
}

// owned is a directory that belongs to a user.
type owned struct {
	root *os.Root
	user int // both uid and gid

}

// madeFor begins the comment of a key of ours; the ID of the cluster that it opens follows.
const madeFor = "muster:"

// The key by which a user's programs go from node to node, to which sshClient leads ssh; and the user's own.
const (
	clusterKey = ".ssh/id_muster"
	ownKey     = ".ssh/id_ed25519"
)

// internalKeys are the public halves of the keys that open this cluster's nodes to the user's programs: the cluster's, and the
// user's own, which may have a passphrase, or no public half here. A key that another cluster's agent has made came with a copy
// of that cluster's files, and does not count: it would open both.
func (o *owned) internalKeys(cluster string) (lines []string, err error) {
	line, made := o.publicHalf(ownKey + ".pub")
	if line != "" && made == "" {
		lines = append(lines, line)
	}
	line, made = o.publicHalf(clusterKey + ".pub")
	if _, err := o.root.Lstat(clusterKey); err == nil && made == cluster {
		return append(lines, line), nil
	}
	if err := o.remove(clusterKey); err != nil {
		return nil, err
	}
	key, line, err := sshKey(madeFor + cluster)
	if err != nil {
		return nil, err
	}
	if err := o.write(clusterKey+".pub", []byte(line+"\n"), 0o644); err != nil {
		return nil, err
	}
	return append(lines, line), o.write(clusterKey, key, 0o600)
}

// remove removes a file, if it is there.
func (o *owned) remove(name string) error {
	if err := o.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// publicHalf reads a public key, and which cluster's agent has made it; "": none has. What cannot be read is the user's affair.
func (o *owned) publicHalf(name string) (line, madeBy string) {
	text, err := o.read(name)
	if err != nil {
		return "", ""
	}
	key, comment, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		return "", ""
	}
	madeBy, ours := strings.CutPrefix(comment, madeFor)
	if !ours {
		return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))), ""
	}
	return strings.TrimSpace(text), madeBy
}

func (o *owned) copySkeleton(from string) error {
	source := os.DirFS(from)
	err := fs.WalkDir(source, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case entry.IsDir():
			return o.directory(name, 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := fs.ReadFile(source, name)
		if err != nil {
			return err
		}
		return o.write(name, content, 0o644)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // an image without a skeleton
	}
	return err
}

func (o *owned) directory(name string, mode fs.FileMode) error {
	if err := o.root.Mkdir(name, mode); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	return o.give(name)
}

// read returns "" for a file that is not there; it refuses what is not a plain small file, such as a pipe.
func (o *owned) read(name string) (string, error) {
	info, err := o.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a plain file", name)
	}
	f, err := o.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	return string(text), err
}

// write replaces the file by a new one of the user's.
func (o *owned) write(name string, content []byte, mode fs.FileMode) error {
	part := name + ".muster"
	if err := o.remove(part); err != nil {
		return err
	}
	f, err := o.root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := o.give(part); err != nil {
		return err
	}
	return o.root.Rename(part, name)
}

// give makes the user the owner of what was just made.
func (o *owned) give(name string) error {
	if os.Geteuid() != 0 {
		return nil // a test: everything is the caller's
	}
	return o.root.Lchown(name, o.user, o.user)
}
