package noded

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/kit/lists"
	"muster/internal/kit/wrap"
	"muster/internal/noded/accelerators"
	"muster/internal/protocol"
)

// nfsCheck is of heads that serve /home.
const nfsCheck = "nfs"

const (
	sshPort    = 22
	probeFirst = 20 * time.Millisecond // pause after a failed probe; doubles
	probeMost  = time.Second
	probeLimit = 3 * time.Second // a probe that takes longer has failed
)

// check is one health check. Its probe is cheap: all nodes of a machine run theirs on the same cores.
type check struct {
	name    string
	service string        // whose start or end makes it due at once
	every   time.Duration // after a pass
	calm    bool          // a failure is looked at again after every, too
	within  time.Duration // that a probe may take; 0: probeLimit
	probe   func(context.Context) error
	first   func(context.Context) error // instead of probe after a start of the service, without a process; nil: probe
	due     chan struct{}
}

// run probes until ctx ends: often until the first pass, then now and then.
func (c check) run(ctx context.Context, r *reporter) {
	first := c.probe
	if c.first != nil {
		first = c.first
	}
	pause, probe := probeFirst, first
	for {
		within := cmp.Or(c.within, probeLimit)
		limited, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no result after %v", within))
		err := probe(limited)
		cancel()
		if ctx.Err() != nil {
			return
		}
		r.setCheck(c.name, err)
		wait := c.every
		switch {
		case c.calm:
		case err != nil:
			wait, pause = pause, min(2*pause, probeMost)
		default:
			pause, probe = probeFirst, c.probe
		}
		select {
		case <-time.After(wait):
		case <-c.due:
			pause, probe = probeFirst, first
		case <-ctx.Done():
			return
		}
	}
}

// probes are the health checks of a node. Those without a probe are set by the head's look at its scheduler.
func (n *node) probes(config *protocol.Config) []check {
	self := config.Self
	shell := check{name: "sshd", service: sshd, every: 30 * time.Second, probe: n.probeSSH(n.sshAddress(self))}
	if config.SharedCPUs { // many nodes may start at once on the same cores: what their daemons answer is tried later
		shell.first = n.listens(sshd, sshPort)
	}
	checks := []check{
		shell,
		{name: "home", every: 10 * time.Second, probe: inTime(func() error { return n.deps.home(self.Role == protocol.Head) })},
	}
	for _, c := range n.driver.Checks(config) {
		checks = append(checks, check{name: c.Name, service: c.Daemon, every: c.Every, first: c.First, probe: c.Probe})
	}
	if len(self.GPUs) > 0 {
		checks = append(checks, check{name: gpusCheck, every: gpusEvery, within: gpusLimit, probe: n.probeGPUs(self)})
	}
	if len(config.Partitions) > 0 && n.boot.OwnKernel() {
		checks = append(checks, check{name: partitionsCheck, every: partitionsEvery, probe: inTime(func() error {
			return accelerators.Partitions(accelerators.Ports(n.tree()), config.Partitions)
		})})
	}
	network := check{name: "network", every: networkEvery}
	switch {
	case self.Role == protocol.Compute:
		network.probe = n.reaches("the head", scheduler.Head(config).Address)
		checks = append(checks, network)
	case !n.boot.OwnKernel(): // a head on a machine of its own reaches the controller by the same NIC
		network.probe = n.reaches("the cluster's gateway", config.Gateway.Address)
		checks = append(checks, network)
	}
	return checks
}

// names are those of checks, in the order of the report.
func names(checks []check) []string {
	return lists.Map(checks, func(c check) string { return c.name })
}

// partitionsEvery is a compromise: the controller reads ports too, and this finds what it cannot reach.
const (
	partitionsCheck = "partitions"
	partitionsEvery = 15 * time.Second
)

// networkEvery is short, as a node whose link is cut may go on to report by another way.
const networkEvery = 2 * time.Second

// silentPort is one that no program listens on: that it refuses says that the host is reached, and no program's log is filled.
const silentPort = "9"

// reaches sees whether packets come and go on the cluster's network.
func (n *node) reaches(who, address string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err := n.deps.dial(ctx, "tcp", net.JoinHostPort(address, silentPort))
		if err == nil || errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		return fmt.Errorf("%s does not answer: %w", who, err)
	}
}

// listens sees whether a daemon listens on its port, which it does once it has read its settings and keys. Nothing connects:
// sshd starts a process for each connection.
func (n *node) listens(daemon string, port int) func(context.Context) error {
	return func(context.Context) error {
		if !n.supervisor.running(daemon) {
			return errors.New(daemon + " does not run")
		}
		if !n.deps.listening(port) {
			return fmt.Errorf("%s does not listen on port %d", daemon, port)
		}
		return nil
	}
}

func (n *node) probeSSH(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		if !n.supervisor.running(sshd) {
			return errors.New("sshd does not run")
		}
		return n.deps.banner(ctx, net.JoinHostPort(address, strconv.Itoa(sshPort)))
	}
}

// sshAddress is where sshd is asked.
func (n *node) sshAddress(self protocol.Peer) string { return cmp.Or(n.listenOn(self), "127.0.0.1") }

// listenOn is the one address for sshd on a machine, which has another on a network that is not the cluster's; "" means
// all there are.
func (n *node) listenOn(self protocol.Peer) string {
	if n.boot.OwnKernel() {
		return self.Address
	}
	return ""
}

// dial opens a connection and closes it again.
func dial(ctx context.Context, network, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// banner waits for the first words of an SSH server: the process behind the socket lives.
func banner(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // fails on a closed connection only, which the read tells too
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return fmt.Errorf("no greeting from sshd: %w", err)
	}
	if !strings.HasPrefix(line, "SSH-2.0-") {
		return fmt.Errorf("greeted by %.40q instead of sshd", line)
	}
	return nil
}

// homeCheck says why /home is not the shared one. The head proves also that it can be written.
func homeCheck(write bool) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if !mountedAt(string(mounts), "/home") {
		return errors.New("/home is not mounted")
	}
	var system syscall.Statfs_t // which a file server is asked for each time
	if err := syscall.Statfs("/home", &system); err != nil {
		return fmt.Errorf("/home does not answer: %w", err)
	}
	if !write {
		return nil
	}
	const probe = "/home/.muster/writable"
	return wrap.Errorf(os.WriteFile(probe, []byte("ok\n"), 0o600), "/home is not writable")
}

// mountedAt looks for a mount point in proc_pid_mountinfo(5), whose fifth field it is.
func mountedAt(mountinfo, path string) bool {
	for line := range strings.Lines(mountinfo) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == path {
			return true
		}
	}
	return false
}
