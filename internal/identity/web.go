package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"strings"
	"sync"
	"time"
)

// webLife is how long a certificate of the door for web apps is good. It is made again for every connection.
const webLife = 30 * 24 * time.Hour

// Web is the authority of a site's door for web apps, where it was not given a certificate that browsers know.
type Web struct {
	authority *Authority
	domain    string
	leaf      *ecdsa.PrivateKey // of this process

	mu   sync.Mutex
	made map[string]*webKey // by seed
}

// webKey is one generation.
type webKey struct {
	key *ecdsa.PrivateKey
	ca  *x509.Certificate
	pem []byte
}

// steady signs the same text with the same bytes (RFC 6979), so that all replicas have one certificate. Browsers know no
// Ed25519.
type steady struct{ *ecdsa.PrivateKey }

func (s steady) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	return s.PrivateKey.Sign(nil, digest, opts)
}

// Web derives the authority for the names below a domain. It can vouch for no other names, so that who trusts it risks
// nothing else.
func (a *Authority) Web(domain string) (*Web, error) {
	w := &Web{authority: a, domain: domain, made: map[string]*webKey{}}
	var err error
	if w.leaf, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	_, err = w.of(a.now().signing(WebApps))
	return w, err
}

// of makes the authority of a generation.
func (w *Web) of(k *key) (*webKey, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if made := w.made[string(k.Seed)]; made != nil {
		return made, nil
	}
	scalar := new(big.Int).SetBytes(k.Seed)
	most := new(big.Int).Sub(elliptic.P256().Params().N, big.NewInt(1))
	scalar.Add(scalar.Mod(scalar, most), big.NewInt(1))
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar.FillBytes(make([]byte, 32)))
	if err != nil {
		return nil, fmt.Errorf("make the authority for web apps: %w", err)
	}
	made := &webKey{key: private}
	if made.ca, made.pem, err = newCA("web apps of "+w.domain, k.Number, steady{private}, w.domain); err != nil {
		return nil, err
	}
	w.made[string(k.Seed)] = made
	return made, nil
}

// PEM is the certificates that browsers are to trust: one, or two while it is rotated.
func (w *Web) PEM() string {
	var all strings.Builder
	for _, k := range w.authority.now()[WebApps] {
		if made, err := w.of(k); err == nil { // fails for nothing that a seed can be
			all.Write(made.pem)
		}
	}
	return all.String()
}

// Certify makes a certificate for one host name.
func (w *Web) Certify(host string, now time.Time) (*tls.Certificate, error) {
	by, err := w.of(w.authority.now().signing(WebApps))
	if err != nil {
		return nil, err
	}
	der, err := sign(by.ca, by.key, &x509.Certificate{
		DNSNames: []string{host}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(webLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, w.leaf.Public())
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", host, err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: w.leaf}, nil
}
