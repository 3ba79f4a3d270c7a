package gateway

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// Libraries and small programs do not have AES-GCM; OpenSSH has, and before version 10 would rather use AES-CTR.
func TestClientsAreSpokenToAsTheyCan(t *testing.T) {
	s := newFixture(t, nil)
	for _, c := range []struct {
		version, cipher, mac string
		spoken               bool
	}{
		{"SSH-2.0-libssh2_1.10.0", ssh.CipherAES256CTR, ssh.HMACSHA256, true},
		{"SSH-2.0-dropbear_2022.83", ssh.CipherAES256CTR, ssh.HMACSHA256, true},
		{"SSH-2.0-paramiko_2.12.0", ssh.CipherAES256CTR, ssh.HMACSHA256ETM, true},
		{"SSH-2.0-libssh2_1.11.1", ssh.CipherAES256GCM, ssh.HMACSHA256, true},
		{"SSH-2.0-OpenSSH_9.2p1 Debian-2", ssh.CipherAES128GCM, ssh.HMACSHA256ETM, true},
		{"SSH-2.0-OpenSSH_9.2p1 Debian-2", ssh.CipherAES256CTR, ssh.HMACSHA256ETM, false},
		{"SSH-2.0-paramiko_2.12.0", ssh.CipherAES128CTR, ssh.HMACSHA256ETM, false},
		{"SSH-2.0-paramiko_2.12.0", ssh.InsecureCipherAES128CBC, ssh.HMACSHA256ETM, false},
		{"SSH-2.0-paramiko_2.12.0", ssh.CipherAES256CTR, ssh.InsecureHMACSHA196, false},
	} {
		client, err := ssh.Dial("tcp", s.address, &ssh.ClientConfig{User: "cfd", ClientVersion: c.version,
			Config: ssh.Config{Ciphers: []string{c.cipher}, MACs: []string{c.mac}}, Auth: []ssh.AuthMethod{ssh.PublicKeys(s.key)},
			HostKeyCallback: ssh.InsecureIgnoreHostKey()})
		if (err == nil) != c.spoken || err != nil && !strings.Contains(err.Error(), "no common algorithm") {
			t.Errorf("%s with %s and %s: %v", c.version, c.cipher, c.mac, err)
		}
		if err == nil {
			_ = client.Close()
		}
	}
}

// Scanners of host keys, and those who look whether a port is open, hear the server first.
func TestWhoSaysNothingHearsTheServer(t *testing.T) {
	s := newFixture(t, nil)
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 16)
	if _, err := io.ReadFull(conn, line); err != nil || string(line) != "SSH-2.0-Muster\r\n" {
		t.Errorf("%q, %v", line, err)
	}
	// Then it is a client like others, whatever it is, and says so in pieces.
	for _, piece := range []string{"SSH-2.0-", "keyscan\r", "\n"} {
		if _, err := io.WriteString(conn, piece); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := conn.Read(line); err != nil || n == 0 {
		t.Errorf("%d bytes of its offer, %v", n, err)
	}
}
