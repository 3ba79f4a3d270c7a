package api

import (
	"context"
	"crypto/rsa"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"golang.org/x/crypto/ssh"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/kinds/person"
	"muster/internal/kit/pipes"
	"muster/internal/kit/publickey"
	"muster/internal/protocol"
)

// certificateLife is how long a user's SSH certificate opens a cluster: long enough to connect, too short to leak.
const certificateLife = 5 * time.Minute

// mostKeys is how many keys one person may register.
const mostKeys = 100

func (a *API) listKeys(ctx context.Context, in *apiv1.Page) (*output[apiv1.List[apiv1.Key]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Key]) error {
		keys, err := person.Keys(ctx, tx, identityOf(ctx))
		*out = pagedAs(*in, keys, func(k person.Key) string { return inOrder(k.CreatedAt) + k.Fingerprint },
			func(k person.Key) apiv1.Key {
				return apiv1.Key{Fingerprint: k.Fingerprint, Line: k.Line, CreatedAt: k.CreatedAt}
			})
		return err
	})
}

func (a *API) addKey(ctx context.Context, in *apiv1.AddKeyInput) (*output[apiv1.Key], error) {
	key, comment, wrong := publickey.Parse(in.Body.Line)
	if wrong != nil {
		return nil, invalid("line: "+wrong.Text, wrong.Hint)
	}
	if why := weak(key); why != "" {
		return nil, invalid("line: "+why, "make one with `ssh-keygen -t ed25519`")
	}
	if p := proven(key, identityOf(ctx), in.Body.Proof); p != nil {
		return nil, p
	}
	line := strings.TrimSpace(strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + " " + comment)
	out := &output[apiv1.Key]{Body: apiv1.Key{Fingerprint: ssh.FingerprintSHA256(key), Line: line}}
	err := a.DB.Update(ctx, func(tx *core.Tx) (err error) {
		if out.Body.CreatedAt, err = tx.Now(ctx); err != nil {
			return err
		}
		keys, err := person.Keys(ctx, tx, identityOf(ctx))
		if err != nil {
			return err
		}
		if len(keys) >= mostKeys { // every node of every cluster of theirs is told of each
			return conflict(fmt.Sprintf("you have %d SSH keys, the most that one person may have", len(keys)),
				"`muster keys list` shows them, `muster keys delete` forgets one")
		}
		return person.AddKey(ctx, tx, person.Key{Person: identityOf(ctx), Fingerprint: out.Body.Fingerprint, Line: line})
	})
	if err == nil {
		out.Body.Unapplied, err = a.unapplied(ctx, "", identityOf(ctx))
	}
	return out, err
}

// rsaBits is the least length of an RSA key that is thought to last until 2030 (NIST SP 800-57).
const rsaBits = 3072

// weak says why a key is not accepted; "" if it is.
func weak(key ssh.PublicKey) string {
	switch key.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoSKECDSA256:
		return ""
	case ssh.KeyAlgoRSA:
		if public, ok := key.(ssh.CryptoPublicKey).CryptoPublicKey().(*rsa.PublicKey); ok {
			if bits := public.N.BitLen(); bits < rsaBits {
				return fmt.Sprintf("an RSA key needs %d bits, this one has %d", rsaBits, bits)
			}
			return ""
		}
	}
	return "keys of type " + key.Type() + " are not accepted"
}

func (a *API) deleteKey(ctx context.Context, in *apiv1.DeleteKeyInput) (*output[apiv1.Nothing], error) {
	err := a.DB.Update(ctx, func(tx *core.Tx) error {
		return person.RemoveKey(ctx, tx, identityOf(ctx), in.Fingerprint)
	})
	return nil, err
}

// admitting is a cluster that lets the caller in, with the node of this name, or its head; of no ID if there is none.
func (a *API) admitting(ctx context.Context, ref, name string) (c cluster.Cluster, found node.Node, err error) {
	err = a.DB.View(ctx, func(tx *core.Tx) (err error) {
		if c, err = a.find(ctx, tx, ref); err != nil {
			return err
		}
		if !c.Admits(identityOf(ctx)) {
			return forbidden(fmt.Sprintf("cluster %s admits only some members of its project", c.Name),
				"its file lists them under access.users")
		}
		nodes, err := node.Of(ctx, tx, c.ID)
		for _, n := range nodes {
			if n.Name == name || name == "" && n.Role == protocol.Head {
				found = n
			}
		}
		return err
	})
	return c, found, err
}

// noNode says that a cluster has no such node.
func noNode(c cluster.Cluster, name string) *apiv1.Problem {
	return notFound(fmt.Sprintf("cluster %s has no node %q", c.Name, name), "`muster describe "+c.Name+"` lists its nodes")
}

// reachable is the node behind a name, with its cluster, if one can log in there now.
func (a *API) reachable(ctx context.Context, ref, name string) (cluster.Cluster, node.Node, error) {
	c, found, err := a.admitting(ctx, ref, name)
	switch {
	case err != nil:
	case c.Phase == cluster.Paused:
		err = conflict(fmt.Sprintf("cluster %s is paused since %s", c.Name, c.PhaseAt.Format("2006-01-02 15:04 MST")),
			"`muster resume "+c.Name+" --wait` brings it back")
	case found.ID == "" && name != "":
		err = noNode(c, name)
	case found.ID == "" || found.Phase != core.Ready && found.Phase != node.Draining:
		err = notNow(c)
	}
	return c, found, err
}

// notNow says that a cluster accepts no logins now.
func notNow(c cluster.Cluster) *apiv1.Problem {
	return conflict(fmt.Sprintf("cluster %s does not accept logins now: %s", c.Name, c.Stands()),
		"`muster events -w "+c.Name+"` shows its progress")
}

func (a *API) certify(ctx context.Context, in *apiv1.CertifyInput) (*output[apiv1.Certificate], error) {
	_, head, err := a.reachable(ctx, in.Cluster, "")
	if err != nil {
		return nil, err
	}
	text, err := a.Authority.CertifyUser(in.Body.PublicKey, identityOf(ctx), identityOf(ctx), time.Now(), certificateLife)
	if err != nil {
		return nil, invalid("public_key: "+err.Error(), "")
	}
	return &output[apiv1.Certificate]{Body: apiv1.Certificate{Certificate: text, Account: identityOf(ctx),
		HostCA: a.Authority.HostCA(), Head: head.Name}}, nil
}

func (a *API) tunnel(ctx context.Context, in *apiv1.TunnelInput) (*huma.StreamResponse, error) {
	if in.Upgrade != apiv1.TunnelProtocol {
		return nil, problem(http.StatusUpgradeRequired, "this path only upgrades connections",
			"send Connection: Upgrade and Upgrade: "+apiv1.TunnelProtocol)
	}
	c, node, err := a.reachable(ctx, in.Cluster, in.Node)
	if err != nil {
		return nil, err
	}
	const sshPort = 22
	inside, err := a.Dialer.Dial(ctx, c.ID, netip.AddrPortFrom(substrate.Address(node.Slot).Addr(), sshPort))
	if err != nil {
		a.Log.WarnContext(ctx, "cannot reach a node", "cluster", c.Name, "node", node.Name, "error", err)
		return nil, problem(http.StatusServiceUnavailable,
			fmt.Sprintf("node %s of cluster %s does not answer", node.Name, c.Name), "`muster describe "+c.Name+
				"` shows its state")
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer func() { _ = inside.Close() }()
		defer a.streams(ctx, hctx.Operation().OperationID)()
		askedOf(ctx).status = http.StatusSwitchingProtocols
		within, cancel := a.lasting(ctx, c.ID, stillEnters(ctx, c.ID))
		defer cancel()
		a.audit(hctx, callerOf(ctx)) // now: the session may last for days
		_, w := humago.Unwrap(hctx)
		if err := relay(within, w, inside); err != nil {
			a.Log.InfoContext(ctx, "a tunnel ended", "cluster", c.Name, "node", node.Name, "error", err)
		}
	}}, nil
}

// stillEnters says whether somebody may go on being in a cluster.
func stillEnters(ctx context.Context, id string) func(*core.Tx, access.Caller) (bool, error) {
	return func(tx *core.Tx, now access.Caller) (bool, error) {
		c, err := cluster.Get(ctx, tx, id)
		return now.May(access.Enter, c.Project) && c.Admits(now.Name), err
	}
}

// relay takes the client's connection over and joins it with one inside until both directions have ended, or ctx.
func relay(ctx context.Context, w http.ResponseWriter, inside io.ReadWriteCloser) error {
	outside, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("take over the connection: %w", err)
	}
	defer func() { _ = outside.Close() }()
	if err := outside.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(outside, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		apiv1.TunnelProtocol); err != nil {
		return err
	}
	return pipes.Join(ctx, taken{outside, buffered.Reader}, inside)
}

// taken is a connection that was taken over; its first bytes may have been read already.
type taken struct {
	net.Conn
	read io.Reader
}

func (t taken) Read(p []byte) (int, error) { return t.read.Read(p) }

// CloseWrite says that this was all, where the connection can; else the client hears it when both directions have ended.
func (t taken) CloseWrite() error {
	if half, can := t.Conn.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return nil
}
