package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"muster/internal/agent/protocol"
	"muster/internal/drivers/scheduler/slurm"
	"muster/internal/hardware"
)

// The daemons of a node.
const (
	munged    = "munged"
	sshd      = "sshd"
	slurmctld = "slurmctld"
	slurmd    = "slurmd"
	ganesha   = "ganesha"
)

// knock is how often a daemon that has to wait looks whether it may start.
const knock = 20 * time.Millisecond

// services are the daemons of a role in order of start. They start side by side; only who needs another waits for it.
func (n *node) services(config *protocol.Config, accounts daemonAccounts) []service {
	secureShell := service{name: sshd, command: Command{Argv: []string{"/usr/sbin/sshd", "-D", "-e", "-f", sshdFile}},
		noise: []string{"Connection closed by " + n.sshAddress(config.Self), "kex_exchange_identification: Connection closed"}} // our probe
	if n.plain {
		return []service{secureShell}
	}
	list := []service{
		{name: munged, command: Command{Argv: []string{"/usr/sbin/munged", "--foreground"}, Account: accounts.munge},
			noise: []string{"munged: Info:"}}, // a line for each refused decoding, of which Slurm tries many
		secureShell,
	}
	if config.Self.Role == protocol.Head {
		// -i: damage to the saved state costs that state, not the cluster.
		return append(list, service{
			name:    slurmctld,
			command: Command{Argv: []string{"/usr/sbin/slurmctld", "-D", "-i"}, Account: accounts.slurm},
			wait:    n.until("unix", mungeSocket),
			grace:   slurmctldGrace,
			noise:   []string{"Zero Bytes were transmitted"}, // nodes that knock before they start slurmd
		})
	}
	self := config.Self
	if n.boot.OwnKernel() {
		self.CPUs = 0 // slurmd finds all that there is by itself: sockets, cores and their threads
	}
	var gpus []slurm.GPU
	if found := n.gpus(config.Self); len(found) > 0 {
		gpus = slurmGPUs(found, hardware.Read(n.tree()).Layout)
	}
	head := net.JoinHostPort(headOf(config).Address, strconv.Itoa(slurm.Port))
	return append(list, service{
		name:    slurmd,
		command: Command{Argv: []string{"/usr/sbin/slurmd", "-D", "-Z", "--conf", slurm.NodeConf(self, gpus), "--conf-server", head}},
		wait:    n.beforeSlurmd(config, head, gpus),
	})
}

// beforeSlurmd waits for munged, for the node's acceptance, and for slurmctld, as slurmd that finds none tries again after
// 5 s only. At the first start of a boot it then declares this node's earlier boot dead: a node that comes back within
// seconds looks to Slurm as if it had never been away, and jobs that died with it would run for ever. Registering makes it
// alive again. Later starts leave the jobs alone, which outlive slurmd.
func (n *node) beforeSlurmd(config *protocol.Config, head string, gpus []slurm.GPU) func(context.Context) error {
	authentic, reachable := n.until("unix", mungeSocket), n.until("tcp", head)
	buried := false
	return func(ctx context.Context) error {
		select { // without it, jobs would find their users' files gone
		case <-n.homeThere:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if _, err := n.world.disk.write(slurm.NodeGresFile, []byte(slurm.NodeGres(gpus)), 0o644, nil); err != nil {
			return err
		}
		if err := authentic(ctx); err != nil {
			return err
		}
		if err := reachable(ctx); err != nil {
			return err
		}
		if err := n.tester.cleared(ctx); err != nil { // no job may start while the node is tested
			return err
		}
		if err := n.local.withhold(); err != nil {
			return err
		}
		n.tasks.Go(func() {
			for !n.world.listening(slurm.NodePort) {
				if sleep(ctx, knock) != nil {
					return
				}
			}
			if err := n.local.give(); err != nil {
				n.console.printf("%v", err)
			}
		})
		if buried {
			return nil
		}
		control := slurm.Control{Runner: withConfig{n.world.processes, n.world.disk.path(clientFile)}}
		err := control.Down(ctx, config.Self.Name, ourReasons+" has a new boot")
		switch {
		case err == nil:
			n.console.printf("Slurm knew an earlier boot of this node; its jobs have ended")
		case !errors.Is(err, slurm.ErrUnknown):
			n.console.printf("%v", err) // no reason not to work
		}
		buried = true
		return ctx.Err()
	}
}

// withConfig runs Slurm's programs with a configuration of their own, before slurmd has fetched the cluster's.
type withConfig struct {
	processes processes
	file      string
}

func (w withConfig) Run(ctx context.Context, argv ...string) ([]byte, error) {
	return w.processes.Run(ctx, append([]string{"env", "SLURM_CONF=" + w.file}, argv...)...)
}

// until waits until a connection is accepted there.
func (n *node) until(network, address string) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			limited, cancel := context.WithTimeout(ctx, time.Second)
			err := n.world.dial(limited, network, address)
			cancel()
			if err == nil {
				return nil
			}
			if err := sleep(ctx, knock); err != nil {
				return err
			}
		}
	}
}

// headOf is the cluster's head; by the protocol there is one, and it comes first.
func headOf(config *protocol.Config) protocol.Peer {
	for _, p := range config.Peers {
		if p.Role == protocol.Head {
			return p
		}
	}
	return protocol.Peer{}
}

// validate refuses a configuration that no node could follow.
func validate(config *protocol.Config) error {
	switch {
	case headOf(config).Address == "":
		return fmt.Errorf("configuration %d has no head", config.Revision)
	case config.Self.Role != protocol.Head && config.Self.Role != protocol.Compute:
		return fmt.Errorf("configuration %d: no such role: %q", config.Revision, config.Self.Role)
	}
	return nil
}
