// Package jail runs a head's NFS server with nothing in sight but /home and its own libraries. An NFS server opens files by
// the numbers that its clients name, so what it could open by a number must not be there.
//
// What enters: the rights of the process that starts it, CAP_SYS_ADMIN and CAP_DAC_READ_SEARCH among them, and then Files,
// again and again. What leaves: the server's own lines.
//
//	agent ── DropPrivileges, Start ─→ build: a tree of its own ─→ keep: few rights; starts the server, and starts it again
//
// All three are one program: the agent starts itself as "muster agent home". A head in a container is given both rights for the
// moment of its start only: DropPrivileges makes the jail before anything else happens, and goes on without them.
package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"muster/internal/protocol"
)

// Files are what the server is given: paths in its own tree, and what is in them. A change of Config makes it read that again.
type Files map[string]string

// Config is where the server finds its configuration, and StateDir where it may write.
const (
	Config   = "/etc/ganesha/muster.conf"
	StateDir = "/var/lib/nfs/ganesha"
)

// Argument is what the program is called with, after the agent's own, when it is to be in the jail.
const Argument = "home"

// shedVariable tells the agent, started once more, what became of its jail.
const shedVariable = "MUSTER_HOME_JAIL"

// Inherited is a jail that DropPrivileges has made.
type Inherited struct {
	PID    int
	Input  *os.File // for Send
	Output *os.File // the server's lines
}

// DropPrivileges makes the first process of a container that has the rights to build a jail build it, give them up, and begin
// again without them; then it does not return. If no jail can be built, it begins again all the same, and Inherit says why there
// is none. Everywhere else, and the second time, it does nothing. It is to be called before anything else that the process does.
func DropPrivileges() {
	if os.Getpid() != 1 || os.Getenv(shedVariable) != "" || inside() ||
		!bounded(unix.CAP_DAC_READ_SEARCH) || bounded(unix.CAP_SYS_MODULE) {
		return // CAP_SYS_MODULE: a machine's own init, which needs its rights all the time
	}
	told := "!this head was started without the right to make a tree of its own for its NFS server (CAP_SYS_ADMIN)"
	if bounded(unix.CAP_SYS_ADMIN) {
		var jail *Inherited
		err := ownFileSystem()
		if err == nil {
			jail, err = start()
		}
		if err == nil {
			told = fmt.Sprintf("%d,%d,%d", jail.PID, jail.Input.Fd(), jail.Output.Fd())
			for _, f := range []*os.File{jail.Input, jail.Output} { // over the exec, and no further
				_, _ = unix.FcntlInt(f.Fd(), unix.F_SETFD, 0)
			}
		} else {
			told = "!" + err.Error()
		}
	}
	runtime.LockOSThread() // the thread that begins again is the one that gives up
	err := forbid()
	if err == nil {
		err = drop(unix.CAP_SYS_ADMIN, unix.CAP_DAC_READ_SEARCH)
	}
	if err == nil {
		err = syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), shedVariable+"="+told))
	}
	fmt.Fprintf(os.Stderr, "give up rights: %v\n", err)
	os.Exit(1)
}

// ownFileSystem refuses a /home that is a folder of a file system with other things in it, which the server could be asked
// for: as everything else of a head in a container, these come from its host's disk.
func ownFileSystem() error {
	var home, other unix.Stat_t
	if err := unix.Stat("/home", &home); err != nil {
		return fmt.Errorf("/home: %w", err)
	}
	for _, name := range []string{protocol.AgentPath, protocol.SocketDir, protocol.StateDir} {
		err := unix.Stat(name, &other)
		if err == nil && other.Dev == home.Dev {
			return fmt.Errorf("/home is not served, since it is a folder of a larger file system of the controller's host, "+
				"that of %s: "+
				"who may mount it could ask for files beside it; it moves to a file system of its own while no node of the "+
				"cluster "+
				"runs: muster pause and muster resume", name)
		}
	}
	return nil
}

// Possible says why a process that has inherited no jail cannot make one; nil: it can.
func Possible() error {
	if bounded(unix.CAP_SYS_ADMIN) && bounded(unix.CAP_DAC_READ_SEARCH) {
		return nil
	}
	return errors.New("this head was started without the right to serve /home: when it started, the site had neither machines " +
		"nor virtual " +
		"machines, or /home was a folder of the controller's host's own file system; muster pause and muster resume start it " +
		"with it")
}

// Inherit is what DropPrivileges has left: a jail, an error that says why there is none, or neither if DropPrivileges
// did nothing. It is to be called once.
func Inherit() (*Inherited, error) {
	told := os.Getenv(shedVariable)
	if told == "" {
		return nil, nil
	}
	if err := os.Unsetenv(shedVariable); err != nil {
		return nil, err
	}
	if reason, failed := strings.CutPrefix(told, "!"); failed {
		return nil, errors.New(reason)
	}
	var numbers [3]int
	for i, word := range strings.SplitN(told, ",", 3) {
		number, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("%s=%q: %w", shedVariable, told, err)
		}
		numbers[i] = number
	}
	unix.CloseOnExec(numbers[1])
	unix.CloseOnExec(numbers[2])
	return &Inherited{numbers[0], os.NewFile(uintptr(numbers[1]), "jail"), os.NewFile(uintptr(numbers[2]), "jail")}, nil
}

// start makes a jail as a child of this process, and returns when it is built.
func start() (*Inherited, error) {
	var pipes [3]struct{ read, write *os.File }
	for i := range pipes {
		read, write, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("jail of the NFS server: %w", err)
		}
		pipes[i].read, pipes[i].write = read, write
	}
	input, output, ready := pipes[0], pipes[1], pipes[2]
	pid, err := forkExec("/proc/self/exe", []string{os.Args[0], "agent", Argument}, &syscall.ProcAttr{
		Dir: "/", Env: append(os.Environ(), readyVariable+"=3"),
		Files: []uintptr{input.read.Fd(), output.write.Fd(), output.write.Fd(), ready.write.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Unshareflags: unix.CLONE_NEWNS},
	})
	for _, f := range []*os.File{input.read, output.write, ready.write} {
		f.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("jail of the NFS server: %w", err)
	}
	defer ready.read.Close()
	if told, err := io.ReadAll(ready.read); err != nil || string(told) != built {
		return nil, fmt.Errorf("jail of the NFS server: %s", strings.TrimSpace(string(told)))
	}
	return &Inherited{pid, input.write, output.read}, nil
}

// forkExec starts a process as the first of a PID namespace. It takes unshare for that, and takes it back, as containers may not
// make a namespace by clone.
func forkExec(path string, args []string, attributes *syscall.ProcAttr) (pid int, err error) {
	runtime.LockOSThread() // both are of one thread
	defer runtime.UnlockOSThread()
	own, err := os.Open("/proc/thread-self/ns/pid")
	if err != nil {
		return 0, err
	}
	defer own.Close()
	if err := unix.Unshare(unix.CLONE_NEWPID); err != nil {
		return 0, fmt.Errorf("PID namespace: %w", err)
	}
	pid, err = syscall.ForkExec(path, args, attributes)
	return pid, errors.Join(err, unix.Setns(int(own.Fd()), unix.CLONE_NEWPID))
}

// Send gives a jail these files, by its input. The server starts with the first.
func Send(input io.Writer, files Files) error {
	text, err := json.Marshal(files)
	if err != nil {
		return err
	}
	_, err = input.Write(append(text, '\n'))
	return err
}

// bounded says whether this process could ever have a capability.
func bounded(capability uintptr) bool {
	held, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, capability, 0, 0, 0)
	return err == nil && held == 1
}

// drop takes capabilities from what this thread, and what it starts, could ever have.
func drop(capabilities ...uintptr) error {
	for _, c := range capabilities {
		// EINVAL: the kernel has no such
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("give up capability %d: %w", c, err)
		}
	}
	return nil
}
