package external

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"

	"muster/internal/door/gateway/target"
	externals "muster/internal/kinds/external"
)

// question finds out which batch system there is, and asks it for its queues. It goes through a login shell, as at many
// external clusters the programs are on the PATH of such a shell alone; what such a shell says of itself comes before the first
// mark. It is one line, without what any shell would take as its own, so that accounts may have any.
const question = `sh -lc 'if command -v sinfo >/dev/null 2>&1; then echo "#muster slurm"; sinfo --version && exec sinfo -h -o "` + columns + `"; ` +
	`elif command -v qstat >/dev/null 2>&1; then echo "#muster pbs"; qstat --version 2>&1; echo "#muster queues"; qstat -Q -f && echo "#muster nodes" && exec pbsnodes -a; ` +
	`else echo "#muster none"; fi'`

// parse reads the answer to the question.
func parse(text string) (system string, queues []externals.Queue, err error) {
	parts := map[string]string{}
	part := ""
	for line := range strings.Lines(text) {
		if name, mark := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "#muster "); mark {
			part = name
			parts[part] = ""
		} else {
			parts[part] += line
		}
	}
	if text, found := parts["slurm"]; found {
		version, rest, _ := strings.Cut(text, "\n")
		number, isSlurm := strings.CutPrefix(strings.Replace(version, "slurm-wlm ", "slurm ", 1), "slurm ")
		if !isSlurm {
			return "", nil, fmt.Errorf("not a version of Slurm: %.80q", version)
		}
		queues, err = parseSlurm(rest)
		return clean(slurmName+number, 30), queues, err
	}
	if text, found := parts["pbs"]; found {
		queues, err = parsePBS(parts["queues"], parts["nodes"])
		return versionOfPBS(text), queues, err
	}
	if _, found := parts["none"]; found {
		return "", nil, errors.New("it has neither sinfo nor qstat: no batch system that Muster knows")
	}
	return "", nil, errors.New("the account's shell there does not run commands")
}

// versionOfPBS reads `qstat --version`: "pbs_version = 19.1.2", or Torque's "Version: 6.1.2".
func versionOfPBS(text string) string {
	for line := range strings.Lines(text) {
		if version, found := strings.CutPrefix(line, "pbs_version = "); found {
			return clean("PBS "+version, 30)
		}
		if version, found := strings.CutPrefix(strings.ToLower(line), "version: "); found {
			return clean("Torque "+version, 30)
		}
	}
	return "PBS"
}

// clean is text that others wrote, fit for one cell of a table.
func clean(text string, most int) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, text))
	return strings.TrimSpace(text[:min(len(text), most)])
}

// longest is how much an answer may be: the nodes of the largest external clusters.
const longest = 16 << 20

// Ask asks a batch system for its queues. An error says in an operator's words why they are not known.
func (d Door) Ask(ctx context.Context, c externals.Cluster) (system string, queues []externals.Queue, err error) {
	t, err := probe(c, d.Authority)
	if err == nil {
		system, queues, err = ask(ctx, t)
	}
	if err != nil {
		return "", nil, errors.New(Why(c, c.Probe, err))
	}
	return system, queues, nil
}

// ask logs in and asks.
func ask(ctx context.Context, t target.Target) (system string, queues []externals.Queue, err error) {
	text, complaint, err := command(ctx, t, question, "", longest)
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		return "", nil, fmt.Errorf("its batch system does not answer: %s", cmp.Or(lastLine(complaint), exit.Error()))
	}
	if err != nil {
		return "", nil, err
	}
	return parse(text)
}

// command logs in and runs a command line with this input. It returns what that wrote, and the beginning of its complaints.
func command(ctx context.Context, t target.Target, line, input string, most int) (text, complaints string, err error) {
	conn, channels, requests, err := t.Connect(ctx)
	if err != nil {
		return "", "", err
	}
	client := ssh.NewClient(conn, channels, requests)
	defer func() { _ = client.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	defer stop()
	session, err := client.NewSession()
	if err != nil {
		return "", "", fmt.Errorf("open a session: %w", err)
	}
	out, complaint := &limited{left: most}, &limited{left: 4 << 10}
	session.Stdin, session.Stdout, session.Stderr = strings.NewReader(input), out, complaint
	err = session.Run(line)
	if cause := context.Cause(ctx); cause != nil {
		return "", "", cause
	}
	if err == nil && out.left <= 0 {
		err = fmt.Errorf("its answer is longer than %d MiB", most>>20)
	}
	return out.String(), complaint.String(), err
}

// lastLine is the last thing that was said.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return clean(lines[len(lines)-1], 200)
}

// limited keeps the beginning of what is written to it.
type limited struct {
	bytes.Buffer
	left int
}

// Write never fails: the other side shall come to its end.
func (l *limited) Write(p []byte) (int, error) {
	keep := p[:min(len(p), max(l.left, 0))]
	l.left -= len(p)
	_, err := l.Buffer.Write(keep)
	return len(p), err
}

// Why says in a user's words why an external cluster could not be logged in to as an account.
func Why(c externals.Cluster, account string, err error) string {
	var handshake target.HandshakeError
	var network *net.OpError
	var unknown *net.DNSError
	text := err.Error()
	switch {
	case errors.Is(err, errStranger):
		return clean(text, 300)
	case errors.As(err, &handshake) && strings.Contains(text, "unable to authenticate"):
		return fmt.Sprintf("%s does not let account %s in: does its sshd trust what `muster clusters ca` prints, and is there "+
			"such an account?", c.Login, account)
	case errors.As(err, &handshake) && strings.Contains(text, "no common algorithm for host key") && c.HostCA != "":
		return c.Login + " shows no host certificate: register its host key instead"
	case errors.As(err, &handshake) && strings.Contains(text, "no common algorithm for host key"):
		return c.Login + " shows no host key of the kind registered"
	case errors.As(err, &handshake) && errors.Is(err, io.EOF):
		return c.Login + " hangs up: is it an sshd?"
	case errors.As(err, &unknown):
		return fmt.Sprintf("no address is known for %s", unknown.Name)
	case errors.As(err, &network):
		return fmt.Sprintf("%s: %s", c.Login, clean(network.Err.Error(), 200))
	}
	return clean(text, 300)
}
