package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/person"
)

// who is a person at the door, with what they came with.
type who struct {
	caller      access.Caller
	fingerprint string // of the registered key; "" for who came with a login's certificate
}

// credential is what a session is noted with.
func (w who) credential() string { return cmp.Or(w.fingerprint, w.caller.Token) }

// errStranger is all that is said to who has no key: a door that says more can be asked.
var errStranger = errors.New("this key is not registered")

// extraWho is where a connection's permissions keep who it is.
type extraWho struct{}

// serverConfig is how people are met. What is not in these lists is not spoken.
func (g *Gateway) serverConfig(ctx context.Context) *ssh.ServerConfig {
	c := &ssh.ServerConfig{
		Config: ssh.Config{
			KeyExchanges: []string{ssh.KeyExchangeMLKEM768X25519, ssh.KeyExchangeCurve25519, ssh.KeyExchangeECDHP256},
		},
		PublicKeyAuthAlgorithms: []string{
			ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
			ssh.KeyAlgoSKECDSA256,
			ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512,
		},
		MaxAuthTries:  10, // an agent may hold several keys
		ServerVersion: "SSH-2.0-Muster",
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			w, err := g.recognise(ctx, key)
			if err != nil {
				return nil, err
			}
			return &ssh.Permissions{ExtraData: map[any]any{extraWho{}: w}}, nil
		},
	}
	for _, signer := range g.keys.signers() {
		c.AddHostKey(signer)
	}
	return c
}

// recognise is whose key it is: a registered one, or one that was certified at a login.
func (g *Gateway) recognise(ctx context.Context, key ssh.PublicKey) (w who, err error) {
	if certificate, ok := key.(*ssh.Certificate); ok {
		return g.recogniseLogin(ctx, certificate)
	}
	w.fingerprint = ssh.FingerprintSHA256(key)
	w.caller, err = core.Look(ctx, g.DB, func(tx *core.Tx) (access.Caller, error) { return callerOf(ctx, tx, w) })
	return w, g.stranger(ctx, err)
}

func (g *Gateway) recogniseLogin(ctx context.Context, c *ssh.Certificate) (w who, err error) {
	if !g.Authority.IsLoginCA(c.SignatureKey) || c.CertType != ssh.UserCert || len(c.ValidPrincipals) != 1 {
		return w, errStranger
	}
	checker := ssh.CertChecker{Clock: time.Now}
	if err := checker.CheckCert(c.ValidPrincipals[0], c); err != nil {
		return w, errStranger
	}
	w.caller.Token = c.KeyId
	w.caller, err = core.Look(ctx, g.DB, func(tx *core.Tx) (access.Caller, error) { return callerOf(ctx, tx, w) })
	if err == nil && !slices.Equal(c.ValidPrincipals, []string{w.caller.Name}) {
		err = errStranger
	}
	return w, g.stranger(ctx, err)
}

// stranger writes to the log, and not to the caller, why the database does not know them.
func (g *Gateway) stranger(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, errStranger) {
		return err
	}
	if !errors.Is(err, core.ErrNotFound) && ctx.Err() == nil {
		g.Log.ErrorContext(ctx, "cannot look up a key", "error", err)
	}
	return errStranger
}

// callerOf is what a person who came with this may do now; core.ErrNotFound if the key or the login no longer exists.
func callerOf(ctx context.Context, tx *core.Tx, w who) (access.Caller, error) {
	if w.fingerprint == "" {
		return person.Login(ctx, tx, w.caller.Token)
	}
	key, err := person.KeyOf(ctx, tx, w.fingerprint)
	if err != nil {
		return access.Caller{}, err
	}
	if w.caller.Name != "" && w.caller.Name != key.Person {
		return access.Caller{}, fmt.Errorf("key %s is somebody else's now: %w", w.fingerprint, core.ErrNotFound)
	}
	return person.CallerOf(ctx, tx, key.Person)
}
