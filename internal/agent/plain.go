package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"muster/internal/agent/protocol"
)

// A plain cluster has no scheduler of Muster's: no munge and no Slurm, which its image need not even hold. What MPI would
// learn from Slurm it finds in a host file. The head alone writes it, on the shared /home, and every node has a link to it:
// so that all of them read the same, and that a node that comes or goes is news for one agent only.
const (
	hostFile       = "/etc/muster/hostfile"
	sharedHostFile = "/home/.muster/hostfile"
)

// defaultHosts makes Open MPI start ranks on all nodes of the host file where nobody says otherwise.
const defaultHosts = "orte_default_hostfile = " + hostFile + "\n"

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

// hostFile sees to the host file, and to the node's link to it. A scheduler's cluster has none: MPI would pass the queue by.
func (s system) hostFile(config *protocol.Config) error {
	if !config.Plain {
		return nil
	}
	if config.Self.Role == protocol.Head {
		if _, err := s.disk.write(sharedHostFile, []byte(hostList(config.Peers)), 0o644, nil); err != nil {
			return fmt.Errorf("write %s: %w", sharedHostFile, err)
		}
	}
	link := s.disk.path(hostFile)
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(sharedHostFile, link); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
