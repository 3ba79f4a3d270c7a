package noded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"muster/internal/kit/shell"
	"muster/internal/protocol"
)

// mostSampleBytes of a task's samples are read.
const mostSampleBytes = 256 << 10

// taskFiles are a task's directory in its user's home. The agent writes there as the user alone, and believes nothing that it
// reads: the user may put anything in its place. Those of the system's tasks are root's, where no user writes.
type taskFiles struct {
	disk      disk
	processes processes
	user      protocol.User
	below     string // the directory that those of all tasks of the user are below, and that no other user can change
	tasks     string // those of all tasks, from there
	home      string
	search    string // PATH
	id        string
}

// of are the files of a user's task.
func (f taskFiles) of(u protocol.User) taskFiles {
	f.user, f.home, f.search = u, "/home/"+u.Name, "/usr/local/bin:/usr/bin:/bin"
	f.below, f.tasks = f.home, ".muster/tasks"
	return f
}

// ofSystem are those of the system's.
func (f taskFiles) ofSystem() taskFiles {
	f.user, f.home, f.search = protocol.User{Name: "root"}, "/", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	f.below, f.tasks = protocol.RunDir, "tasks"
	return f
}

func (f taskFiles) dir() string             { return filepath.Join(f.below, f.tasks, f.id) }
func (f taskFiles) path(name string) string { return filepath.Join(f.dir(), name) }

// has says that a program is on the head.
func (f taskFiles) has(program string) bool {
	info, err := os.Stat(f.disk.path(program))
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// as runs a program as the user, at home, with a fresh environment.
func (f taskFiles) as(ctx context.Context, argv ...string) ([]byte, error) {
	return f.processes.RunAs(ctx, f.account(), f.enter(argv...)...)
}

func (f taskFiles) account() Account { return Account{UID: f.user.UID, GID: f.user.UID} }

func (f taskFiles) enter(argv ...string) []string {
	name := f.user.Name
	return append([]string{"env", "-i", "-C", f.home, "HOME=" + f.home, "USER=" + name, "LOGNAME=" + name, "SHELL=/bin/bash",
		"LANG=C.UTF-8", "PATH=" + f.search}, argv...)
}

// prepare lays out what the job is to start. launch is what starts a command once a rank; "" if that is once.
func (f taskFiles) prepare(ctx context.Context, t protocol.Task, launch string) error {
	const make = `set -e; umask 077; mkdir -p "$1"; cd "$1"; printf %s "$2" >job; printf %s "$3" >script; chmod 700 job script`
	if _, err := f.as(ctx, "/bin/sh", "-c", make, "sh", f.dir(), f.job(t, launch), t.Script); err != nil {
		return fmt.Errorf("its files can't be made: %w", err)
	}
	return nil
}

// job is the program that the scheduler starts. It makes its environment that of a login, and leaves the exit status in a file,
// for a scheduler that has forgotten the job.
func (f taskFiles) job(t protocol.Task, launch string) string {
	var b strings.Builder
	b.WriteString("#!/bin/bash\n")
	for _, setting := range [][2]string{{"HOME", f.home}, {"USER", f.user.Name}, {"LOGNAME", f.user.Name}, {"SHELL", "/bin/bash"},
		{"LANG", "C.UTF-8"}, {"PATH", f.search}, {"MUSTER_TASK", t.ID}, {"MUSTER_SAMPLES", f.path("samples")}} {
		fmt.Fprintf(&b, "export %s=%s\n", setting[0], shell.Quoted(setting[1]))
	}
	// bash(1), INVOCATION: of the user's own, the first that there is.
	b.WriteString("cd\n[ ! -r /etc/profile ] || . /etc/profile\n" +
		"for profile in ~/.bash_profile ~/.bash_login ~/.profile; do [ ! -r \"$profile\" ] || { . \"$profile\"; break; }; done\n")
	switch {
	case t.Script == "":
		if t.Ranks > 0 || t.Nodes > 1 || len(t.On) > 1 { // who asks for none of it gets no launcher's words in the output
			b.WriteString(launch)
		}
		for _, word := range t.Command {
			b.WriteString(" " + shell.Quoted(word))
		}
	case strings.HasPrefix(t.Script, "#!"):
		b.WriteString(shell.Quoted(f.path("script")))
	default:
		b.WriteString("bash " + shell.Quoted(f.path("script")))
	}
	fmt.Fprintf(&b, "\ncode=$?\necho $code >%s\nexit $code\n", shell.Quoted(f.path("exit")))
	return b.String()
}

// open opens a file of the task for reading, if it is the user's own.
func (f taskFiles) open(name string) (*os.File, fs.FileInfo, error) {
	root, err := os.OpenRoot(f.disk.path(f.below))
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	file, err := root.OpenFile(filepath.Join(f.tasks, f.id, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil {
		if owner, ok := info.Sys().(*syscall.Stat_t); !ok || !info.Mode().IsRegular() || int(owner.Uid) != f.user.UID {
			err = fmt.Errorf("%s is no file of %s", name, f.user.Name)
		}
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// output reads what the task wrote from a byte on, a piece at most, and says how much there is. A file that is not there is
// empty.
func (f taskFiles) output(from int64) (piece []byte, size int64, err error) {
	file, info, err := f.open("output")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	piece = make([]byte, max(0, min(protocol.MostTaskPiece, info.Size()-from)))
	n, err := file.ReadAt(piece, from)
	if err == io.EOF { // it was cut
		err = nil
	}
	return piece[:n], info.Size(), err
}

// exit is the status that the job has left.
func (f taskFiles) exit() (code int, there bool) {
	file, _, err := f.open("exit")
	if err != nil {
		return 0, false
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 16))
	code, err2 := strconv.Atoi(strings.TrimSpace(string(text)))
	return code, err == nil && err2 == nil && code >= 0 && code < 256
}

// samples reads the lines NAME VALUE [UNIT] that the program has left. What says nothing of the kind is counted.
func (f taskFiles) samples() (samples []protocol.TaskSample, wrong int) {
	file, _, err := f.open("samples")
	if err != nil {
		return nil, 0
	}
	defer file.Close()
	lines := bufio.NewScanner(io.LimitReader(file, mostSampleBytes))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		if len(words) < 2 || len(words) > 3 || len(words[0]) > 100 || len(samples) == protocol.MostTaskSamples {
			wrong++
			continue
		}
		value, err := strconv.ParseFloat(words[1], 64)
		if err != nil || math.IsInf(value, 0) || math.IsNaN(value) {
			wrong++
			continue
		}
		sample := protocol.TaskSample{Name: words[0], Value: value}
		if len(words) == 3 {
			sample.Unit = words[2][:min(len(words[2]), 32)]
		}
		samples = append(samples, sample)
	}
	if lines.Err() != nil { // a line without end
		wrong++
	}
	return samples, wrong
}

// remove takes the task's directory away.
func (f taskFiles) remove(ctx context.Context) error {
	_, err := f.as(ctx, "rm", "-rf", "--", f.dir())
	return err
}
