package noded

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/protocol"
)

// takeBoot reads the boot file and deletes it: its token is for this process only.
func takeBoot(path string) (protocol.BootFile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return protocol.BootFile{}, fmt.Errorf("read boot file: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return protocol.BootFile{}, fmt.Errorf("delete boot file: %w", err)
	}
	var boot protocol.BootFile
	if err := json.Unmarshal(text, &boot); err != nil {
		return protocol.BootFile{}, fmt.Errorf("boot file: %w", err)
	}
	return boot, nil
}

// identity is the agent's key for this boot, and the certificate that the controller gave for it. The key never leaves
// memory.
type identity struct {
	key         *ecdsa.PrivateKey
	certificate atomic.Pointer[tls.Certificate] // nil before the join
}

func newIdentity() (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return &identity{key: key}, nil
}

// request is the certificate request for the key.
func (i *identity) request(name string) (string, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, i.key)
	if err != nil {
		return "", fmt.Errorf("make certificate request: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), nil
}

// accept takes a certificate, which new connections then show.
func (i *identity) accept(certificate string) error {
	block, _ := pem.Decode([]byte(certificate))
	if block == nil {
		return fmt.Errorf("certificate from the controller is not PEM")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("certificate from the controller: %w", err)
	}
	if !i.key.PublicKey.Equal(leaf.PublicKey) {
		return fmt.Errorf("certificate from the controller is for another key")
	}
	i.certificate.Store(&tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: i.key, Leaf: leaf})
	return nil
}

// shown is the certificate that counts; nil before the join, and when it has ended: with it no controller would listen.
func (i *identity) shown() *tls.Certificate {
	if c := i.certificate.Load(); c != nil && time.Now().Before(c.Leaf.NotAfter) {
		return c
	}
	return nil
}

// client is the TLS side of it: the controller must be of the authority that the boot named.
func (i *identity) client(authority string) (*tls.Config, error) {
	roots, name, n := x509.NewCertPool(), controllerName, 0
	for rest := []byte(authority); ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("boot file: authority: %w", err)
		}
		roots.AddCert(ca)
		if n > 0 { // the last one is the newest: the controller is to be by that
			sum := sha256.Sum256(ca.Raw)
			name = hex.EncodeToString(sum[:8]) + "." + controllerName
		}
	}
	if n == 0 {
		return nil, fmt.Errorf("boot file: no certificate in authority")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    roots,
		ServerName: name,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if c := i.shown(); c != nil {
				return c, nil
			}
			return &tls.Certificate{}, nil
		},
	}, nil
}

// controllerName is in every controller's certificate, wherever it listens.
const controllerName = "muster-controller"

// sshKey makes an Ed25519 key: the private file's text and the public line.
func sshKey(comment string) (private []byte, public string, err error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("make SSH key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(key, comment)
	if err != nil {
		return nil, "", fmt.Errorf("make SSH key: %w", err)
	}
	sshPublic, err := ssh.NewPublicKey(pub)
	if err != nil {
		return nil, "", fmt.Errorf("make SSH key: %w", err)
	}
	return pem.EncodeToMemory(block), publicLine(sshPublic, comment), nil
}

// publicHalf is the public line of a private file's text.
func publicHalf(private, comment string) (string, error) {
	key, err := ssh.ParsePrivateKey([]byte(private))
	if err != nil {
		return "", fmt.Errorf("read SSH key: %w", err)
	}
	return publicLine(key.PublicKey(), comment), nil
}

func publicLine(key ssh.PublicKey, comment string) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + " " + comment
}
