package identity

import (
	"crypto/x509"
	"testing"
	"time"
)

func TestTheWebAuthorityIsTheSameEverywhereAndVouchesForItsDomainOnly(t *testing.T) {
	root := NewRoot()
	open := func(domain string) *Web {
		a, err := Open(root)
		if err != nil {
			t.Fatal(err)
		}
		w, err := a.Web(domain)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	one, replica := open("apps.example.org"), open("apps.example.org")
	if one.PEM() != replica.PEM() {
		t.Error("two replicas have two authorities")
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(one.PEM()))
	for host, want := range map[string]bool{"jupyter--cfd--aero.apps.example.org": true, "www.example.org": false,
		"bank.example": false} {
		made, err := replica.Certify(host, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(made.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: trusted, DNSName: host}); (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
}
