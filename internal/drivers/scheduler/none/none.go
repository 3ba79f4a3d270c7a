// Package none is the choice of no scheduler: plain nodes, whose users start their programs by MPI or bring a scheduler of
// their own. What MPI would learn from a scheduler it finds in a host file. The head alone writes it, on the shared /home, and
// every node has a link to it: so that all of them read the same, and a node that comes or goes is news for one agent only.
package none

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
)

const (
	hostFile       = "/etc/muster/hostfile"
	sharedHostFile = "/home/.muster/hostfile"
)

// Factory describes the driver.
func Factory() scheduler.Factory {
	return scheduler.Factory{
		Name:  "none",
		Title: "no scheduler",
		Caps:  scheduler.Capabilities{Listed: true},
		Words: scheduler.Words{
			Leaves: "leaves the host file", Renews: "leaves the host file; reboots at once",
			HeadLeaves: "is told of its end", HeadRenews: "reboots; what runs on other nodes runs on",
			HeadStops: "its agent is told", HeadLate: "its agent did not answer within %s",
		},
		HostFile: hostFile,
		Open:     func(h scheduler.Host) scheduler.Driver { return driver{h.Files} },
	}
}

type driver struct{ files scheduler.Files }

func (driver) Prepare(context.Context, *protocol.Config) error { return nil }

// Apply sees to the host file, and to the node's link to it.
func (d driver) Apply(config *protocol.Config) ([]scheduler.Stale, error) {
	if config.Self.Role == protocol.Head {
		if _, err := d.files.Write(sharedHostFile, []byte(hostList(config.Peers)), 0o644, ""); err != nil {
			return nil, fmt.Errorf("write %s: %w", sharedHostFile, err)
		}
	}
	link := d.files.Path(hostFile)
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return nil, err
	}
	if err := os.Symlink(sharedHostFile, link); !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return nil, nil
}

func (driver) Daemons(*protocol.Config) []scheduler.Daemon { return nil }
func (driver) Checks(*protocol.Config) []scheduler.Check   { return nil }
func (driver) Settled(ctx context.Context) error           { return ctx.Err() }

// hostList renders the host file: the compute nodes that may be used now, with as many slots as they have CPUs.
func hostList(peers []protocol.Peer) string {
	var b strings.Builder
	b.WriteString("# Written by muster; changes are overwritten.\n")
	for _, p := range peers {
		if p.Role == protocol.Compute && p.Ready {
			fmt.Fprintf(&b, "%s slots=%d\n", p.Name, max(p.CPUs, 1))
		}
	}
	return b.String()
}
