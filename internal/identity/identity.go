// Package identity makes and checks credentials of nodes and users: the one-time token of a boot, the agents' client
// certificates, SSH user and host certificates.
//
// What enters: the site's root secret from the database. What leaves: short-lived certificates and yes or no. All
// authorities are derived from the one root, so that every replica has the same ones.
package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// ServerName is the name that agents expect in the controllers' certificates.
const ServerName = "muster-controller"

// CertificateLife is how long an agent's certificate and its host certificate are good.
const CertificateLife = 24 * time.Hour

// NewRoot makes the root secret of a site: 32 random bytes, base64.
func NewRoot() string {
	var root [32]byte
	_, _ = rand.Read(root[:])
	return base64.StdEncoding.EncodeToString(root[:])
}

// Authority is what a site's certificates come from. Its keys may change at any time; see Set.
type Authority struct{ keys atomic.Pointer[keys] }

// Open derives a site's first authorities from its root secret.
func Open(root string) (*Authority, error) {
	first, err := First(root)
	if err != nil {
		return nil, err
	}
	a := &Authority{}
	return a, a.Set(first)
}

// AgentsPEM is the CA certificates that agents trust: of all generations that sign, the newest last.
func (a *Authority) AgentsPEM() string {
	var all strings.Builder
	for _, k := range a.now()[Agents] {
		if k.Signs {
			all.Write(k.agents.pem)
		}
	}
	return all.String()
}

// Token is the one-time token of one boot of a node. It is computed, never stored; that it was used is.
func (a *Authority) Token(node string, boot int64) string {
	return a.now().signing(BootTokens).token(node, boot)
}

func (k *key) token(node string, boot int64) string {
	mac := hmac.New(sha256.New, k.Seed)
	fmt.Fprintf(mac, "%s\x00%d", node, boot)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Tokens are all tokens that are good for a boot: one of each generation.
func (a *Authority) Tokens(node string, boot int64) (all []string) {
	for _, k := range a.now()[BootTokens] {
		all = append(all, k.token(node, boot))
	}
	return all
}

// CheckToken says whether token is one of the boot's, in constant time.
func (a *Authority) CheckToken(node string, boot int64, token string) bool {
	good := 0
	for _, right := range a.Tokens(node, boot) {
		good |= subtle.ConstantTimeCompare([]byte(right), []byte(token))
	}
	return good == 1
}

// ServerTLS is how a controller meets agents: TLS 1.3, with client certificates verified where they are given. Only the
// join may come without one. Which authority's certificate an agent is shown goes by the name that it asks for: the newest
// that it believes. An agent that asks for ServerName is shown the oldest.
func (a *Authority) ServerTLS(now time.Time) (*tls.Config, error) {
	if _, err := a.now()[Agents][0].agents.serve(now); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		all, pool := a.now()[Agents], x509.NewCertPool()
		shown := all[0]
		for _, k := range all {
			pool.AddCert(k.agents.ca)
			if hello.ServerName == serverName(k.agents.ca.Raw) {
				shown = k
			}
		}
		certificate, err := shown.agents.serve(time.Now())
		if err != nil {
			return nil, err
		}
		return &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*certificate}, ClientAuth: tls.VerifyClientCertIfGiven,
			ClientCAs:              pool,
			SessionTicketsDisabled: true, // each connection shows what it is by
		}, nil
	}}, nil
}

// serve is this process's certificate of a generation.
func (g *authorityOfAgents) serve(now time.Time) (*tls.Certificate, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.server != nil && now.Before(g.until) {
		return g.server, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := g.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: ServerName}, DNSNames: []string{ServerName, serverName(g.ca.Raw)},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, key.Public())
	if err != nil {
		return nil, err
	}
	g.server, g.until = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, now.AddDate(0, 6, 0)
	return g.server, nil
}

func (g *authorityOfAgents) sign(template *x509.Certificate, key crypto.PublicKey) ([]byte, error) {
	return sign(g.ca, g.private, template, key)
}

// Shown is the generation of the authority by which a controller proved itself on a connection.
func (a *Authority) Shown(c *tls.ConnectionState) int64 {
	all := a.now()[Agents]
	for _, k := range all {
		if c != nil && c.ServerName == serverName(k.agents.ca.Raw) {
			return k.Number
		}
	}
	return all[0].Number
}

// LivesBy is the oldest generation that a connection of an agent needs: of the certificate that it showed, and of the one that
// it was shown. It is 0 if one of the two is none of the site's any more; such a caller is to be refused.
func (a *Authority) LivesBy(c *tls.ConnectionState) (number int64) {
	if c == nil || len(c.VerifiedChains) == 0 {
		return 0
	}
	chain := c.VerifiedChains[0]
	for _, k := range a.now()[Agents] {
		if k.agents.ca.Equal(chain[len(chain)-1]) {
			number = k.Number
		}
	}
	return min(number, a.Shown(c))
}

// Agent is who an agent's certificate says it is.
type Agent struct {
	Node string
	Boot int64
	Key  string // fingerprint of the certificate's key, as CertifyAgent returns it; "" before there is one
}

// CertifyAgent signs the key of a certificate request for one boot of a node; the request's own subject is ignored. It
// also returns the key's fingerprint.
func (a *Authority) CertifyAgent(csrPEM string, who Agent, now time.Time) (certificate, fingerprint string, err error) {
	block, _ := pem.Decode([]byte(csrPEM))
	if block == nil {
		return "", "", errors.New("the certificate request is not PEM")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = csr.CheckSignature()
	}
	if err != nil {
		return "", "", fmt.Errorf("read the certificate request: %w", err)
	}
	der, err := a.now().signing(Agents).agents.sign(&x509.Certificate{
		Subject:   pkix.Name{CommonName: who.Node, SerialNumber: strconv.FormatInt(who.Boot, 10)},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(CertificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, csr.PublicKey)
	if err != nil {
		return "", "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), fingerprintOf(csr.RawSubjectPublicKeyInfo),
		nil
}

// fingerprintOf is the SHA-256 of a public key, as people write it.
func fingerprintOf(key []byte) string {
	sum := sha256.Sum256(key)
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

// AgentOf reads a verified client certificate.
func AgentOf(c *x509.Certificate) (Agent, error) {
	boot, err := strconv.ParseInt(c.Subject.SerialNumber, 10, 64)
	if err != nil || c.Subject.CommonName == "" {
		return Agent{}, errors.New("the certificate names no node")
	}
	return Agent{c.Subject.CommonName, boot, fingerprintOf(c.RawSubjectPublicKeyInfo)}, nil
}

// UserCA is the public keys that nodes trust to sign users, authorized_keys format without a newline at the end. While it is
// rotated there are two, a line each; so it is with the others.
func (a *Authority) UserCA() string { return a.now().lines(SSHUsers) }

// HostCA is the public keys that users trust to sign hosts.
func (a *Authority) HostCA() string { return a.now().lines(SSHHosts) }

// IsHostCA says whether a key is one of HostCA's.
func (a *Authority) IsHostCA(key ssh.PublicKey) bool { return a.now().among(SSHHosts, key) }

func line(key ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) }

// GatewayCA is the public key that people trust to sign gateways. It is not that of nodes: people name their clusters and
// queues, and so their nodes, as they like.
func (a *Authority) GatewayCA() string { return a.now().lines(SSHGateways) }

// NewHostKey makes a gateway's host key: the public key in authorized_keys format, the private one in PEM.
func NewHostKey() (public, private string, err error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return "", "", err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return "", "", err
	}
	return line(signer.PublicKey()), string(pem.EncodeToMemory(block)), nil
}

// CertifyGateway signs a gateway's SSH host key for its names.
func (a *Authority) CertifyGateway(publicKey string, names []string, now time.Time) (string, error) {
	return certifySSH(a.now().signing(SSHGateways).signer, publicKey, ssh.HostCert, "gateway "+strings.Join(names, " "), names,
		nil, now, CertificateLife)
}

// CertifyHost signs a node's SSH host key for its names.
func (a *Authority) CertifyHost(publicKey string, names []string, now time.Time) (string, error) {
	return certifySSH(a.now().signing(SSHHosts).signer, publicKey, ssh.HostCert, "host "+strings.Join(names, " "), names, nil,
		now, CertificateLife)
}

// CertifyUser signs a user's SSH key for one account, for life. Agent forwarding and X11 are not in it.
func (a *Authority) CertifyUser(publicKey, identity, account string, now time.Time, life time.Duration) (string, error) {
	return certifySSH(a.now().signing(SSHUsers).signer, publicKey, ssh.UserCert, identity, []string{account}, userRights(), now,
		life)
}

func userRights() map[string]string {
	return map[string]string{"permit-pty": "", "permit-port-forwarding": "", "permit-user-rc": ""}
}

// LoginCA is the public key that gateways, and only they, trust to sign people who have logged in. Nodes must not: a
// node cannot see that a login has ended.
func (a *Authority) LoginCA() string { return a.now().lines(SSHLogins) }

// IsLoginCA says whether a key is one of LoginCA's.
func (a *Authority) IsLoginCA(key ssh.PublicKey) bool { return a.now().among(SSHLogins, key) }

// CertifyLogin signs a person's SSH key for as long as their login lasts. The principal is the person, the key ID is the
// ID of the login's token and nothing else: the certificate is good while that token is, whatever its own end.
func (a *Authority) CertifyLogin(publicKey, person, tokenID string, now time.Time, life time.Duration) (string, error) {
	return certifySSH(a.now().signing(SSHLogins).signer, publicKey, ssh.UserCert, tokenID, []string{person}, userRights(), now,
		life)
}

func certifySSH(ca ssh.Signer, publicKey string, kind uint32, id string, principals []string, extensions map[string]string,
	now time.Time, life time.Duration) (string, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(publicKey))
	if err != nil {
		return "", fmt.Errorf("read the public key: %w", err)
	}
	if _, isCertificate := key.(*ssh.Certificate); isCertificate {
		return "", errors.New("a certificate was given where a public key belongs")
	}
	c := &ssh.Certificate{
		Key: key, CertType: kind, KeyId: id, ValidPrincipals: principals,
		ValidAfter: uint64(now.Add(-time.Minute).Unix()), ValidBefore: uint64(now.Add(life).Unix()),
		Permissions: ssh.Permissions{Extensions: extensions},
	}
	if err := c.SignCert(rand.Reader, ca); err != nil {
		return "", fmt.Errorf("sign the SSH certificate: %w", err)
	}
	return line(c), nil
}
