// Package target describes where the gateway sends a session: the address, the account, and the host key that proves it is the
// right place. It is the same for the head of a cluster and for the login host of an external cluster that Muster did not build.
//
// What enters: a description of the place from the caller. What leaves: an SSH connection to it. It decides nothing.
package target

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/kit/publickey"
)

// Target is one place, for one person.
type Target struct {
	Project string // whose membership lets the person in
	Name    string // as users call it
	Cluster string // ID; "" for an external cluster
	Account string // the person's, there

	Dial       func(ctx context.Context) (net.Conn, error)   // to its sshd
	Host       string                                        // HOST:PORT, as host keys and certificates name it
	Known      ssh.HostKeyCallback                           // says whether the other side is who it should be
	Algorithms []string                                      // of host keys: the other side offers one that is known; empty: any
	Certify    func(publicKey ssh.PublicKey) (string, error) // signs a key for the account, for minutes; authorized_keys format
}

// patience bounds how long a place may take from the first packet to being logged in.
const patience = 15 * time.Second

// HandshakeError says that the place was reached, but does not let in, or is not who it should be.
type HandshakeError struct{ error }

// Unwrap is for package errors.
func (e HandshakeError) Unwrap() error { return e.error }

// Connect logs in with a key that lives as long as the connection and is written nowhere. Who calls closes the connection.
func (t Target) Connect(ctx context.Context) (ssh.Conn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no login within %s", patience))
	defer cancel()
	signer, err := t.signer()
	if err != nil {
		return nil, nil, nil, err
	}
	raw, err := t.Dial(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn, channels, requests, err := ssh.NewClientConn(raw, t.Host, &ssh.ClientConfig{
		Config: ssh.Config{
			KeyExchanges: []string{ssh.KeyExchangeMLKEM768X25519, ssh.KeyExchangeCurve25519, ssh.KeyExchangeECDHP256},
			// The client's order counts: first what is in hardware at both ends.
			Ciphers: []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM, ssh.CipherChaCha20Poly1305, ssh.CipherAES256CTR},
			MACs:    []string{ssh.HMACSHA256ETM, ssh.HMACSHA512ETM},
		},
		ClientVersion: "SSH-2.0-Muster",
		User:          t.Account, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: t.Known,
		HostKeyAlgorithms: t.Algorithms,
	})
	if !stop() && err == nil { // the connection was closed in this moment
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = raw.Close()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, nil, nil, HandshakeError{err}
	}
	return conn, channels, requests, nil
}

// signer is a new key with its certificate.
func (t Target) signer() (ssh.Signer, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, err
	}
	text, err := t.Certify(key.PublicKey())
	if err != nil {
		return nil, err
	}
	certificate, err := publickey.Certificate(text)
	if err != nil {
		return nil, err
	}
	return ssh.NewCertSigner(certificate, key)
}
