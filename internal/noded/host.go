package noded

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"strconv"

	"muster/internal/hostd"
	"muster/internal/protocol"
)

// A machine with the duty host has two processes of ours. The first one is the machine's init, as everywhere: it keeps the
// identity, collects every child, and must not die, since the kernel would stop with it. The other one holds the guests, and may
// be killed at any moment: guests run on, and it is started again. See docs/decisions/hypervisors.md.

// trustFile is what the first process leaves for the other one, again with each certificate. It is in memory, and root's alone.
const trustFile = "/run/muster/host.json"

// trust is the identity of this boot.
type trust struct {
	Boot        protocol.BootFile `json:"boot"`
	Key         []byte            `json:"key"`         // PKCS #8
	Certificate string            `json:"certificate"` // PEM
}

// entrust writes the trust file. The boot's token, which is used up, is not in it.
func (n *node) entrust(certificate string) error {
	key, err := x509.MarshalPKCS8PrivateKey(n.identity.key)
	if err != nil {
		return fmt.Errorf("entrust the key: %w", err)
	}
	t := trust{n.boot, key, certificate}
	t.Boot.Token, t.Boot.Authority = "", n.lives.Load().authority
	text, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("entrust the key: %w", err)
	}
	if _, err := n.system.disk.write(trustFile, text, 0o600, nil); err != nil {
		return fmt.Errorf("entrust the key: %w", err)
	}
	return nil
}

// holdGuests keeps the process that holds guests running, until ctx ends.
func (n *node) holdGuests(ctx context.Context) error {
	n.supervisor.start(context.WithoutCancel(ctx), service{
		name: "guests", command: Command{Argv: []string{n.deps.program, "agent", "host"}},
		ended: func(err error) {
			if code := exited(0); errors.As(err, &code) && code == StatusRefused {
				n.refuse(ErrRefused)
			}
		},
	})
	<-ctx.Done()
	return context.Cause(ctx)
}

// HostOptions of Host. The zero value is right on a machine, but for Console.
type HostOptions struct {
	TrustFile string        // trustFile
	Machine   hostd.Machine // its Console is that of these options
	Console   io.Writer
}

// hostDir is for all that belongs to guests. It is in memory, as the machine's root is; what sleeps goes to a disk.
const hostDir = "/var/lib/muster/host"

// Host is the life of the process that holds guests: until ctx ends, or until the controller refuses this boot: ErrRefused.
func Host(ctx context.Context, o HostOptions) error {
	if o.TrustFile == "" {
		o.TrustFile = trustFile
	}
	t, i, err := takeTrust(o.TrustFile)
	if err != nil {
		return err
	}
	m := o.Machine
	m.Console = o.Console
	if m.Dir == "" {
		m.Dir, m.InRAM, m.Binary = hostDir, true, protocol.AgentPath
		line, err := os.ReadFile("/proc/cmdline")
		if err != nil {
			return err
		}
		m.Server = argument(string(line), "muster.server")
		if err := shareKVM("/dev/kvm"); err != nil {
			fmt.Fprintln(o.Console, err)
		}
	}
	config, err := i.client(t.Boot.Authority)
	if err != nil {
		return err
	}
	c := newClient(t.Boot.Endpoints, config)
	defer c.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	options := m.Options(ctx)
	fresh := &freshClient{client: c, identity: i, file: o.TrustFile, authority: t.Boot.Authority, again: stop}
	options.Controller, options.Refused, options.Boot = fresh, ErrRefused, t.Boot.Boot
	options.Keys = hostd.Keys{Certificate: i.shown, Roots: config.RootCAs}
	return hostd.Run(ctx, options)
}

// shareKVM gives the device to the group that QEMU's user is in. Elsewhere udev does; here it would stay root's, and guests would
// be emulated.
func shareKVM(device string) error {
	group, err := user.LookupGroup("kvm")
	if err != nil {
		return fmt.Errorf("share %s: %w", device, err)
	}
	id, err := strconv.Atoi(group.Gid)
	if err == nil {
		err = errors.Join(os.Chown(device, 0, id), os.Chmod(device, 0o660))
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) { // a machine without
		return nil
	}
	return fmt.Errorf("share %s: %w", device, err)
}

func takeTrust(file string) (t trust, i *identity, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	if err != nil {
		return t, nil, fmt.Errorf("identity of this machine: %w", err)
	}
	key, err := x509.ParsePKCS8PrivateKey(t.Key)
	if err != nil {
		return t, nil, fmt.Errorf("identity of this machine: %w", err)
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return t, nil, fmt.Errorf("identity of this machine: a key of type %T", key)
	}
	i = &identity{key: private}
	return t, i, i.accept(t.Certificate)
}

// freshClient shows the newest certificate: before each report it looks whether there is one. When the site's authority has
// changed, it ends this process: the next one trusts the new one in all that it does.
type freshClient struct {
	*client
	identity  *identity
	file      string
	authority string
	again     context.CancelFunc
}

// Hosted delivers a hypervisor's report.
func (c *freshClient) Hosted(ctx context.Context, r protocol.HostReport) (protocol.ReportReply, error) {
	if t, i, err := takeTrust(c.file); err == nil && !sameCertificate(t.Certificate, c.identity.certificate.Load()) {
		c.identity.certificate.Store(i.certificate.Load())
		c.renew()
		if t.Boot.Authority != c.authority {
			c.again()
		}
	}
	return c.client.Hosted(ctx, r)
}

func sameCertificate(text string, c *tls.Certificate) bool {
	block, _ := pem.Decode([]byte(text))
	return block != nil && string(block.Bytes) == string(c.Certificate[0])
}
