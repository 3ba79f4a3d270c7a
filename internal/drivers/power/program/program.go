// Package program switches machines by a program of the site's own.
//
// What enters: the program's path, and what it prints. What leaves: its arguments (what is to be done, for which machine), and
// whether the machine is on.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"muster/internal/drivers/power"
	"muster/internal/kit/netns"
	"muster/internal/kit/pattern"
	"muster/internal/kit/private"
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

const scheme = "command"

// maxArgs bounds what is taken from outside.
const maxArgs = 16

// Factory declares the driver. What a program cannot do, it says itself.
func Factory() power.Factory {
	return power.Factory{
		Scheme: scheme, Title: "a program", Usage: "command:PROGRAM", Form: "command:PROGRAM[?arg=A&…]",
		About:        "a program of the site's in power.d of the data directory",
		Capabilities: power.Capabilities{SwitchesOff: true, SeesPower: true, Credentials: power.Optional},
		Parse:        parse,
	}
}

// control is what is run.
type control struct {
	program string // a file name
	args    []string
}

var programName = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func parse(rest string) (power.Control, error) {
	program, query, hasQuery := strings.Cut(strings.TrimPrefix(rest, ":"), "?")
	if !programName.MatchString(program) || len(program) > 255 {
		return nil, fmt.Errorf("%q is no plain file name; the program must be in the directory that the site has for them",
			program)
	}
	c := control{program: program}
	if !hasQuery {
		return c, nil
	}
	for part := range strings.SplitSeq(query, "&") {
		value, ok := strings.CutPrefix(part, "arg=")
		if !ok {
			return nil, errors.New("after the program comes ?arg=A&arg=B…, each percent-encoded as in a URL")
		}
		arg, err := url.QueryUnescape(value)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", len(c.args)+1, err)
		}
		if strings.ContainsRune(arg, 0) {
			return nil, fmt.Errorf("argument %d holds a zero byte", len(c.args)+1)
		}
		c.args = append(c.args, arg)
	}
	if len(c.args) > maxArgs {
		return nil, fmt.Errorf("%d arguments; at most %d", len(c.args), maxArgs)
	}
	return c, nil
}

func (c control) String() string { return scheme + ":" + c.program }

// To is the program: it says itself to whom it shows what it is given.
func (c control) To() string { return c.String() }

func (c control) Open(o power.Opening) (power.Driver, error) {
	if o.Programs == "" {
		return nil, errors.New("this site has no directory of power commands")
	}
	return driver{
		dir: o.Programs, control: c, credentials: o.Credentials, namespace: o.Network.Namespace,
		environment: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
			"MUSTER_MACHINE=" + o.Machine, "MUSTER_MACS=" + strings.Join(o.MACs, " "),
		},
	}, nil
}

// driver runs the program without a shell as PROGRAM ARGS… state|on|off|boot-network, inside the network namespace of the
// machine's network.
type driver struct {
	dir         private.Dir
	control     control
	environment []string
	credentials power.Source
	namespace   string
}

// State of a program that cannot tell is Unknown: there is nothing to ask.
func (p driver) State(ctx context.Context) (power.State, error) {
	out, err := p.run(ctx, "state")
	switch {
	case errors.Is(err, power.ErrUnsupported):
		return power.Unknown, nil
	case err != nil:
		return power.Unknown, err
	case strings.TrimSpace(out) == string(power.On):
		return power.On, nil
	case strings.TrimSpace(out) == string(power.Off):
		return power.Off, nil
	}
	return power.Unknown, errors.New("what it printed for state is neither on nor off")
}

func (p driver) On(ctx context.Context) error  { return p.do(ctx, "on") }
func (p driver) Off(ctx context.Context) error { return p.do(ctx, "off") }

func (p driver) BootFromNetwork(ctx context.Context) error { return p.do(ctx, "boot-network") }

func (p driver) do(ctx context.Context, what string) error {
	_, err := p.run(ctx, what)
	return err
}

// run runs the program once. It may be killed at any time, with all processes of its group.
func (p driver) run(ctx context.Context, what string) (string, error) {
	file, err := p.dir.Program(p.control.program) // before each run
	if err != nil {
		return "", err
	}
	var who power.Credentials
	if p.credentials.Given() {
		if who, err = p.credentials.Read(); err != nil {
			return "", err
		}
	}
	var out, complaint bounce
	c := exec.CommandContext(ctx, file, append(slices.Clone(p.control.args), what)...)
	c.Dir, c.Env, c.Stdout, c.Stderr, c.WaitDelay = "/", p.environment, &out, &complaint, afterKill
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	if who.Given() {
		c.Stdin = strings.NewReader(who.Line() + "\n")
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
		return "", power.ErrUnsupported
	case exit.ExitCode() == exitCredentials:
		return "", fmt.Errorf("%w: %s", power.ErrCredentials, orNothing(who.Redact(complaint.kept.String())))
	}
	return "", fmt.Errorf("%s: %s", exit, orNothing(who.Redact(complaint.kept.String())))
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
