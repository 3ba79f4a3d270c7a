package gateway

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/core"
	"muster/internal/identity"
	"muster/internal/kinds/authority"
)

func TestTheNextHostKeyIsAnnouncedAndProved(t *testing.T) {
	s := newFixture(t, nil)
	line, private, err := identity.NewHostKey()
	if err != nil {
		t.Fatal(err)
	}
	s.client("cfd") // the first key is there
	s.update(s.g.DB, func(ctx context.Context, tx *core.Tx) error {
		return authority.AddGatewayKey(ctx, tx, authority.GatewayKey{Line: line, Private: core.NewSecret([]byte(private))},
			time.Hour)
	})
	if err := s.g.loadKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	plain, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	conn, _, requests, err := ssh.NewClientConn(plain, s.address,
		&ssh.ClientConfig{User: "cfd", Auth: []ssh.AuthMethod{ssh.PublicKeys(s.key)},
			HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	r := <-requests
	var told struct {
		First, Next []byte
	}
	if err := ssh.Unmarshal(r.Payload, &told); err != nil || r.Type != announceKeys {
		t.Fatalf("%s: %v", r.Type, err)
	}
	go ssh.DiscardRequests(requests)
	next, err := ssh.ParsePublicKey(told.Next)
	if err != nil {
		t.Fatal(err)
	}
	ok, payload, err := conn.SendRequest(proveKeys, true, ssh.Marshal(struct{ Key []byte }{told.Next}))
	if err != nil || !ok {
		t.Fatal("it is not proved", err)
	}
	var proof struct{ Signature []byte }
	var signature ssh.Signature
	if err := ssh.Unmarshal(payload, &proof); err != nil {
		t.Fatal(err)
	}
	if err := ssh.Unmarshal(proof.Signature, &signature); err != nil {
		t.Fatal(err)
	}
	signed := ssh.Marshal(struct {
		What         string
		Session, Key []byte
	}{"hostkeys-prove-00@openssh.com", conn.SessionID(), told.Next})
	if err := next.Verify(signed, &signature); err != nil {
		t.Error(err)
	}
	if ok, _, _ := conn.SendRequest(proveKeys, true, ssh.Marshal(struct{ Key []byte }{newKey(t).PublicKey().Marshal()})); ok {
		t.Error("a key that is not the gateway's is proved")
	}
}

func TestAHostKeyThatIsNotCertifiedIsNotTakenUp(t *testing.T) {
	key, keys := newKey(t), hostKeys{}
	known := []authority.GatewayKey{{Line: string(ssh.MarshalAuthorizedKey(key.PublicKey()))}}
	err := keys.use(known, []ssh.Signer{key}, "", time.Now(), func(line string) (string, error) { return line, nil })
	if err == nil || !strings.Contains(err.Error(), "bare key") || keys.certified != nil {
		t.Errorf("%v", err)
	}
}
