package hosting

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/fake"
	"muster/internal/drivers/substrate/remote"
	"muster/internal/protocol"
)

// fakeHost is a hypervisor's agent, whose guests are those of a fake substrate. It speaks the protocol over mutual TLS.
type fakeHost struct {
	url     string
	client  *http.Client
	fixture *fake.Substrate
	refuse  func(protocol.HostedGuest) string // why it will not have a guest; nil: it has all

	mu    sync.Mutex
	want  protocol.Hosting
	tried map[string]protocol.HostedState // by node: what came of the newest try
	busy  map[string]bool
	seen  []protocol.HostedGuest // every guest that it was ever told of
}

// joinHost makes an agent of a machine's boot and lets it join.
func joinHost(ctx context.Context, url string, boot protocol.BootFile, fixture *fake.Substrate) (*fakeHost, error) {
	return newFakeHost(url, boot, fixture, func(h *fakeHost, csr, key string) (string, error) {
		var reply protocol.JoinReply
		request := protocol.JoinRequest{Node: boot.Node, Boot: boot.Boot, Token: boot.Token, HostKey: key, CSR: csr}
		err := h.call(ctx, http.MethodPost, "/agent/v1/join", request, &reply)
		return reply.Certificate, err
	})
}

// newFakeHost makes an agent with the certificate that it is given for its request, and its host's key.
func newFakeHost(url string, boot protocol.BootFile, fixture *fake.Substrate,
	certify func(h *fakeHost, csr, key string) (string, error)) (*fakeHost, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(boot.Authority))
	var certificate tls.Certificate
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: "muster-controller",
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }}
	h := &fakeHost{url: url, client: &http.Client{Transport: &http.Transport{TLSClientConfig: config}}, fixture: fixture,
		tried: map[string]protocol.HostedState{}, busy: map[string]bool{}}
	csr, err1 := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	key, err2 := ssh.NewPublicKey(public)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	text, err := certify(h, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})),
		string(ssh.MarshalAuthorizedKey(key)))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("the certificate is not PEM")
	}
	certificate = tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: private}
	h.client.CloseIdleConnections() // from now on with the certificate
	return h, nil
}

// call sends and reads JSON.
func (h *fakeHost) call(ctx context.Context, method, path string, send, reply any) error {
	var body io.Reader
	if send != nil {
		text, err := json.Marshal(send)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, h.url+path, body)
	if err != nil {
		return err
	}
	response, err := h.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return &refusal{response.StatusCode, path}
	}
	return json.NewDecoder(response.Body).Decode(reply)
}

type refusal struct {
	status int
	path   string
}

func (r *refusal) Error() string { return fmt.Sprintf("%s: status %d", r.path, r.status) }

// run holds what it is told to until ctx ends or it is told to end.
func (h *fakeHost) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all.Go(func() {
		for ctx.Err() == nil {
			h.mu.Lock()
			after := h.want.Revision
			h.mu.Unlock()
			var news protocol.Hosting
			if err := h.call(ctx, http.MethodGet, fmt.Sprintf("%s?after=%d", protocol.HostingPath, after), nil,
				&news); err != nil {
				time.Sleep(5 * time.Millisecond)
				continue
			}
			h.mu.Lock()
			h.want, h.seen = news, append(h.seen, news.Guests...)
			h.mu.Unlock()
		}
	})
	for ctx.Err() == nil {
		h.reconcile(ctx, &all)
		var reply protocol.ReportReply
		err := h.call(ctx, http.MethodPost, protocol.HostedPath, h.report(ctx), &reply)
		if gone := (*refusal)(nil); errors.As(err, &gone) && gone.status == http.StatusGone {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (h *fakeHost) reconcile(ctx context.Context, all *sync.WaitGroup) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wanted := map[string]bool{}
	for _, n := range h.want.Networks {
		_ = h.fixture.EnsureShared(ctx, n.Cluster, substrate.Network{Segment: n.Segment})
	}
	for _, g := range h.want.Guests {
		wanted[g.Node] = true
		if done := h.tried[g.Node]; h.busy[g.Node] || done.Try == g.Try && done.Boot == g.Boot {
			continue
		}
		h.busy[g.Node] = true
		all.Go(func() { h.make(ctx, g) })
	}
	refs, _ := h.fixture.List(ctx)
	for _, r := range refs {
		if !wanted[r.Node] && !h.busy[r.Node] {
			_ = h.fixture.Remove(ctx, substrate.Ref{Cluster: r.Cluster, Node: r.Node})
			delete(h.tried, r.Node)
		}
	}
}

// make tries one boot once.
func (h *fakeHost) make(ctx context.Context, g protocol.HostedGuest) {
	done := protocol.HostedState{Cluster: g.Cluster, Node: g.Node, Boot: g.Boot, Try: g.Try}
	n, err := remote.Node(g)
	if h.refuse != nil {
		done.Refused = h.refuse(g)
	}
	if err == nil && done.Refused == "" {
		switch g.Do {
		case protocol.DoRun:
			err = h.fixture.Ensure(ctx, n)
		case protocol.DoSleep:
			done.Bytes, err = h.fixture.Sleep(ctx, n.Ref, "")
		case protocol.DoWake:
			err = h.fixture.Wake(ctx, n, "")
		}
	}
	if errors.Is(err, substrate.ErrEnded) {
		done.Gone = err.Error()
	} else if err != nil {
		done.Failed = err.Error()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried[g.Node], h.busy[g.Node] = done, false
}

func (h *fakeHost) report(ctx context.Context) protocol.HostReport {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := protocol.HostReport{Revision: h.want.Revision, Guests: []protocol.HostedState{}, Networks: []string{}}
	present := map[string]bool{}
	refs, _ := h.fixture.List(ctx)
	for _, ref := range refs {
		seen, _ := h.fixture.Observe(ctx, ref)
		s, _ := remote.State(ref, seen)
		if done := h.tried[ref.Node]; done.Boot == s.Boot {
			s.Try, s.Bytes, s.Refused, s.Gone, s.Failed = done.Try, done.Bytes, done.Refused, done.Gone, done.Failed
		}
		if h.busy[ref.Node] {
			s.Doing = "makes it"
		}
		present[ref.Node] = true
		r.Guests = append(r.Guests, s)
	}
	for _, g := range h.want.Guests {
		switch done, tried := h.tried[g.Node]; {
		case present[g.Node]:
		case h.busy[g.Node]:
			r.Guests = append(r.Guests, protocol.HostedState{Cluster: g.Cluster, Node: g.Node, Boot: g.Boot, Try: g.Try - 1,
				Doing: "makes it"})
		case tried:
			r.Guests = append(r.Guests, done)
		}
	}
	return r
}
