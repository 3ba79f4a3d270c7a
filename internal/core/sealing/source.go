package sealing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/files"
)

// maxText bounds what a source says, in bytes.
const maxText = 64 << 10

// commandLimit is how long a program may take to say the key: it may have to ask somebody far away.
const commandLimit = 30 * time.Second

// file is keys in a file.
type file struct {
	path string
	own  bool // the controller's: it makes and changes it
}

// File is the ring of a file. One that is the controller's own is made when it is needed, and changed by Add and Drop.
func File(path string, own bool) *Ring { return &Ring{source: file{path, own}} }

func (f file) String() string { return f.path }

// read refuses a file that others than its owner can read or change: it would protect nothing.
func (f file) read(context.Context) (string, error) {
	opened, err := os.OpenFile(f.path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) && f.own {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("key file: %w", err)
	}
	defer func() { _ = opened.Close() }()
	info, err := opened.Stat()
	if err != nil {
		return "", fmt.Errorf("key file: %w", err)
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	switch {
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("key file %s is not a regular file", f.path)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("key file %s is open to others (mode %#o): chmod 600 %s", f.path, info.Mode().Perm(), f.path)
	case owner != 0 && int(owner) != os.Geteuid():
		return "", fmt.Errorf("key file %s belongs to user %d: chown root %s", f.path, owner, f.path)
	}
	text, err := io.ReadAll(io.LimitReader(opened, maxText))
	if err != nil {
		return "", fmt.Errorf("key file: %w", err)
	}
	return string(text), nil
}

const about = "# The key that the secrets in this site's database are sealed with. Without it they are lost: keep a copy, " +
	"but not\n" +
	"# where the backups of the database are. See muster secrets list, and docs/secrets.md.\n"

// Create makes the controller's own file with a first key; controllers that start together agree on one. Of another source it
// is an error: the person who brings the key makes it.
func (r *Ring) Create(ctx context.Context) error {
	f, ok := r.source.(file)
	if !ok || !f.own {
		return fmt.Errorf("%s has no key; make one by: head -c 32 /dev/urandom | base64", r.source)
	}
	err := files.Create(f.path, []byte(about+newLine()+"\n"), 0o600)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("key file: %w", err)
	}
	return r.Load(ctx)
}

// Own says whether the keys lie in a file that the controller makes and changes.
func (r *Ring) Own() bool { f, ok := r.source.(file); return ok && f.own }

// Add puts a new key before the others, in the controller's own file.
func (r *Ring) Add(ctx context.Context) error {
	f, text, err := r.text(ctx)
	if err != nil {
		return err
	}
	if err := files.Write(f.path, []byte(about+newLine()+"\n"+text), 0o600); err != nil {
		return fmt.Errorf("key file: %w", err)
	}
	return r.Load(ctx)
}

// Keep drops all keys but one from the controller's own file. Nothing may be sealed with them any more.
func (r *Ring) Keep(ctx context.Context, id string) error {
	f, text, err := r.text(ctx)
	if err != nil {
		return err
	}
	for _, line := range strings.Split(text, "\n") {
		if keys, err := parse(line); err == nil && len(keys) == 1 && keys[0].id == id {
			if err := files.Write(f.path, []byte(about+line+"\n"), 0o600); err != nil {
				return fmt.Errorf("key file: %w", err)
			}
			return r.Load(ctx)
		}
	}
	return fmt.Errorf("%s: %w: %s", r.source, ErrNoKey, id)
}

// text is what the controller's own file says, without comments.
func (r *Ring) text(ctx context.Context) (f file, text string, err error) {
	f, ok := r.source.(file)
	if !ok || !f.own {
		return f, "", fmt.Errorf("%s is the site's own: the controller does not change it", r.source)
	}
	if text, err = f.read(ctx); err != nil {
		return f, "", err
	}
	var lines strings.Builder
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines.WriteString(line + "\n")
		}
	}
	return f, lines.String(), nil
}

// command is keys that a program prints.
type command struct{ path string }

// Command is the ring of a program: what it prints is read as a file would be. It is run without arguments, with PATH alone in
// its environment, for 30 s at most, when the controller starts and when a key is looked for that is not known.
func Command(path string) *Ring { return &Ring{source: command{path}} }

func (c command) String() string { return "the program " + c.path }

func (c command) read(ctx context.Context) (string, error) {
	if err := rootsAlone(c.path); err != nil {
		return "", fmt.Errorf("key command: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	run := exec.CommandContext(limited, c.path)
	run.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	run.Dir = "/"
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	run.Cancel = func() error { return syscall.Kill(-run.Process.Pid, syscall.SIGKILL) }
	run.WaitDelay = time.Second
	said, complaint := &bounded{}, &bounded{}
	run.Stdout, run.Stderr = said, complaint
	if err := run.Run(); err != nil {
		if limited.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("it took more than %s", commandLimit)
		}
		return "", fmt.Errorf("key command %s: %w%s", c.path, err, complaint.quoted())
	}
	if strings.TrimSpace(said.String()) == "" {
		return "", fmt.Errorf("key command %s printed nothing", c.path)
	}
	return said.String(), nil
}

// bounded takes a text of limited length; who writes more is cut off.
type bounded struct{ kept []byte }

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.kept)+len(p) > maxText {
		return 0, fmt.Errorf("it says more than %d bytes", maxText)
	}
	b.kept = append(b.kept, p...)
	return len(p), nil
}

func (b *bounded) String() string { return string(b.kept) }

// quoted is the beginning of a complaint, fit for a line of a log.
func (b *bounded) quoted() string {
	if text := strings.TrimSpace(b.String()); text != "" {
		return fmt.Sprintf(", and says %.200q", text)
	}
	return ""
}

// rootsAlone says what is wrong with a program that is to be run as root: no other user may be able to change it.
func rootsAlone(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return fmt.Errorf("%q is no absolute, clean path of a program", path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	for at := real; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		sticky := info.IsDir() && info.Mode()&fs.ModeSticky != 0
		if info.Sys().(*syscall.Stat_t).Uid != 0 || info.Mode().Perm()&0o022 != 0 && !sticky {
			return fmt.Errorf("%s can be changed by others than root (mode %#o)", at, info.Mode().Perm())
		}
		if at == real && (!info.Mode().IsRegular() || info.Mode().Perm()&0o100 == 0) {
			return fmt.Errorf("%s is no program", at)
		}
		if at == "/" {
			return nil
		}
	}
}

// text is keys in memory.
type text string

// Text is the ring of keys that are given as they would stand in a file.
func Text(lines string) *Ring { return &Ring{source: text(lines)} }

func (t text) String() string                       { return "the key in memory" }
func (t text) read(context.Context) (string, error) { return string(t), nil }
