package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestACertificateThatIsReplacedIsReadAgainAndADamagedOneIsNot(t *testing.T) {
	certificate, key := filepath.Join(t.TempDir(), "apps.pem"), filepath.Join(t.TempDir(), "apps.key")
	if _, err := Files(certificate, key, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a door without its certificate is opened")
	}
	began := time.Now()
	write := func(serial int64) {
		t.Helper()
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "*.apps.test"},
			NotAfter: began.Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
		if err != nil {
			t.Fatal(err)
		}
		secret, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		for path, block := range map[string]*pem.Block{key: {Type: "PRIVATE KEY", Bytes: secret},
			certificate: {Type: "CERTIFICATE", Bytes: der}} {
			if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		later := began.Add(time.Duration(serial) * time.Minute) // two writes may be of one instant
		if err := os.Chtimes(certificate, later, later); err != nil {
			t.Fatal(err)
		}
	}
	write(1)
	get, err := Files(certificate, key, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	shows := func(want int64) {
		t.Helper()
		now, err := get(nil)
		if err != nil {
			t.Fatal(err)
		}
		if leaf, err := x509.ParseCertificate(now.Certificate[0]); err != nil || leaf.SerialNumber.Int64() != want {
			t.Errorf("it shows %v, want %d (%v)", leaf.SerialNumber, want, err)
		}
	}
	shows(1)
	write(2)
	shows(2)
	if err := os.WriteFile(certificate, []byte("half of"), 0o600); err != nil {
		t.Fatal(err)
	}
	shows(2)
}
