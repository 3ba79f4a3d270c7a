package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"time"
)

// webLife is how long a certificate of the door for web apps is good. It is made anew for every connection.
const webLife = 30 * 24 * time.Hour

// Web is the authority of a site's door for web apps, where nobody has given it a certificate that browsers know.
type Web struct {
	key  *ecdsa.PrivateKey
	ca   *x509.Certificate
	pem  []byte
	leaf *ecdsa.PrivateKey // of this process
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
	scalar := new(big.Int).SetBytes(a.web)
	most := new(big.Int).Sub(elliptic.P256().Params().N, big.NewInt(1))
	scalar.Add(scalar.Mod(scalar, most), big.NewInt(1))
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar.FillBytes(make([]byte, 32)))
	if err != nil {
		return nil, fmt.Errorf("make the authority for web apps: %w", err)
	}
	w := &Web{key: key}
	if w.leaf, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Muster web apps of " + domain},
		NotBefore: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2056, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: []string{domain},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), steady{key})
	if err != nil {
		return nil, fmt.Errorf("make the authority for web apps: %w", err)
	}
	w.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	w.ca, err = x509.ParseCertificate(der)
	return w, err
}

// PEM is the certificate that browsers are to trust.
func (w *Web) PEM() string { return string(w.pem) }

// Certify makes a certificate for one host name.
func (w *Web) Certify(host string, now time.Time) (*tls.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, DNSNames: []string{host}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(webLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, w.ca, w.leaf.Public(), w.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate for %s: %w", host, err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: w.leaf}, nil
}
