// Package identity makes and checks what nodes and users prove themselves with: the one-time token of a boot, the
// agents' client certificates, SSH user and host certificates.
//
// What enters: the site's root secret, kept in the store. What leaves: short-lived certificates and yes or no. All
// authorities are derived from the one root, so that every replica has the same ones.
package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hkdf"
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
	"math/big"
	"strconv"
	"strings"
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

// Authority is what a site's certificates come from.
type Authority struct {
	tokenKey  []byte
	agents    ed25519.PrivateKey
	agentsPEM []byte
	agentsCA  *x509.Certificate
	userCA    ssh.Signer
	hostCA    ssh.Signer
	loginCA   ssh.Signer
	centreCA  ssh.Signer
	web       []byte // seed; see Web
	gatewayCA ssh.Signer
}

// Open derives a site's authorities from its root secret.
func Open(root string) (*Authority, error) {
	secret, err := base64.StdEncoding.DecodeString(root)
	if err != nil || len(secret) != 32 {
		return nil, errors.New("the site's root secret in the database is damaged")
	}
	derive := func(use string) ([]byte, error) {
		return hkdf.Key(sha256.New, secret, nil, "muster "+use, ed25519.SeedSize)
	}
	a := &Authority{}
	seeds := map[string][]byte{}
	for _, use := range []string{"boot tokens", "agents", "ssh users", "ssh hosts", "ssh logins", "ssh gateways", "ssh centres", "web apps"} {
		if seeds[use], err = derive(use); err != nil {
			return nil, fmt.Errorf("derive the key for %s: %w", use, err)
		}
	}
	a.tokenKey, a.web = seeds["boot tokens"], seeds["web apps"]
	a.agents = ed25519.NewKeyFromSeed(seeds["agents"])
	if a.userCA, err = ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seeds["ssh users"])); err != nil {
		return nil, err
	}
	if a.hostCA, err = ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seeds["ssh hosts"])); err != nil {
		return nil, err
	}
	if a.loginCA, err = ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seeds["ssh logins"])); err != nil {
		return nil, err
	}
	if a.gatewayCA, err = ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seeds["ssh gateways"])); err != nil {
		return nil, err
	}
	if a.centreCA, err = ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seeds["ssh centres"])); err != nil {
		return nil, err
	}
	return a, a.signItself()
}

// signItself makes the agents' authority's own certificate: the same bytes every time, so that no replica has to keep
// it (Ed25519 signatures are deterministic, RFC 8032).
func (a *Authority) signItself() error {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Muster agents"},
		NotBefore: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2056, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.agents.Public(), a.agents)
	if err != nil {
		return fmt.Errorf("make the agents' authority: %w", err)
	}
	a.agentsPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.agentsCA, err = x509.ParseCertificate(der)
	return err
}

// AgentsPEM is the certificate that agents trust.
func (a *Authority) AgentsPEM() string { return string(a.agentsPEM) }

// Token is the one-time token of one boot of a node. It is computed, never stored; that it was used is.
func (a *Authority) Token(node string, boot int64) string {
	mac := hmac.New(sha256.New, a.tokenKey)
	fmt.Fprintf(mac, "%s\x00%d", node, boot)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// CheckToken says whether token is that of the boot, in constant time.
func (a *Authority) CheckToken(node string, boot int64, token string) bool {
	return subtle.ConstantTimeCompare([]byte(a.Token(node, boot)), []byte(token)) == 1
}

// ServerTLS is how a controller meets agents: TLS 1.3, with client certificates verified where they are given. Only the
// join may come without one.
func (a *Authority) ServerTLS(now time.Time) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: ServerName}, DNSNames: []string{ServerName},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := a.sign(template, key.Public())
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.agentsCA)
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:   tls.VerifyClientCertIfGiven,
		ClientCAs:    pool,
	}, nil
}

func (a *Authority) sign(template *x509.Certificate, key crypto.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, a.agentsCA, key, a.agents)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return der, nil
}

// Agent is who an agent's certificate says it is.
type Agent struct {
	Node string
	Boot int64
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
	der, err := a.sign(&x509.Certificate{
		Subject:   pkix.Name{CommonName: who.Node, SerialNumber: strconv.FormatInt(who.Boot, 10)},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(CertificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, csr.PublicKey)
	if err != nil {
		return "", "", err
	}
	sum := sha256.Sum256(csr.RawSubjectPublicKeyInfo)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), base64.RawStdEncoding.EncodeToString(sum[:]), nil
}

// AgentOf reads a verified client certificate.
func AgentOf(c *x509.Certificate) (Agent, error) {
	boot, err := strconv.ParseInt(c.Subject.SerialNumber, 10, 64)
	if err != nil || c.Subject.CommonName == "" {
		return Agent{}, errors.New("the certificate names no node")
	}
	return Agent{c.Subject.CommonName, boot}, nil
}

// UserCA is the public key that nodes trust to sign users, authorized_keys format without a newline.
func (a *Authority) UserCA() string { return line(a.userCA.PublicKey()) }

// HostCA is the public key that users trust to sign hosts.
func (a *Authority) HostCA() string { return line(a.hostCA.PublicKey()) }

func line(key ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) }

// GatewayCA is the public key that people trust to sign gateways. It is not that of nodes: people name their clusters and
// queues, and so their nodes, as they like.
func (a *Authority) GatewayCA() string { return line(a.gatewayCA.PublicKey()) }

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
	return certifySSH(a.gatewayCA, publicKey, ssh.HostCert, "gateway "+strings.Join(names, " "), names, nil, now, CertificateLife)
}

// CertifyHost signs a node's SSH host key for its names.
func (a *Authority) CertifyHost(publicKey string, names []string, now time.Time) (string, error) {
	return certifySSH(a.hostCA, publicKey, ssh.HostCert, "host "+strings.Join(names, " "), names, nil, now, CertificateLife)
}

// CertifyUser signs a user's SSH key for one account, for life. Agent forwarding and X11 are not in it.
func (a *Authority) CertifyUser(publicKey, identity, account string, now time.Time, life time.Duration) (string, error) {
	return certifySSH(a.userCA, publicKey, ssh.UserCert, identity, []string{account}, userRights(), now, life)
}

func userRights() map[string]string {
	return map[string]string{"permit-pty": "", "permit-port-forwarding": "", "permit-user-rc": ""}
}

// LoginCA is the public key that gateways, and only they, trust to sign people who have logged in. Nodes must not: a
// node cannot see that a login has ended.
func (a *Authority) LoginCA() string { return line(a.loginCA.PublicKey()) }

// CertifyLogin signs a person's SSH key for as long as their login lasts. The principal is the person, the key ID is the
// ID of the login's token and nothing else: the certificate is good while that token is, whatever its own end.
func (a *Authority) CertifyLogin(publicKey, person, tokenID string, now time.Time, life time.Duration) (string, error) {
	return certifySSH(a.loginCA, publicKey, ssh.UserCert, tokenID, []string{person}, userRights(), now, life)
}

func certifySSH(ca ssh.Signer, publicKey string, kind uint32, id string, principals []string, extensions map[string]string, now time.Time, life time.Duration) (string, error) {
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
