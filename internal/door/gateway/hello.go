package gateway

import (
	"bytes"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/kit/pipes"
)

// A client begins with a line that says which software it is (RFC 4253, 4.2), mostly before it has heard anything. Who waits for
// the server's line first, as scanners of keys do, is waited for this long.
const (
	helloWithin = time.Second
	helloMost   = 255 // bytes
)

// hello is the client's line, "" if it has not come, and the connection with all that was read of it.
func hello(conn net.Conn) (line string, begun net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(helloWithin))
	first := make([]byte, 0, helloMost+1)
	for len(first) < cap(first) && !bytes.Contains(first, []byte("\n")) {
		n, err := conn.Read(first[len(first):cap(first)])
		if first = first[:len(first)+n]; err != nil {
			break // its end, which comes again, or there is no more yet
		}
	}
	if text, _, whole := bytes.Cut(first, []byte("\n")); whole {
		line = strings.TrimRight(string(text), "\r")
	}
	return line, &pipes.Begun{Conn: conn, First: first}
}

// speak sets what is spoken with a client: AES-GCM alone with OpenSSH, which would choose what is slower here if it could. Other
// programs and libraries, and a client that is not known yet, may not have it, and have AES-CTR, some with a MAC of what is sent
// in clear: docs/decisions/gateway.md.
func speak(c *ssh.Config, line string) {
	c.Ciphers = []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM}
	c.MACs = []string{ssh.HMACSHA256ETM, ssh.HMACSHA512ETM}
	if !strings.HasPrefix(line, "SSH-2.0-OpenSSH") {
		c.Ciphers = append(c.Ciphers, ssh.CipherAES256CTR)
		c.MACs = append(c.MACs, ssh.HMACSHA256)
	}
}
