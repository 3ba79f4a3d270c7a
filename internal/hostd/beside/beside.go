// Package beside joins a controller to the agent of its own host, a program that it starts and that ends with it.
//
// What enters: on the controller's side, the agent's command line and what it is told; on the agent's, the file descriptor that
// it was born with. What leaves: connections between the two, for package calls. They are pairs of sockets without a name:
// nothing of them lies in a file system, and no other process can open one.
package beside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/clock"
	"muster/internal/kit/pipes"
)

// descriptor is the agent's end of the control socket: the first of exec.Cmd's ExtraFiles.
const descriptor = 3

// settingsLimit bounds what an agent is told at its start, in bytes: one packet.
const settingsLimit = 64 << 10

// Agent is a program beside the controller. It is restarted whenever it ends.
type Agent struct {
	argv     []string
	settings []byte
	log      *slog.Logger

	mu      sync.Mutex
	control *net.UnixConn // nil: it does not run
	runs    chan struct{} // closed while it does
}

// New describes an agent: its command line, and what it is told, as JSON.
func New(argv []string, settings any, log *slog.Logger) (*Agent, error) {
	text, err := json.Marshal(settings)
	if err == nil && len(text) > settingsLimit {
		err = fmt.Errorf("%d bytes of settings are more than the agent of a host takes", len(text))
	}
	return &Agent{argv: argv, settings: text, log: log, runs: make(chan struct{})}, err
}

// rest is how long an agent that has ended is left alone.
const rest = time.Second

// Run keeps it running until ctx ends, then ends it. started hears once, of its first start, or why there was none: then Run
// returns.
func (a *Agent) Run(ctx context.Context, started func(error)) {
	for first := true; ; first = false {
		ended, err := a.start(ctx)
		if first {
			started(err)
			if err != nil {
				return
			}
		}
		if err == nil {
			err = ended()
		}
		if ctx.Err() != nil {
			return
		}
		a.log.Error("the agent of this host has ended; it is started again", "error", err)
		if clock.Sleep(ctx, rest) != nil {
			return
		}
	}
}

// start returns when the agent has said that it is ready; ended waits for its end, and ends it when ctx ends.
func (a *Agent) start(ctx context.Context) (ended func() error, err error) {
	ours, theirs, err := pipes.Pair(unix.SOCK_SEQPACKET)
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	command := exec.Command(a.argv[0], a.argv[1:]...)
	command.ExtraFiles = []*os.File{theirs}
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is the controller's: the agent ends after it
	if err := command.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the agent of this host: %w", err), ours.Close())
	}
	_ = theirs.Close()                                          // so that its end is seen
	stop := context.AfterFunc(ctx, func() { _ = ours.Close() }) // which it sees
	wait := func() error {
		defer stop()
		err := command.Wait()
		a.put(nil)
		_ = ours.Close()
		return err
	}
	if err := a.tell(ours); err != nil {
		_ = ours.Close()
		_ = wait() // how it ended is no news beside why
		return nil, err
	}
	a.put(ours)
	return wait, nil
}

// tell gives it its settings, and hears whether it is ready.
func (a *Agent) tell(control *net.UnixConn) error {
	if _, err := control.Write(a.settings); err != nil {
		return fmt.Errorf("tell the agent of this host: %w", err)
	}
	said := make([]byte, settingsLimit)
	n, err := control.Read(said)
	if err != nil {
		return fmt.Errorf("the agent of this host says nothing: %w", err)
	}
	if why := strings.TrimPrefix(string(said[:n]), ready); why != "" {
		return errors.New(why)
	}
	return nil
}

// ready is what an agent says that is; others say why they are not.
const ready = "ready"

func (a *Agent) put(control *net.UnixConn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.control == nil && control != nil {
		close(a.runs)
	} else if a.control != nil && control == nil {
		a.runs = make(chan struct{})
	}
	a.control = control
}

// startsWithin is how long somebody waits who wants to connect while it is being started.
const startsWithin = 10 * time.Second

// running is its control socket, once it runs.
func (a *Agent) running(ctx context.Context) (*net.UnixConn, error) {
	a.mu.Lock()
	runs := a.runs
	a.mu.Unlock()
	late := time.NewTimer(startsWithin)
	defer late.Stop()
	select {
	case <-runs:
	case <-late.C:
		return nil, errors.New("its agent does not run")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.control == nil {
		return nil, errors.New("its agent has just ended")
	}
	return a.control, nil
}

// Connect opens a connection to it; while it is being started again, when it runs.
func (a *Agent) Connect(ctx context.Context) (net.Conn, error) {
	control, err := a.running(ctx)
	if err != nil {
		return nil, err
	}
	ours, theirs, err := pipes.Pair(unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	if _, _, err = control.WriteMsgUnix([]byte{0}, unix.UnixRights(int(theirs.Fd())), nil); err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	return ours, nil
}

// Listener is the agent's end: it hands out the connections that its controller opens, until that has gone.
type Listener struct{ control *net.UnixConn }

var _ net.Listener = (*Listener)(nil)

// Listen takes up what the controller has left for the program it started, and reads what it tells it.
func Listen(settings any) (*Listener, error) {
	control, err := pipes.FileConn(os.NewFile(descriptor, "controller"))
	if err != nil {
		return nil, errors.New("this program is started by `muster serve`, which leaves it a socket")
	}
	text := make([]byte, settingsLimit)
	n, err := control.Read(text)
	if err == nil {
		err = json.Unmarshal(text[:n], settings)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("what the controller tells: %w", err), control.Close())
	}
	return &Listener{control}, nil
}

// Ready tells the controller that connections are taken, or why this program cannot be its agent.
func (l *Listener) Ready(why error) error {
	text := ready
	if why != nil {
		text = why.Error()
	}
	_, err := l.control.Write([]byte(text))
	return err
}

// Accept returns net.ErrClosed when the controller has gone.
func (l *Listener) Accept() (net.Conn, error) {
	said, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	n, more, _, _, err := l.control.ReadMsgUnix(said, rights)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err != nil || n == 0 && more == 0 {
		return nil, net.ErrClosed
	}
	fd, err := descriptorIn(rights[:more])
	if err != nil {
		return nil, fmt.Errorf("a connection of the controller's: %w", err)
	}
	return pipes.FileConn(os.NewFile(uintptr(fd), "controller"))
}

func descriptorIn(rights []byte) (int, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return 0, err
	}
	if len(messages) != 1 {
		return 0, fmt.Errorf("it comes with %d control messages", len(messages))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, err
	}
	unix.CloseOnExec(fds[0]) // the message had room for one
	return fds[0], nil
}

// Close ends it.
func (l *Listener) Close() error { return l.control.Close() }

// Addr is nowhere that anybody could call.
func (l *Listener) Addr() net.Addr { return l.control.LocalAddr() }
