package noded

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"muster/internal/kit/files"
	"muster/internal/protocol"
)

// disk writes files below a root: "/" in a node, a temporary directory in tests.
type disk struct {
	root  string
	chown func(path string, uid, gid int) error // os.Chown, or nothing in tests without root
}

func (d disk) path(name string) string { return filepath.Join(d.root, name) }

// write makes the file be so, in one step: readers see the old or the new content. It says whether content changed.
func (d disk) write(name string, content []byte, mode fs.FileMode, owner *Account) (changed bool, err error) {
	path := d.path(name)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	own := func(part *os.File) error { // before the content: it may be a secret
		if owner == nil {
			return nil
		}
		return d.chown(part.Name(), owner.UID, owner.GID)
	}
	if err := files.Replace(path, content, mode, own); err != nil {
		return false, err
	}
	return true, nil
}

// directory makes the directory and its parents and sets its owner and mode.
func (d disk) directory(name string, mode fs.FileMode, owner *Account) error {
	path := d.path(name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	if owner != nil {
		if err := d.chown(path, owner.UID, owner.GID); err != nil {
			return err
		}
	}
	return os.Chmod(path, mode)
}

func (d disk) exists(name string) bool {
	_, err := os.Stat(d.path(name))
	return err == nil
}

// read returns "" for a file that is not there.
func (d disk) read(name string) (string, error) {
	text, err := os.ReadFile(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

// mpiParameters are the parameters that Open MPI needs on these nodes, by the file that they are read from. Since version 5 ranks
// are started by PRRTE, which has a file of its own; a version takes no notice of what another one knows.
//
// A machine is on the network that it boots from, too, and Open MPI takes all that it finds. Where nodes share CPUs, each
// counts cores from 0, so bound ranks of several nodes would all sit on the first; and a rank that spins while it waits takes the
// CPU from the one it waits for. (Two ranks on two nodes of two CPUs: 4 ms for a message when bound, 6 us when not.)
func mpiParameters(config *protocol.Config, hostFile string) map[string]string {
	var own, starts strings.Builder
	if config.Network != "" {
		fmt.Fprintf(&own, "btl_tcp_if_include = %[1]s\noob_tcp_if_include = %[1]s\n", config.Network)
		fmt.Fprintf(&starts, "prte_if_include = %s\n", config.Network)
	}
	if config.SharedCPUs {
		own.WriteString("mpi_yield_when_idle = 1\nhwloc_base_binding_policy = none\n")
		starts.WriteString("hwloc_default_binding_policy = none\n")
	}
	if hostFile != "" {
		fmt.Fprintf(&own, "orte_default_hostfile = %s\n", hostFile)
		fmt.Fprintf(&starts, "prte_default_hostfile = %s\n", hostFile)
	}
	return map[string]string{mpiFile: own.String(), prrteFile: starts.String()}
}

const mpiBegin = "\n# Written by muster; changes below are overwritten.\n"

// withMPI is a parameter file with what these nodes need, in place of what they needed before. Users' own settings win.
func withMPI(file, parameters string) string {
	file, _, _ = strings.Cut(file, mpiBegin)
	return file + mpiBegin + parameters
}

// hosts renders /etc/hosts: names need no server.
func hosts(peers []protocol.Peer) string {
	var b strings.Builder
	b.WriteString("# Written by muster; changes are overwritten.\n127.0.0.1 localhost\n::1 localhost\n")
	for _, p := range peers {
		fmt.Fprintf(&b, "%s %s\n", p.Address, p.Name)
	}
	return b.String()
}

const (
	hostKeyFile  = "/etc/ssh/ssh_host_ed25519_key"
	hostCertFile = "/etc/ssh/ssh_host_ed25519_key-cert.pub"
	userCAFile   = "/etc/ssh/muster_user_ca.pub"
	sshdFile     = "/etc/ssh/sshd_config.muster"
	knownFile    = "/etc/ssh/ssh_known_hosts"
	clientFile   = "/etc/ssh/ssh_config.d/muster.conf" // which Debian's ssh_config includes
	commandFile  = "/usr/local/bin/muster"
	mpiFile      = "/etc/openmpi/openmpi-mca-params.conf"
	prrteFile    = "/etc/openmpi/prte-mca-params.conf"
	keptKeyFile  = protocol.StateOwn + "/ssh_host_ed25519_key" // of a head, for all its boots
)

// localesFile has the locales of an image that are not in its C library, which is C.UTF-8.
const localesFile = "/usr/lib/locale/locale-archive"

// sshdConfig is a file of its own: what the image brings does not count. Clients say which locale their terminal has. One that
// the node does not have would be worse than none: programs warn, and take letters for bytes.
func sshdConfig(listenOn string, locales bool) string {
	// GPUs have the numbers that schedulers know them by, instead of the fastest coming first. sshd obeys the first such line.
	text := sshdSettings + "SetEnv LANG=C.UTF-8 CUDA_DEVICE_ORDER=PCI_BUS_ID\n"
	if locales {
		text = sshdSettings + "AcceptEnv LANG LC_*\nSetEnv CUDA_DEVICE_ORDER=PCI_BUS_ID\n"
	}
	if listenOn != "" {
		text += "ListenAddress " + listenOn + "\n"
	}
	return text
}

const sshdSettings = `# Written by muster; changes are overwritten.
Port 22
AddressFamily inet
HostKey ` + hostKeyFile + `
HostCertificate ` + hostCertFile + `
TrustedUserCAKeys ` + userCAFile + `
# Keys only.
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
UsePAM no
# Names come from /etc/hosts; nothing to ask.
UseDNS no
# mpirun opens one connection a node at the same moment.
MaxStartups 500:30:2000
MaxSessions 100
AllowAgentForwarding no
X11Forwarding no
PrintMotd no
PidFile none
Subsystem sftp internal-sftp
`

// sshClient has ssh try the cluster's key towards its nodes, before those that it tries anyway and that may have a passphrase.
func sshClient(peers []protocol.Peer) string {
	var names []string
	for _, p := range peers {
		names = append(names, p.Name, p.Address)
	}
	text := "# Written by muster; changes are overwritten.\nHost " + strings.Join(names, " ") + "\n"
	for _, key := range []string{clusterKey, ownKey, ".ssh/id_ecdsa", ".ssh/id_rsa"} {
		text += "\tIdentityFile ~/" + key + "\n"
	}
	return text
}

// knownHosts trusts every host that the cluster's authority has signed, so that no user is asked about a fingerprint.
func knownHosts(hostCA string) string {
	var text strings.Builder
	for key := range strings.Lines(strings.TrimSpace(hostCA)) { // two while the site changes it
		text.WriteString("@cert-authority * " + strings.TrimSpace(key) + "\n")
	}
	return text.String()
}

const (
	keysBegin = "# >>> written by muster: changes between these lines are overwritten"
	keysEnd   = "# <<< written by muster"
)

// withKeys puts the keys into the marked block of an authorized_keys file; the user's own lines around it stay.
func withKeys(text string, keys []string) string {
	before, rest, found := strings.Cut(text, keysBegin+"\n")
	after := ""
	if found {
		if _, after, found = strings.Cut(rest, keysEnd+"\n"); !found {
			after = rest // the end was lost: keep what is there rather than somebody's keys
		}
	}
	if before != "" && !strings.HasSuffix(before, "\n") {
		before += "\n"
	}
	var b strings.Builder
	b.WriteString(before + keysBegin + "\n")
	for _, key := range keys {
		if key = strings.TrimSpace(key); key != "" && !strings.ContainsAny(key, "\r\n") {
			b.WriteString(key + "\n")
		}
	}
	b.WriteString(keysEnd + "\n" + after)
	return b.String()
}
