package gateway

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
)

// certificateLife is how long the certificate opens the place: long enough to connect, too short to leak.
const certificateLife = 5 * time.Minute

// connectWithin bounds how long the place's sshd may take to let the gateway in.
const connectWithin = 15 * time.Second

// enter is the way into the place that the user name says: the one that is open, or a new one.
func (v *visit) enter(ctx context.Context) (*entrance, error) {
	v.entering.Lock()
	defer v.entering.Unlock()
	v.mu.Lock()
	e := v.head
	v.mu.Unlock()
	if e != nil {
		return e, nil
	}
	switch {
	case v.refusal != nil:
		return nil, v.refusal
	case v.login.person != "" && v.login.person != v.who.caller.Name:
		return nil, &Refusal{Text: fmt.Sprintf("this key is %s's, not %s's", v.who.caller.Name, v.login.person)}
	}
	ref := v.login.ref
	if ref == "" {
		ref = printable(v.server.User(), maxName)
	}
	p, target, recorded, err := v.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	return v.connect(ctx, p, target, recorded)
}

// connect connects with a place. Writing it down and connecting take their time side by side.
func (v *visit) connect(ctx context.Context, p Place, target Target, recorded bool) (*entrance, error) {
	type connected struct {
		conn     ssh.Conn
		channels <-chan ssh.NewChannel
		requests <-chan *ssh.Request
		err      error
	}
	dialed := make(chan connected, 1)
	go func() {
		var c connected
		c.conn, c.channels, c.requests, c.err = v.dial(ctx, p, target)
		dialed <- c
	}()
	e, err := v.begin(ctx, p, "", recorded)
	c := <-dialed
	if err != nil {
		if c.err == nil {
			_ = c.conn.Close()
		}
		return nil, err
	}
	e.target = target
	if c.err != nil {
		v.g.Log.WarnContext(ctx, "cannot reach a place", "project", p.Project, "place", p.Name, "error", c.err)
		v.record(ctx, e, "it did not answer")
		return nil, &Refusal{Text: p.Name + " does not answer", Hint: "`muster describe " + p.ref() + "` shows its state"}
	}
	e.inside, e.close = c.conn, func() { _ = c.conn.Close() }
	if !v.join(e) {
		e.close()
		v.record(ctx, e, v.outcome(""))
		return nil, &Refusal{Text: v.outcome("")}
	}
	v.mu.Lock()
	v.head = e
	v.mu.Unlock()
	go ssh.DiscardRequests(c.requests)
	go func() { // nothing begins at that side: no agents, no X11, no ports of the client's
		for opened := range c.channels {
			_ = opened.Reject(ssh.Prohibited, "muster's gateway does not carry this")
		}
	}()
	go keepAlive(ctx, c.conn, v.g.Limits.KeepAlive)
	go func() {
		_ = c.conn.Wait()
		v.leave(ctx, e, v.outcome("closed by "+p.Name))
	}()
	return e, nil
}

// dial connects with a place's sshd as the person, with a key made for this and a certificate signed for minutes.
func (v *visit) dial(ctx context.Context, p Place, target Target) (ssh.Conn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	signer, err := v.certified(target.Account)
	if err != nil {
		return nil, nil, nil, err
	}
	plain, err := target.Dial(ctx, "")
	if err != nil {
		return nil, nil, nil, err
	}
	algorithms := target.HostKeyAlgorithms
	if algorithms == nil {
		algorithms = []string{ssh.CertAlgoED25519v01}
	}
	deadline, _ := ctx.Deadline()
	_ = plain.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = plain.Close() })
	conn, channels, requests, err := ssh.NewClientConn(plain, net.JoinHostPort(p.Name, "22"), &ssh.ClientConfig{
		Config: ssh.Config{
			KeyExchanges: []string{ssh.KeyExchangeMLKEM768X25519, ssh.KeyExchangeCurve25519, ssh.KeyExchangeECDHP256},
			Ciphers:      []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM, ssh.CipherChaCha20Poly1305, ssh.CipherAES256CTR},
			MACs:         []string{ssh.HMACSHA256ETM, ssh.HMACSHA512ETM},
		},
		User: target.Account, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: target.HostKey, HostKeyAlgorithms: algorithms,
		ClientVersion: "SSH-2.0-Muster",
	})
	stop()
	if err != nil {
		_ = plain.Close()
		return nil, nil, nil, fmt.Errorf("log in to %s: %w", p.ref(), err)
	}
	return conn, channels, requests, plain.SetDeadline(time.Time{})
}

// certified is a new key with a certificate for an account.
func (v *visit) certified(account string) (ssh.Signer, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, err
	}
	text, err := v.g.Authority.CertifyUser(string(ssh.MarshalAuthorizedKey(signer.PublicKey())), v.who.caller.Name, account, time.Now(), certificateLife)
	if err != nil {
		return nil, err
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		return nil, err
	}
	return ssh.NewCertSigner(public.(*ssh.Certificate), signer)
}
