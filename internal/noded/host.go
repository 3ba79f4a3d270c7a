package noded

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"muster/internal/kit/wrap"
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
	if err == nil {
		_, err = n.system.disk.write(trustFile, text, 0o600, nil)
	}
	return wrap.Errorf(err, "entrust the key")
}

// holdGuests keeps the process that holds guests running, until ctx ends.
func (n *node) holdGuests(ctx context.Context) error {
	n.supervisor.start(context.WithoutCancel(ctx), service{
		name: "guests", command: Command{Argv: []string{n.deps.program, "agent", "host"}},
		ended: func(err error) {
			if code, is := errors.AsType[exited](err); is && code == StatusRefused {
				n.refuse(ErrRefused)
			}
		},
	})
	<-ctx.Done()
	return context.Cause(ctx)
}

// Trusted is the identity that the machine's first process has left for the one that holds guests. It reports as that, and shows
// the newest certificate: before each report it looks whether there is one.
type Trusted struct {
	Boot  int64          // of this machine
	Roots *x509.CertPool // whom to believe

	*client
	identity  *identity
	file      string
	authority string
	again     context.CancelFunc
}

// Trust takes that identity; file is where it lies, "" for the usual place. When the site's authority has changed, again is
// called: this process is to end, and the next one trusts the new one in all that it does. Close what is returned.
func Trust(file string, again context.CancelFunc) (*Trusted, error) {
	file = cmp.Or(file, trustFile)
	t, i, err := takeTrust(file)
	if err != nil {
		return nil, err
	}
	config, err := i.client(t.Boot.Authority)
	if err != nil {
		return nil, err
	}
	return &Trusted{Boot: t.Boot.Boot, Roots: config.RootCAs, client: newClient(t.Boot.Endpoints, config), identity: i,
		file: file, authority: t.Boot.Authority, again: again}, nil
}

// Certificate is the one to show now; nil: it has expired.
func (t *Trusted) Certificate() *tls.Certificate { return t.identity.shown() }

// Hosted delivers a hypervisor's report. ErrRefused: this boot is no longer wanted.
func (t *Trusted) Hosted(ctx context.Context, r protocol.HostReport) (protocol.ReportReply, error) {
	if now, i, err := takeTrust(t.file); err == nil && !sameCertificate(now.Certificate, t.identity.certificate.Load()) {
		t.identity.certificate.Store(i.certificate.Load())
		t.renew()
		if now.Boot.Authority != t.authority {
			t.again()
		}
	}
	return t.client.Hosted(ctx, r)
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

func sameCertificate(text string, c *tls.Certificate) bool {
	block, _ := pem.Decode([]byte(text))
	return block != nil && string(block.Bytes) == string(c.Certificate[0])
}
