package noded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/internal/noded/jail"
	"muster/internal/protocol"
)

// HoldHomeServer is the life of the process that holds a head's NFS server; the agent starts it, see package jail.
func HoldHomeServer() error { return jail.Main() }

// homeServer is the NFS server of /home in its jail: what it is given, and the way to it.
type homeServer struct {
	jailer jailer

	mu    sync.Mutex
	files jail.Files
	input io.WriteCloser // of the jail that there is
}

// jailer makes the jail: the one of this process's start, or a new one; or a fake.
type jailer interface {
	jail(Command) (Process, io.WriteCloser, error)
	// why says why there can be none; nil: there can.
	why() error
}

// start is the service's.
func (h *homeServer) start(c Command) (Process, error) {
	p, input, err := h.jailer.jail(c)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.input != nil {
		_ = h.input.Close() // its reader has ended
	}
	h.input = input
	return p, jail.Send(input, h.files)
}

// give makes these be the server's files; one that is yet to start gets them then.
func (h *homeServer) give(files jail.Files) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	same := maps.Equal(files, h.files)
	h.files = files
	if same || h.input == nil {
		return nil
	}
	if err := jail.Send(h.input, files); err != nil {
		h.files = nil // to be sent again
		return fmt.Errorf("tell the NFS server: %w", err)
	}
	return nil
}

// ownJails makes jails of the kernel's.
type ownJails struct {
	reaper *Reaper

	mu        sync.Mutex
	inherited *jail.Inherited // of a head in a container; there will be no other
	failed    error           // why there is none, or no more
}

func newJails(r *Reaper) *ownJails {
	inherited, err := jail.Inherit()
	if inherited == nil && err == nil {
		err = jail.Possible()
	}
	return &ownJails{reaper: r, inherited: inherited, failed: err}
}

func (j *ownJails) jail(c Command) (Process, io.WriteCloser, error) {
	if err := refuseOrdinaryPorts(); err != nil { // the server refuses to serve them all the same
		c.Output(err.Error())
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if there := j.inherited; there != nil {
		j.inherited, j.failed = nil, errors.New("what held it has ended; there is another one at the head's next start")
		return j.reaper.Adopt(there.PID, there.Output, c.Output), there.Input, nil
	}
	if j.failed != nil {
		return nil, nil, j.failed
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer read.Close()
	c.Input, c.Alone = read, true
	p, err := j.reaper.Start(c)
	if err != nil {
		write.Close()
		return nil, nil, err
	}
	return p, write, nil
}

func (j *ownJails) why() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.inherited != nil {
		return nil
	}
	return j.failed
}

// mounting are the addresses of the nodes that mount /home, in order. Only plain addresses: the server would also read a name or
// a whole network, and no node is meant by those.
func mounting(peers []protocol.Peer) (addresses []string) {
	for _, p := range peers {
		if address, err := netip.ParseAddr(p.Address); err == nil && address.Is4() && p.Mounts {
			addresses = append(addresses, address.String())
		}
	}
	slices.Sort(addresses)
	return addresses
}

// serverFiles are what the NFS server knows: whom it serves, and who the cluster's users are. A call of any other user is
// refused, whatever user the calling node says that it is.
func serverFiles(config *protocol.Config) jail.Files {
	var passwd, group strings.Builder
	for _, u := range config.Users {
		if u.UID < firstUID || !accountName.MatchString(u.Name) {
			continue
		}
		fmt.Fprintf(&passwd, "%s:x:%d:%d::/:/\n", u.Name, u.UID, u.UID)
		fmt.Fprintf(&group, "%s:x:%d:\n", u.Name, u.UID)
	}
	return jail.Files{
		jail.Config:   nfsConfig(config.Self.Address, mounting(config.Peers)),
		"/etc/passwd": passwd.String(), "/etc/group": group.String(),
	}
}

// export makes the head serve /home from now on to the nodes that mount it, and check that it does. Once started it goes on
// until the node ends. It is called for each configuration: who is not in it any more is served no more, on connections
// that he has as well; the others notice nothing.
func (n *node) export(ctx context.Context, config *protocol.Config) error {
	if !n.exports && !config.ExportHome {
		return nil
	}
	if err := n.homeServer.give(serverFiles(config)); err != nil || n.exports {
		return err
	}
	n.exports = true
	address := config.Self.Address
	n.supervisor.start(context.WithoutCancel(ctx), service{
		name:    ganesha,
		command: Command{Argv: []string{"/proc/self/exe", "agent", jail.Argument}},
		start:   n.homeServer.start,
		wait: func(ctx context.Context) error {
			if err := n.deps.jails.why(); err != nil { // and it will stay so
				n.console.printf("%s: %v", ganesha, err)
				<-ctx.Done()
			}
			return ctx.Err()
		},
		noise: []string{"Missing RADOS", "RPC_Debug_Flags", "Cannot register NFS V4", "gssd_refresh", "log level", "Log_Level",
			"A protocol is specified for a CLIENT block", "(allow_set_io_flusher_fail)", // which version 4 does not know
			// what version 6 says of settings that 4 needs
			"PR_SET_IO_FLUSHER due to EPERM, ignoring", "will soon be deprecated", "under DIRECTORY_SERVICES section"},
	})
	n.reporter.expect(nfsCheck)
	n.watch(ctx, check{name: nfsCheck, service: ganesha, every: 30 * time.Second, probe: func(ctx context.Context) error {
		if !n.supervisor.running(ganesha) {
			if err := n.deps.jails.why(); err != nil {
				return err
			}
			return errors.New("nfs-ganesha does not run")
		}
		return n.deps.served(ctx, address)
	}})
	return nil
}
