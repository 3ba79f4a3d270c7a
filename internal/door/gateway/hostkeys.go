package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/core"
	"muster/internal/identity"
	"muster/internal/kinds/authority"
	"muster/internal/kit/publickey"
)

// Requests by which OpenSSH's clients learn a server's other host keys, before one of them takes over (OpenSSH's
// PROTOCOL, 2.5).
const (
	announceKeys = "hostkeys-00@openssh.com"
	proveKeys    = "hostkeys-prove-00@openssh.com"
)

// hostKeys are what the gateway proves itself with: the same keys at every replica.
type hostKeys struct {
	mu          sync.RWMutex
	lines       string // what the signers were made of
	authority   string // by whom they are certified
	certifiedAt time.Time
	plain       []ssh.Signer // the key in use, then those that will follow it
	certified   ssh.Signer   // the key in use, with its certificate
}

// loadKeys reads the keys, the first time making one, and certifies the one in use again when that is due. It may be
// called at any time.
func (g *Gateway) loadKeys(ctx context.Context) error {
	keys, err := core.Look(ctx, g.DB, func(tx *core.Tx) ([]authority.GatewayKey, error) { return authority.GatewayKeys(ctx, tx) })
	if err == nil && len(keys) == 0 {
		keys, err = g.firstKey(ctx)
	}
	if err != nil {
		return fmt.Errorf("host keys of the gateway: %w", err)
	}
	authority := g.Authority.GatewayCA()
	if !g.keys.due(keys, authority, time.Now()) {
		return nil
	}
	var plain []ssh.Signer
	err = g.DB.View(ctx, func(tx *core.Tx) error {
		for _, k := range keys {
			private, err := tx.Reveal(ctx, k.Private)
			if err != nil {
				return err
			}
			signer, err := ssh.ParsePrivateKey(private)
			if err != nil {
				return fmt.Errorf("a host key in the database is damaged: %w", err)
			}
			plain = append(plain, signer)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("host keys of the gateway: %w", err)
	}
	return g.keys.use(keys, plain, authority, time.Now(), func(line string) (string, error) {
		return g.Authority.CertifyGateway(line, g.Hosts, time.Now())
	})
}

// firstKey makes a site's first key. Replicas that start together may make one each: the last one counts.
func (g *Gateway) firstKey(ctx context.Context) (keys []authority.GatewayKey, err error) {
	line, private, err := identity.NewHostKey()
	if err != nil {
		return nil, err
	}
	err = g.DB.Update(ctx, func(tx *core.Tx) error {
		if keys, err = authority.GatewayKeys(ctx, tx); err != nil || len(keys) > 0 {
			return err
		}
		if err := authority.AddGatewayKey(ctx, tx, authority.GatewayKey{Line: line, Private: core.NewSecret([]byte(private))},
			0); err != nil {
			return err
		}
		keys, err = authority.GatewayKeys(ctx, tx)
		return err
	})
	return keys, err
}

// certifiedFor is how long a certificate is used; it is good for a day.
const certifiedFor = time.Hour

func linesOf(keys []authority.GatewayKey) (lines string) {
	for _, k := range keys {
		lines += k.Line + "\n"
	}
	return lines
}

// due says whether these are other keys than before, or the certificate grows old.
func (h *hostKeys) due(keys []authority.GatewayKey, authority string, now time.Time) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return linesOf(keys) != h.lines || authority != h.authority || now.Sub(h.certifiedAt) >= certifiedFor
}

// use takes the keys over, with what signs for each of them.
func (h *hostKeys) use(keys []authority.GatewayKey, plain []ssh.Signer, authority string, now time.Time,
	certify func(line string) (string, error)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	text, err := certify(keys[0].Line)
	if err != nil {
		return err
	}
	certificate, err := publickey.Certificate(text)
	if err != nil {
		return err
	}
	certified, err := ssh.NewCertSigner(certificate, plain[0])
	if err != nil {
		return err
	}
	h.plain, h.certified, h.lines, h.authority, h.certifiedAt = plain, certified, linesOf(keys), authority, now
	return nil
}

// signers are what to meet clients with: those that trust the authority want the certificate, others the key.
func (h *hostKeys) signers() []ssh.Signer {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return []ssh.Signer{h.certified, h.plain[0]}
}

// announcement lists all keys, for clients to keep.
func (h *hostKeys) announcement() []byte {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var payload []byte
	for _, signer := range h.plain {
		payload = append(payload, ssh.Marshal(struct{ Key []byte }{signer.PublicKey().Marshal()})...)
	}
	return payload
}

// prove signs the session with each key that the client asks about; nil if one is not ours.
func (h *hostKeys) prove(session, asked []byte) []byte {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var proofs []byte
	for len(asked) > 0 {
		var next struct {
			Key  []byte
			Rest []byte `ssh:"rest"`
		}
		if ssh.Unmarshal(asked, &next) != nil {
			return nil
		}
		asked = next.Rest
		i := slices.IndexFunc(h.plain, func(s ssh.Signer) bool { return bytes.Equal(s.PublicKey().Marshal(), next.Key) })
		if i < 0 {
			return nil
		}
		signature, err := h.plain[i].Sign(rand.Reader, ssh.Marshal(struct {
			What         string
			Session, Key []byte
		}{proveKeys, session, next.Key}))
		if err != nil {
			return nil
		}
		proofs = append(proofs, ssh.Marshal(struct{ Signature []byte }{ssh.Marshal(signature)})...)
	}
	return proofs
}
