package rack

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"muster/internal/kit/locks"
)

// Folder is a rack by the path of its folder, which holds all that it has.
type Folder string

// The files of a rack's folder, machines' own aside.
const (
	shapeFile       = "rack.json"
	lockFile        = "rack.lock"
	logFile         = "rack.log"
	csvFile         = "rack.csv"
	listsFile       = "lists" // other places of rack.csv
	socketFile      = "rack.sock"
	netnsFile       = "netns"
	credentialsFile = "bmc.credentials"
	certificateFile = "bmc.pem"
	machinesDir     = "machines"
)

func (f Folder) file(name string) string { return filepath.Join(string(f), name) }

// Log is the file of what the rack's process has said.
func (f Folder) Log() string { return f.file(logFile) }

// CSV is the file of the list of machines, as `machines import` reads it.
func (f Folder) CSV() string { return f.file(csvFile) }

// Socket is where the rack's process answers.
func (f Folder) Socket() string { return f.file(socketFile) }

// Netns is the file that the rack's network namespace is mounted on.
func (f Folder) Netns() string { return f.file(netnsFile) }

// Credentials is the file of the BMCs' user and password.
func (f Folder) Credentials() string { return f.file(credentialsFile) }

// Certificate is the file of the BMCs' certificate and key.
func (f Folder) Certificate() string { return f.file(certificateFile) }

// Machine is the folder of a machine's own files.
func (f Folder) Machine(name string) string { return filepath.Join(f.file(machinesDir), name) }

// ConsoleLog is the file of what a machine has written to its serial line since it was switched on last; the time before is
// in a file beside it, which ends in .1.
func (f Folder) ConsoleLog(name string) string { return filepath.Join(f.Machine(name), "console.log") }

// Shape is what the rack is made of, whether its process runs or not; os.ErrNotExist if there is no rack.
func (f Folder) Shape() (Shape, error) {
	var s Shape
	text, err := os.ReadFile(f.file(shapeFile))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("%s: %w", f.file(shapeFile), err)
	}
	return s, s.Validate()
}

// Hold makes this process the rack's only one, until the file descriptor is closed, or the process ends.
func (f Folder) Hold() (fd int, err error) {
	path := f.file(lockFile)
	fd, err = unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	held, err := locks.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if held {
		return fd, nil
	}
	unix.Close(fd)
	if err == nil {
		return 0, errHeld
	}
	return 0, fmt.Errorf("lock %s: %w", path, err)
}

var errHeld = errors.New("another process runs this rack")

// RemoveNetwork ends the rack's network namespace, if there is one. The kernel keeps it for as long as sockets in it are open.
func (f Folder) RemoveNetwork() error {
	path := f.Netns()
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break // nothing is mounted there
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
