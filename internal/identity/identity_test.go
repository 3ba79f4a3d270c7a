package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

func open(t *testing.T, root string) *Authority {
	t.Helper()
	a, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestReplicasWithOneRootTrustEachOther(t *testing.T) {
	root := NewRoot()
	a, b := open(t, root), open(t, root)
	if a.AgentsPEM() != b.AgentsPEM() || a.UserCA() != b.UserCA() || a.HostCA() != b.HostCA() ||
		a.Token("n1", 3) != b.Token("n1", 3) {
		t.Fatal("the same root gave two different authorities")
	}
	if other := open(t, NewRoot()); other.AgentsPEM() == a.AgentsPEM() || other.UserCA() == a.UserCA() {
		t.Fatal("two roots gave the same authority")
	}
}

func TestATokenIsGoodForItsBootOnly(t *testing.T) {
	a := open(t, NewRoot())
	token := a.Token("n1", 3)
	for _, c := range []struct {
		node string
		boot int64
		good bool
	}{{"n1", 3, true}, {"n1", 4, false}, {"n1", 2, false}, {"n2", 3, false}, {"n1\x003", 3, false}} {
		if a.CheckToken(c.node, c.boot, token) != c.good {
			t.Errorf("node %q boot %d: want %v", c.node, c.boot, c.good)
		}
	}
}

func TestAnAgentsCertificateSaysWhoItIs(t *testing.T) {
	a := open(t, NewRoot())
	_, key, _ := ed25519.GenerateKey(rand.Reader)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	csr := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	text, fingerprint, err := a.CertifyAgent(csr, Agent{Node: "nabc", Boot: 7}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(text))
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(a.AgentsPEM()))
	if _, err := c.Verify(x509.VerifyOptions{Roots: pool,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Fatal(err)
	}
	if who, err := AgentOf(c); err != nil || who != (Agent{"nabc", 7, fingerprint}) || fingerprint == "" {
		t.Fatal(who, err)
	}
	if _, _, err := a.CertifyAgent("nonsense", Agent{Node: "nabc", Boot: 7}, time.Now()); err == nil {
		t.Fatal("nonsense was certified")
	}
}

// certified is a new key's certificate, as text and read.
func certified(t *testing.T, certify func(key string) (string, error)) (text string, c *ssh.Certificate) {
	t.Helper()
	public, _, _ := ed25519.GenerateKey(rand.Reader)
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = certify(line(key)); err != nil {
		t.Fatal(err)
	}
	parsed, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return text, parsed.(*ssh.Certificate)
}

func TestAUserCertificateOpensOneAccountForAWhile(t *testing.T) {
	a := open(t, NewRoot())
	text, certificate := certified(t, func(key string) (string, error) {
		return a.CertifyUser(key, "admin", "admin", time.Now(), time.Minute)
	})
	for _, c := range []struct {
		account string
		at      time.Time
		good    bool
	}{{"admin", time.Now(), true}, {"root", time.Now(), false}, {"admin", time.Now().Add(2 * time.Minute), false}} {
		checker := ssh.CertChecker{
			IsUserAuthority: func(k ssh.PublicKey) bool { return line(k) == a.UserCA() },
			Clock:           func() time.Time { return c.at },
		}
		if err := checker.CheckCert(c.account, certificate); (err == nil) != c.good {
			t.Errorf("%s at %v: %v", c.account, c.at, err)
		}
	}
	if _, err := a.CertifyUser(text, "admin", "admin", time.Now(), time.Minute); err == nil {
		t.Error("a certificate was signed as if it were a key")
	}
}

func TestALoginsCertificateIsNothingToNodes(t *testing.T) {
	a := open(t, NewRoot())
	_, certificate := certified(t, func(key string) (string, error) {
		return a.CertifyLogin(key, "alice", "t-1", time.Now(), time.Hour)
	})
	if certificate.KeyId != "t-1" || line(certificate.SignatureKey) != a.LoginCA() || a.LoginCA() == a.UserCA() ||
		a.LoginCA() == a.HostCA() {
		t.Errorf("key ID %q, signed by %s", certificate.KeyId, line(certificate.SignatureKey))
	}
	for _, c := range []struct {
		person string
		at     time.Time
		good   bool
	}{{"alice", time.Now(), true}, {"bob", time.Now(), false}, {"alice", time.Now().Add(2 * time.Hour), false}} {
		checker := ssh.CertChecker{Clock: func() time.Time { return c.at }}
		if err := checker.CheckCert(c.person, certificate); (err == nil) != c.good {
			t.Errorf("%s at %v: %v", c.person, c.at, err)
		}
	}
}
