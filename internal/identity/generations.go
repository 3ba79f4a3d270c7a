package identity

import (
	"cmp"
	"crypto"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Use is what keys are for. Each use has keys of its own, so that what opens one door opens no other.
type Use string

// The uses.
const (
	BootTokens  Use = "boot tokens"
	Agents      Use = "agents"
	SSHUsers    Use = "ssh users"
	SSHHosts    Use = "ssh hosts"
	SSHLogins   Use = "ssh logins"
	SSHGateways Use = "ssh gateways"
	SSHExternal Use = "ssh centres" // is stored
	WebApps     Use = "web apps"
)

// Uses lists all of them.
func Uses() []Use {
	return []Use{BootTokens, Agents, SSHUsers, SSHHosts, SSHLogins, SSHGateways, SSHExternal, WebApps}
}

// Generation is one of the keys of a use. A new one is first known to everybody, then signs, and then the one before it goes.
type Generation struct {
	Use    Use
	Number int64  // from 1
	Seed   []byte // secret, 32 bytes
	Signs  bool   // the newest of those that sign signs; others are only trusted
}

// NewSeed makes the seed of a new generation.
func NewSeed() []byte {
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed)
	return seed
}

// First derives the first generation of every use from the root secret of a site.
func First(root string) ([]Generation, error) {
	secret, err := base64.StdEncoding.DecodeString(root)
	if err != nil || len(secret) != 32 {
		return nil, errors.New("the site's root secret in the database is damaged")
	}
	var all []Generation
	for _, use := range Uses() {
		seed, err := hkdf.Key(sha256.New, secret, nil, "muster "+string(use), ed25519.SeedSize)
		if err != nil {
			return nil, fmt.Errorf("derive the key for %s: %w", use, err)
		}
		all = append(all, Generation{use, 1, seed, true})
	}
	return all, nil
}

// key is a generation, ready to use.
type key struct {
	Generation
	private ed25519.PrivateKey
	signer  ssh.Signer
	agents  *authorityOfAgents // of the use agents alone
}

// keys are all generations of all uses, the oldest first.
type keys map[Use][]*key

func newKeys(all []Generation) (keys, error) {
	made := keys{}
	for _, g := range all {
		if len(g.Seed) != ed25519.SeedSize {
			return nil, fmt.Errorf("generation %d of the site's key for %s is damaged", g.Number, g.Use)
		}
		k := &key{Generation: g, private: ed25519.NewKeyFromSeed(g.Seed)}
		var err error
		if k.signer, err = ssh.NewSignerFromKey(k.private); err != nil {
			return nil, err
		}
		if g.Use == Agents {
			if k.agents, err = newAuthorityOfAgents(k.private, g.Number); err != nil {
				return nil, err
			}
		}
		made[g.Use] = append(made[g.Use], k)
	}
	for _, use := range Uses() {
		slices.SortFunc(made[use], func(a, b *key) int { return cmp.Compare(a.Number, b.Number) })
		if made.signing(use) == nil {
			return nil, fmt.Errorf("the site has no key for %s", use)
		}
	}
	return made, nil
}

// signing is the key that signs.
func (k keys) signing(use Use) *key {
	for _, one := range slices.Backward(k[use]) {
		if one.Signs {
			return one
		}
	}
	return nil
}

// line is the public half of a key, authorized_keys format.
func (k *key) line() string { return line(k.signer.PublicKey()) }

// lines are those of all generations of a use: the one that signs first, since some read one only.
func (k keys) lines(use Use) string {
	signing := k.signing(use)
	all := []string{signing.line()}
	for _, one := range k[use] {
		if one != signing {
			all = append(all, one.line())
		}
	}
	return strings.Join(all, "\n")
}

// among says whether a key is one of a use's.
func (k keys) among(use Use, public ssh.PublicKey) bool {
	marshalled := public.Marshal()
	return slices.ContainsFunc(k[use], func(one *key) bool { return slices.Equal(one.signer.PublicKey().Marshal(), marshalled) })
}

// Set replaces all generations: all holders of the Authority use them from now on.
func (a *Authority) Set(all []Generation) error {
	made, err := newKeys(all)
	if err != nil {
		return err
	}
	if old := a.keys.Load(); old != nil { // what is made with time and chance stays
		for _, was := range (*old)[Agents] {
			for _, k := range made[Agents] {
				if slices.Equal(k.Seed, was.Seed) {
					k.agents = was.agents
				}
			}
		}
	}
	a.keys.Store(&made)
	return nil
}

func (a *Authority) now() keys { return *a.keys.Load() }

// Signing is the number of the generation that signs.
func (a *Authority) Signing(use Use) int64 { return a.now().signing(use).Number }

// Several says whether a use has more than one generation: it is being rotated.
func (a *Authority) Several(use Use) bool { return len(a.now()[use]) > 1 }

// Stamp changes whenever agents are to join again, since what they live by has changed.
func (a *Authority) Stamp() string {
	now, stamp := a.now(), strings.Builder{}
	for _, use := range []Use{Agents, BootTokens, SSHHosts} {
		for _, k := range now[use] {
			if k.Signs {
				fmt.Fprintf(&stamp, "%s.%d ", strings.ReplaceAll(string(use), " ", "-"), k.Number)
			}
		}
	}
	return strings.TrimSpace(stamp.String())
}

// authorityOfAgents is one generation's certificate authority.
type authorityOfAgents struct {
	private ed25519.PrivateKey
	ca      *x509.Certificate
	pem     []byte

	mu     sync.Mutex
	server *tls.Certificate // of this process
	until  time.Time        // it is used
}

// newAuthorityOfAgents makes the authority's own certificate: the same bytes every time, so that no replica has to keep it
// (Ed25519 signatures are deterministic, RFC 8032).
func newAuthorityOfAgents(private ed25519.PrivateKey, number int64) (*authorityOfAgents, error) {
	ca, text, err := newCA("agents", number, private)
	return &authorityOfAgents{private: private, ca: ca, pem: text}, err
}

// newCA makes an authority's own certificate, for all names or for those of some domains. A signer that is deterministic makes
// the same one every time.
func newCA(of string, number int64, signer crypto.Signer, domains ...string) (ca *x509.Certificate, text []byte, err error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(number), Subject: pkix.Name{CommonName: "Muster " + of},
		NotBefore: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2056, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: len(domains) > 0, PermittedDNSDomains: domains,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		return nil, nil, fmt.Errorf("make the authority of %s: %w", of, err)
	}
	ca, err = x509.ParseCertificate(der)
	return ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

// sign makes a certificate for a key, with a serial number that no other has.
func sign(ca *x509.Certificate, signer crypto.Signer, template *x509.Certificate, key crypto.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key, signer)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return der, nil
}

// serverName is what an agent asks for that believes several authorities: it names the newest. One that believes one asks for
// ServerName.
func serverName(ca []byte) string {
	sum := sha256.Sum256(ca)
	return hex.EncodeToString(sum[:8]) + "." + ServerName
}
