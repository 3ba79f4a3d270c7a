package rack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/clock"
)

// longestSocket is what the kernel takes as the path of a socket (unix(7)).
const longestSocket = 107

// Up makes sure that a rack of that shape is up, in a process of its own that command runs: `muster-rack DIR`. A rack that is
// up already stays as it is; one of another shape is ErrConflict.
func (f Folder) Up(ctx context.Context, shape Shape, command []string) (State, error) {
	if err := shape.Validate(); err != nil {
		return State{}, err
	}
	if len(f.Socket()) > longestSocket {
		return State{}, fmt.Errorf("%s: the path of the rack's folder is too long; use one of at most %d characters", f,
			longestSocket-len(socketFile)-1)
	}
	state, err := f.Look(ctx)
	switch {
	case err == nil:
		return state, differs(state.Shape, shape)
	case !errors.Is(err, ErrNoRack):
		return State{}, err
	}
	made, err := f.writeShape(shape)
	if err != nil {
		return State{}, err
	}
	state, err = f.launch(ctx, command)
	if err != nil && made {
		err = errors.Join(err, f.Down(context.WithoutCancel(ctx))) // nothing of it is worth keeping
	}
	return state, err
}

// differs says in what a rack is not the one asked for.
func differs(is, want Shape) error {
	if is == want {
		return nil
	}
	var a, b map[string]any
	for shape, into := range map[Shape]*map[string]any{is: &a, want: &b} {
		text, err := json.Marshal(shape)
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			return err
		}
	}
	var differences []string
	for _, key := range []string{"name", "machines", "firmware", "power", "cpus", "memory_mib", "disks", "disk_mib", "disk_kind",
		"nics", "accel"} {
		if a[key] != b[key] {
			differences = append(differences, fmt.Sprintf("%s is %v, not %v", key, a[key], b[key]))
		}
	}
	return conflict("the rack that is there is another: " + strings.Join(differences, ", ") + "; take it down first")
}

// writeShape makes the rack's folder. One that is there must be empty, or left by a rack of the same shape, which then is
// not made.
func (f Folder) writeShape(shape Shape) (made bool, err error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return false, err
	}
	if is, err := f.Shape(); err == nil {
		return false, differs(is, shape)
	} else if !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	there, err := os.ReadDir(string(f))
	if err != nil {
		return false, err
	}
	if len(there) > 0 {
		return false, conflict(fmt.Sprintf("%s is no rack's folder: it holds %s", f, there[0].Name()))
	}
	if err := os.Chmod(string(f), 0o700); err != nil {
		return false, err
	}
	text, err := json.MarshalIndent(shape, "", "  ")
	if err != nil {
		return false, err
	}
	return true, os.WriteFile(f.file(shapeFile), append(text, '\n'), 0o600)
}

// launch starts the rack's process and waits until it answers. If it does not, the last line of its log says why.
func (f Folder) launch(ctx context.Context, command []string) (State, error) {
	log, err := os.OpenFile(f.Log(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return State{}, err
	}
	defer log.Close()
	c := exec.Command(command[0], command[1:]...)
	c.Dir, c.Stdout, c.Stderr = string(f), log, log
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + string(f)} // whatever secret the caller's holds is not the rack's
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return State{}, fmt.Errorf("start the program of the rack: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Wait() // the log says more
	}()
	const pause = 20 * time.Millisecond
	for {
		state, err := f.Look(ctx)
		if err == nil || !errors.Is(err, ErrNoRack) {
			return state, err
		}
		select {
		case <-ended:
			return State{}, fmt.Errorf("the rack did not come up: %s", f.lastLine())
		case <-ctx.Done():
			_ = c.Process.Kill() // it may have ended
			return State{}, ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (f Folder) lastLine() string {
	text, err := os.ReadFile(f.Log())
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return strings.TrimPrefix(string(lines[len(lines)-1]), "error: ")
}

// downPatience is how long a rack may take to end; that of its machines needs a fraction of a second each.
const downPatience = 30 * time.Second

// Down takes the rack down, and everything that it has made: machines, disks, network, files, its folder. Without
// a rack it does nothing.
func (f Folder) Down(ctx context.Context) error {
	if _, err := os.Stat(string(f)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(f.file(shapeFile)); errors.Is(err, os.ErrNotExist) {
		return nil // somebody else's folder
	}
	if err := f.ask(ctx, http.MethodPost, PathEnd, nil, &struct{}{}); err != nil && !errors.Is(err, ErrNoRack) {
		return err
	}
	for deadline := time.Now().Add(downPatience); ; {
		held, err := f.Hold()
		if err == nil {
			defer unix.Close(held)
			break
		}
		if !errors.Is(err, errHeld) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the rack in %s does not end; %s says more", f, f.Log())
		}
		if err := clock.Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return f.remove()
}

// remove clears a folder that no process holds any more. The shape goes last but for the folder: until then this can be
// repeated.
func (f Folder) remove() error {
	if err := f.RemoveNetwork(); err != nil {
		return err
	}
	if err := f.removeLists(); err != nil {
		return err
	}
	for _, name := range []string{machinesDir, socketFile, listsFile, csvFile, credentialsFile, certificateFile, logFile,
		shapeFile, lockFile} {
		if err := os.RemoveAll(f.file(name)); err != nil {
			return err
		}
	}
	if err := os.Remove(string(f)); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
		return err // what else is in it is not the rack's
	}
	return nil
}

// WriteList writes the list of the rack's machines, for `machines import`, to another file too. Down removes that file,
// unless somebody has changed it.
func (f Folder) WriteList(path string) error {
	text, err := os.ReadFile(f.CSV())
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	file, err := os.OpenFile(f.file(listsFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, path)
	return errors.Join(err, file.Close())
}

func (f Folder) removeLists() error {
	paths, err := os.ReadFile(f.file(listsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ours, err := os.ReadFile(f.CSV())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for path := range strings.Lines(string(paths)) {
		path = strings.TrimSuffix(path, "\n")
		if text, err := os.ReadFile(path); err == nil && bytes.Equal(text, ours) {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}
