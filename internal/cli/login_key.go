package cli

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"muster/internal/kit/publickey"
	"muster/internal/kit/wrap"
)

// envAgent names the socket of the user's ssh-agent.
const envAgent = "SSH_AUTH_SOCK"

// loginKey is a key made for one login. Nothing of it is kept but in the ssh-agent, or in the file that was asked for.
type loginKey struct {
	private ed25519.PrivateKey
	line    string // the public half
}

func newLoginKey() (loginKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return loginKey{}, err
	}
	shown, err := ssh.NewPublicKey(public)
	if err != nil {
		return loginKey{}, err
	}
	return loginKey{private, string(ssh.MarshalAuthorizedKey(shown))}, nil
}

// toAgent gives key and certificate to the running ssh-agent, which drops them when the login ends.
func (k loginKey) toAgent(ctx context.Context, certificate, comment string, life time.Duration) error {
	c, err := publickey.Certificate(certificate)
	if err != nil {
		return err
	}
	return withAgent(ctx, func(a agent.ExtendedAgent) error {
		return a.Add(agent.AddedKey{PrivateKey: k.private, Certificate: c, Comment: comment,
			LifetimeSecs: uint32(max(1, life/time.Second))})
	})
}

func withAgent(ctx context.Context, do func(agent.ExtendedAgent) error) error {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "unix", os.Getenv(envAgent))
	if err != nil {
		return fmt.Errorf("reach the ssh-agent: %w", err)
	}
	defer func() { _ = connection.Close() }()
	return do(agent.NewClient(connection))
}

// writeFile writes a file: os.WriteFile, or files.Write for one that is to last.
type writeFile func(path string, text []byte, mode fs.FileMode) error

// toFile writes the key to path and the certificate beside it, where ssh looks for it.
func (k loginKey) toFile(write writeFile, path, certificate, comment string) error {
	block, err := ssh.MarshalPrivateKey(k.private, comment)
	if err == nil {
		err = write(path, pem.EncodeToMemory(block), 0o600)
	}
	if err == nil {
		err = write(certificatePath(path), []byte(certificate+"\n"), 0o600)
	}
	return wrap.Errorf(err, "write the key")
}

// certificatePath is where ssh looks for the certificate of a key.
func certificatePath(key string) string { return key + "-cert.pub" }

// freeForKey refuses to write over a key that is not an earlier login's.
func freeForKey(path string, before savedLogin) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) || before.KeyFile == path {
		return nil
	}
	return usage("--key-file: %s is there already, and is not an earlier login's: name another file", path)
}

func (l savedLogin) forgetKey() error {
	if l.Key != "" && os.Getenv(envAgent) != "" {
		c, err := publickey.Certificate(l.Key)
		if err != nil {
			return err
		}
		// An agent that has gone, or has dropped the key already, is as good as one that drops it now.
		_ = withAgent(context.Background(), func(a agent.ExtendedAgent) error { return a.Remove(c) })
	}
	if l.KeyFile == "" {
		return nil
	}
	var left []error
	for _, path := range []string{l.KeyFile, certificatePath(l.KeyFile)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			left = append(left, err)
		}
	}
	return errors.Join(left...)
}
