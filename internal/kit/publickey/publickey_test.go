package publickey

import (
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

func fresh(t testing.TB) (ssh.Signer, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}

func TestAKeyIsOneLine(t *testing.T) {
	signer, line := fresh(t)
	for _, text := range []string{line, line + " ada@laptop, at home", "\n" + line + " ada\r\n\n", "# mine\n" + line} {
		key, comment, err := Parse(text)
		if err != nil || string(key.Marshal()) != string(signer.PublicKey().Marshal()) {
			t.Errorf("%q: %v", text, err)
		}
		if strings.Contains(text, "ada") && !strings.HasPrefix(comment, "ada") {
			t.Errorf("%q has the comment %q", text, comment)
		}
	}
}

func TestWhatIsNoKeyIsToldWhatItIs(t *testing.T) {
	signer, line := fresh(t)
	_, other := fresh(t)
	certificate := &ssh.Certificate{Key: signer.PublicKey(), CertType: ssh.UserCert, ValidBefore: ssh.CertTimeInfinity}
	if err := certificate.SignCert(rand.Reader, signer); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, says string }{
		{"", "there is no key"}, {"hello", "this is no SSH public key: give the content of a .pub file"},
		{"---- BEGIN SSH2 PUBLIC KEY ----\nComment: \"ada\"\nAAAAB3NzaC1yc2EAAAA\n---- END SSH2 PUBLIC KEY ----\n", "ssh-keygen -i -f FILE"},
		{"PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\n", "a private key of PuTTY"},
		{"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz\n-----END OPENSSH PRIVATE KEY-----\n", "a private key"},
		{"-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----", "-m PKCS8"},
		{"-----BEGIN RSA PUBLIC KEY-----\nMCow\n-----END RSA PUBLIC KEY-----", "-m PEM"},
		{"-----BEGIN CERTIFICATE-----\nMCow\n-----END CERTIFICATE-----", "this is no SSH public key"},
		{"256 SHA256:9zNnXxFvbBnuk0yBBiUBDS2h4oR1X4P2jZy3L0cQ8yA ada (ED25519)", "a key's fingerprint"},
		{`from="10.0.0.0/8",no-pty ` + line, `options (from="10.0.0.0/8",no-pty)`},
		{line + "\n" + other, "these are 2 lines: give one key at a time"},
		{line + "\n" + other + "\n" + line + "\n", "these are 3 lines"},
		{line + "\nrubbish", "these are 2 lines"}, {line[:40] + "\n" + line[40:], "is broken into several lines"},
		{string(ssh.MarshalAuthorizedKey(certificate)), "this is a certificate"}, {"\ufffd\ufffds\x00s\x00h\x00", "UTF-16"},
		{strings.Replace(line, "ssh-ed25519", "ssh-ed25519x", 1)[:30], "this is no SSH public key"},
	} {
		text, says := c.text, c.says
		_, _, wrong := Parse(text)
		if wrong == nil || wrong.Hint == "" || !strings.Contains(wrong.Error(), says) {
			t.Errorf("%q: %v; %q is wanted", text, wrong, says)
		}
	}
}

func TestACertificateIsNoBareKey(t *testing.T) {
	signer, line := fresh(t)
	made := &ssh.Certificate{Key: signer.PublicKey(), CertType: ssh.UserCert, ValidBefore: ssh.CertTimeInfinity, KeyId: "ada"}
	if err := made.SignCert(rand.Reader, signer); err != nil {
		t.Fatal(err)
	}
	if c, err := Certificate(string(ssh.MarshalAuthorizedKey(made))); err != nil || c.KeyId != "ada" {
		t.Errorf("%v, %v", c, err)
	}
	for text, says := range map[string]string{line: "it is a bare key", "": "read the certificate: "} {
		if _, err := Certificate(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; %q is wanted", text, err, says)
		}
	}
}

func FuzzParse(f *testing.F) {
	_, line := fresh(f)
	f.Add(line + " comment\n")
	f.Add("from=\"x\" " + line)
	f.Add("---- BEGIN SSH2 PUBLIC KEY ----\nAAAA\n")
	f.Fuzz(func(t *testing.T, text string) {
		key, comment, err := Parse(text)
		if err != nil {
			return
		}
		again, _, err := Parse(strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + " " + comment)
		if err != nil || string(again.Marshal()) != string(key.Marshal()) {
			t.Errorf("%q is not read again: %v", text, err)
		}
	})
}
