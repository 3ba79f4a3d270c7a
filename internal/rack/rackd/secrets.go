package rackd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strings"
	"time"

	"muster/internal/rack"
)

// ensureCredentials reads the BMCs' user and password, or makes them. The password has the 16 characters that every BMC
// takes (IPMI 2.0, section 22.30).
func ensureCredentials(path string) (credentials, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		text = []byte("operator:" + rand.Text()[:16] + "\n")
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return credentials{}, fmt.Errorf("credentials of the BMCs: %w", err)
	}
	user, password, ok := strings.Cut(strings.TrimSpace(string(text)), ":")
	if !ok {
		return credentials{}, fmt.Errorf("credentials of the BMCs: %s has no line USER:PASSWORD", path)
	}
	return credentials{user, password}, nil
}

// ensureCertificate reads the certificate that all BMCs of the rack show, or makes one, signed by itself as those of new
// BMCs are.
func ensureCertificate(path string, machines []rack.Machine) (tls.Certificate, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if text, err = newCertificate(machines); err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
	}
	var certificate tls.Certificate
	if err == nil {
		certificate, err = tls.X509KeyPair(text, text)
	}
	if err != nil {
		return certificate, fmt.Errorf("certificate of the BMCs: %w", err)
	}
	return certificate, nil
}

func newCertificate(machines []rack.Machine) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "BMCs of a virtual rack"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, m := range machines {
		if m.BMC.IsValid() {
			template.IPAddresses = append(template.IPAddresses, m.BMC.AsSlice())
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), nil
}
