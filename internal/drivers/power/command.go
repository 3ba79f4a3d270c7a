package power

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"muster/internal/netns"
	"muster/internal/private"
)

// Exit statuses of a site's program that mean something.
const (
	exitUnsupported = 3
	exitCredentials = 4
)

const (
	maxOutput = 4096 // bytes that are kept of what a program says; the rest is read and dropped
	// afterKill is how long a program's pipes are read after its end, in case something that it started holds them.
	afterKill = 500 * time.Millisecond
)

// program switches a machine by a site's own program. It is run without a shell as PROGRAM ARGS… state|on|off|boot-network,
// inside the network namespace of the machine's network.
type program struct {
	dir         private.Dir
	name        string
	args        []string
	environment []string
	credentials reference
	namespace   string
}

func newProgram(dir private.Dir, control Control, credentials reference, t Target) (program, error) {
	if dir == "" {
		return program{}, errors.New("command: this site has no directory of power commands")
	}
	return program{
		dir: dir, name: control.Program, args: control.Args,
		environment: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
			"MUSTER_MACHINE=" + t.Machine, "MUSTER_MACS=" + strings.Join(t.MACs, " "),
		},
		credentials: credentials, namespace: t.Network.Namespace,
	}, nil
}

// State of a program that cannot tell is Unknown: there is nobody to ask.
func (p program) State(ctx context.Context) (State, error) {
	out, err := p.run(ctx, "state")
	switch {
	case errors.Is(err, ErrUnsupported):
		return Unknown, nil
	case err != nil:
		return Unknown, err
	case strings.TrimSpace(out) == string(On):
		return On, nil
	case strings.TrimSpace(out) == string(Off):
		return Off, nil
	}
	return Unknown, errors.New("what it printed for state is neither on nor off")
}

func (p program) On(ctx context.Context) error  { return p.do(ctx, "on") }
func (p program) Off(ctx context.Context) error { return p.do(ctx, "off") }

func (p program) BootFromNetwork(ctx context.Context) error { return p.do(ctx, "boot-network") }

func (p program) do(ctx context.Context, what string) error {
	_, err := p.run(ctx, what)
	return err
}

// run runs the program once. It may be killed at any time, with all processes of its group.
func (p program) run(ctx context.Context, what string) (string, error) {
	file, err := p.dir.Program(p.name) // before each run
	if err != nil {
		return "", err
	}
	var who credentials
	if p.credentials.text != "" {
		if who, err = p.credentials.read(); err != nil {
			return "", err
		}
	}
	var out, complaint bounce
	c := exec.CommandContext(ctx, file, append(slices.Clone(p.args), what)...)
	c.Dir, c.Env, c.Stdout, c.Stderr, c.WaitDelay = "/", p.environment, &out, &complaint, afterKill
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	if who.password != nil {
		c.Stdin = strings.NewReader(who.line() + "\n")
	}
	if err := netns.Do(p.namespace, c.Start); err != nil {
		return "", err
	}
	err = c.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.kept.String(), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("killed: %w", ctx.Err())
	case !errors.As(err, &exit):
		return "", err
	case exit.ExitCode() == exitUnsupported:
		return "", ErrUnsupported
	case exit.ExitCode() == exitCredentials:
		return "", fmt.Errorf("%w: %s", ErrCredentials, orNothing(who.redact(complaint.kept.String())))
	}
	return "", fmt.Errorf("%s: %s", exit, orNothing(who.redact(complaint.kept.String())))
}

func orNothing(text string) string {
	if text == "" {
		return "it said nothing"
	}
	return "it said: " + text
}

// bounce keeps the first maxOutput bytes that are written to it and takes the rest without a word.
type bounce struct{ kept bytes.Buffer }

func (b *bounce) Write(p []byte) (int, error) {
	b.kept.Write(p[:min(len(p), maxOutput-b.kept.Len())])
	return len(p), nil
}
