package api_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"muster/internal/core"
	"muster/internal/kinds/person"
)

// registration is the body of a request that registers a key for somebody, with the proof that they have it.
func registration(t *testing.T, who, line string, key ssh.Signer) string {
	t.Helper()
	return body(t, map[string]string{"line": line, "proof": proof(t, who, "muster-key", key)})
}

func proof(t *testing.T, text, namespace string, key ssh.Signer) string {
	t.Helper()
	signature, err := sshsig.Sign(strings.NewReader(text), key, sshsig.HashSHA512, namespace)
	if err != nil {
		t.Fatal(err)
	}
	return string(sshsig.Armor(signature))
}

// freshKey is an ed25519 key, and its line.
func freshKey(t *testing.T) (ssh.Signer, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	return signerOf(t, private, err)
}

func signerOf(t *testing.T, private any, err error) (ssh.Signer, string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, lineOf(signer)
}

func lineOf(key ssh.Signer) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))
}

// securityKey signs as a security key does (PROTOCOL.u2f of OpenSSH).
type securityKey struct {
	private ed25519.PrivateKey
	public  ssh.PublicKey
}

func newSecurityKey(t *testing.T) securityKey {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParsePublicKey(ssh.Marshal(struct {
		Name        string
		Key         []byte
		Application string
	}{ssh.KeyAlgoSKED25519, public, "ssh:"}))
	if err != nil {
		t.Fatal(err)
	}
	return securityKey{private, key}
}

func (k securityKey) PublicKey() ssh.PublicKey { return k.public }

func (k securityKey) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	application, message := sha256.Sum256([]byte("ssh:")), sha256.Sum256(data)
	state := binary.BigEndian.AppendUint32([]byte{1}, 7) // somebody has touched it; its counter
	return &ssh.Signature{Format: ssh.KeyAlgoSKED25519, Rest: state,
		Blob: ed25519.Sign(k.private, slices.Concat(application[:], state, message[:]))}, nil
}

func TestAKeyIsRegisteredByWhoHasIt(t *testing.T) {
	s, db := server(t, 0)
	tenants(t, db)
	key, line := freshKey(t)
	other, _ := freshKey(t)
	add := func(who, proof string) reply {
		return as(t, s, who, "POST", "/v1/keys", body(t, map[string]string{"line": line, "proof": proof}))
	}
	for what, wrong := range map[string]string{
		"none":                             "",
		"no signature":                     "hello",
		"another key's":                    proof(t, "member", "muster-key", other),
		"another person's":                 proof(t, "owner", "muster-key", key),
		"of something else that was asked": proof(t, "member", "git", key),
		"cut off":                          proof(t, "member", "muster-key", key)[:120],
	} {
		if got := add("member", wrong); got.status != 422 || !strings.Contains(got.text, "ssh-keygen -Y sign -n muster-key") {
			t.Errorf("%s: %v", what, got)
		}
	}
	wants(t, add("member", proof(t, "member", "muster-key", key)), 201)
	wants(t, add("owner", proof(t, "owner", "muster-key", key)), 409)
	wants(t, as(t, s, "member", "GET", "/v1/keys", ""), 200, ssh.FingerprintSHA256(key.PublicKey()))
	wants(t, as(t, s, "owner", "GET", "/v1/keys", ""), 200, `"items":[]`)
}

// OpenSSH's own signatures are understood.
func TestSSHKeygenMakesTheProof(t *testing.T) {
	program, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("ssh-keygen is not there; `make setup` installs it")
	}
	s, db := server(t, 0)
	tenants(t, db)
	path := filepath.Join(t.TempDir(), "key")
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		c := exec.CommandContext(t.Context(), program, "-q", "-t", kind, "-N", "", "-f", path+kind)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
		c = exec.CommandContext(t.Context(), program, "-q", "-Y", "sign", "-n", "muster-key", "-f", path+kind)
		c.Stdin = strings.NewReader("member")
		signature, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		line, err := os.ReadFile(path + kind + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		wants(t, as(t, s, "member", "POST", "/v1/keys", body(t, map[string]string{"line": string(line),
			"proof": string(signature)})), 201)
	}
	var keys []person.Key
	change(t, db, func(ctx context.Context, tx *core.Tx) (err error) {
		keys, err = person.Keys(ctx, tx, "member")
		return err
	})
	if len(keys) != 3 {
		t.Errorf("%d keys", len(keys))
	}
}

func FuzzKeyProof(f *testing.F) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		f.Fatal(err)
	}
	signature, err := sshsig.Sign(strings.NewReader("sam"), signer, sshsig.HashSHA256, "muster-key")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(sshsig.Armor(signature)))
	f.Add("-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		read, err := sshsig.Unarmor([]byte(text))
		if err == nil && sshsig.Verify(strings.NewReader("eve"), read, signer.PublicKey(), read.HashAlgorithm,
			"muster-key") == nil {
			t.Errorf("a signature of something else is taken: %q", text)
		}
	})
}
