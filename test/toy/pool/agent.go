package pool

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
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/drivers/substrate"
	"muster/internal/kit/clock"
	"muster/internal/protocol"
)

// play is a node's agent: it joins, and reports that all is well for as long as the node runs.
func (d Driver) play(ctx context.Context, n substrate.Node) {
	var certificate tls.Certificate
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(n.File.Authority))
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, n.File.Endpoints) },
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: "muster-controller",
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}

	joined, report := false, protocol.Report{Boot: n.Boot, Checks: []protocol.Check{{Name: "pool", OK: true}}}
	for ctx.Err() == nil {
		if seen, _ := d.Observe(ctx, n.Ref); !seen.Running || seen.Boot != n.Boot {
			return
		}
		wait := 50 * time.Millisecond
		if !joined {
			joined = join(ctx, client, n, &certificate) == nil
			transport.CloseIdleConnections() // from now on with the certificate
		} else {
			var reply protocol.ReportReply
			if err := call(ctx, client, "report", report, &reply); err == nil {
				report.Revision, wait = reply.Revision, max(reply.Every, wait)
			}
		}
		if clock.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// dial reaches any controller of this host.
func dial(ctx context.Context, endpoints []string) (net.Conn, error) {
	err := errors.New("no controller has a socket here")
	for _, endpoint := range endpoints {
		all, _ := filepath.Glob(filepath.Join(strings.TrimPrefix(endpoint, "unix://"), "*.sock"))
		for _, path := range all {
			var conn net.Conn
			if conn, err = (&net.Dialer{}).DialContext(ctx, "unix", path); err == nil {
				return conn, nil
			}
		}
	}
	return nil, err
}

// join gets a certificate for the boot's token.
func join(ctx context.Context, client *http.Client, n substrate.Node, certificate *tls.Certificate) error {
	public, private, err1 := ed25519.GenerateKey(rand.Reader)
	csr, err2 := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	key, err3 := ssh.NewPublicKey(public)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	var reply protocol.JoinReply
	err := call(ctx, client, "join", protocol.JoinRequest{
		Node: n.File.Node, Boot: n.File.Boot, Token: n.File.Token, HostKey: string(ssh.MarshalAuthorizedKey(key)),
		CSR: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})),
	}, &reply)
	if err != nil {
		return err
	}
	block, _ := pem.Decode([]byte(reply.Certificate))
	if block == nil {
		return errors.New("the certificate is not PEM")
	}
	*certificate = tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: private}
	return nil
}

// call posts JSON and reads the answer.
func call(ctx context.Context, client *http.Client, what string, send, reply any) error {
	body, err := json.Marshal(send)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://controller/agent/v1/"+what, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return json.NewDecoder(response.Body).Decode(reply)
}
