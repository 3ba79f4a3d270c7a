package noded

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/protocol"
)

// fakeController speaks the controller's side of the protocol, with authorities of its own, for tests.
type fakeController struct {
	patience  time.Duration // of a test that needs more; 0: as all
	authority string        // PEM
	ca        *x509.Certificate
	caKey     *ecdsa.PrivateKey
	hostCA    ssh.Signer
	life      time.Duration // of nodes' certificates

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	tokens  map[string]string
	configs map[string]*protocol.Config
	reports map[string]protocol.Report
	joins   map[string]int // by node
	count   map[string]int // reports by node
	wanted  map[string]protocol.Hosting
	hosted  map[string]protocol.HostReport
	stale   map[string]bool
	every   time.Duration
	outputs map[string][]byte // of tasks
	pieces  int
	told    protocol.JobsTold // all jobs that have ended, and those that are there
}

func newFakeController(t testing.TB) *fakeController {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	ca, err := x509.ParseCertificate(der)
	must(t, err)
	_, hostKey, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	hostCA, err := ssh.NewSignerFromKey(hostKey)
	must(t, err)
	return &fakeController{
		authority: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), ca: ca, caKey: key, hostCA: hostCA,
		life: time.Hour, changed: make(chan struct{}), tokens: map[string]string{}, configs: map[string]*protocol.Config{},
		reports: map[string]protocol.Report{}, joins: map[string]int{}, count: map[string]int{},
		wanted: map[string]protocol.Hosting{}, hosted: map[string]protocol.HostReport{}, stale: map[string]bool{},
		outputs: map[string][]byte{},
		told:    protocol.JobsTold{Until: time.Now().Add(-time.Hour), Current: &protocol.CurrentJobs{}},
	}
}

// listen serves on a unix socket until the test ends.
func (f *fakeController) listen(t testing.TB, socket string) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	must(t, err)
	f.serve(t, listener)
}

func (f *fakeController) serve(t testing.TB, listener net.Listener) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := f.sign(&x509.Certificate{DNSNames: []string{controllerName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, &key.PublicKey, time.Hour)
	must(t, err)
	clients := x509.NewCertPool()
	clients.AddCert(f.ca)
	server := &http.Server{Handler: f.routes(), ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
}

func (f *fakeController) sign(template *x509.Certificate, key any, life time.Duration) ([]byte, error) {
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(life)
	return x509.CreateCertificate(rand.Reader, template, f.ca, key, f.caKey)
}

func (f *fakeController) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /agent/v1/join", f.join)
	mux.HandleFunc("GET /agent/v1/config", f.config)
	mux.HandleFunc("POST /agent/v1/report", f.report)
	mux.HandleFunc("POST "+protocol.TaskPath, f.output)
	mux.HandleFunc("POST "+protocol.JobsPath, f.jobs)
	mux.HandleFunc("GET "+protocol.HostingPath, f.hosting)
	mux.HandleFunc("POST "+protocol.HostedPath, f.host)
	return mux
}

func (f *fakeController) join(w http.ResponseWriter, r *http.Request) {
	var q protocol.JoinRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	allowed := !f.stale[q.Node] && (q.Token != "" && q.Token == f.tokens[q.Node] || q.Token == "" && peer(r) == q.Node)
	f.mu.Unlock()
	reply, err := f.certify(q)
	switch {
	case !allowed:
		http.Error(w, "stale token", http.StatusForbidden)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	f.joins[q.Node]++
	reply.Token = f.tokens[q.Node]
	f.mu.Unlock()
	f.bell()
	_ = json.NewEncoder(w).Encode(reply)
}

func (f *fakeController) certify(q protocol.JoinRequest) (protocol.JoinReply, error) {
	block, _ := pem.Decode([]byte(q.CSR))
	if block == nil {
		return protocol.JoinReply{}, errors.New("no CSR")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return protocol.JoinReply{}, err
	}
	der, err := f.sign(&x509.Certificate{Subject: pkix.Name{CommonName: q.Node, SerialNumber: strconv.FormatInt(q.Boot, 10)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, request.PublicKey, f.life)
	if err != nil {
		return protocol.JoinReply{}, err
	}
	hostKey, _, _, _, err := ssh.ParseAuthorizedKey([]byte(q.HostKey))
	if err != nil {
		return protocol.JoinReply{}, err
	}
	certificate := &ssh.Certificate{Key: hostKey, CertType: ssh.HostCert, KeyId: q.Node,
		ValidPrincipals: []string{q.Node, "head", "n1", "n2", "n3"}, ValidBefore: ssh.CertTimeInfinity}
	if err := certificate.SignCert(rand.Reader, f.hostCA); err != nil {
		return protocol.JoinReply{}, err
	}
	return protocol.JoinReply{
		Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), NotAfter: time.Now().Add(f.life),
		HostCertificate: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(certificate))), Authority: f.authority,
	}, nil
}

func peer(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return ""
	}
	return r.TLS.PeerCertificates[0].Subject.CommonName
}

// hosting answers with what a hypervisor is to hold, or at the next change with nothing new.
func (f *fakeController) hosting(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	wanted, changed, stale := f.wanted[peer(r)], f.changed, f.stale[peer(r)]
	f.mu.Unlock()
	switch {
	case stale:
		w.WriteHeader(http.StatusGone)
	case strconv.FormatInt(wanted.Revision, 10) != r.URL.Query().Get("after"):
		_ = json.NewEncoder(w).Encode(wanted)
	default:
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func (f *fakeController) host(w http.ResponseWriter, r *http.Request) {
	var report protocol.HostReport
	if err := json.NewDecoder(r.Body).Decode(&report); err != nil || peer(r) == "" {
		http.Error(w, "bad report", http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	f.hosted[peer(r)] = report
	reply := protocol.ReportReply{Every: time.Second, Revision: f.wanted[peer(r)].Revision}
	f.mu.Unlock()
	f.bell()
	_ = json.NewEncoder(w).Encode(reply)
}

func (f *fakeController) config(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	limit := time.After(25 * time.Second)
	for {
		f.mu.Lock()
		config, changed, stale := f.configs[peer(r)], f.changed, f.stale[peer(r)]
		f.mu.Unlock()
		if stale {
			w.WriteHeader(http.StatusGone)
			return
		}
		if peer(r) == "" {
			http.Error(w, "no certificate", http.StatusUnauthorized)
			return
		}
		if config != nil && config.Revision > after {
			_ = json.NewEncoder(w).Encode(config)
			return
		}
		select {
		case <-changed:
		case <-limit:
			w.WriteHeader(http.StatusNoContent)
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (f *fakeController) report(w http.ResponseWriter, r *http.Request) {
	var report protocol.Report
	if err := json.NewDecoder(r.Body).Decode(&report); err != nil || peer(r) == "" {
		http.Error(w, "bad report", http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	if f.stale[peer(r)] {
		f.mu.Unlock()
		w.WriteHeader(http.StatusGone)
		return
	}
	f.reports[peer(r)] = report
	f.count[peer(r)]++
	reply := protocol.ReportReply{Every: f.every}
	if c := f.configs[peer(r)]; c != nil {
		reply.Revision = c.Revision
	}
	f.mu.Unlock()
	f.bell()
	_ = json.NewEncoder(w).Encode(reply)
}

// output keeps what a task has written, and forgets to answer about every third piece.
func (f *fakeController) output(w http.ResponseWriter, r *http.Request) {
	var piece protocol.TaskOutput
	if err := json.NewDecoder(r.Body).Decode(&piece); err != nil || peer(r) == "" {
		http.Error(w, "bad output", http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := f.outputs[piece.ID]
	if piece.Start == int64(len(kept)) {
		f.outputs[piece.ID] = append(kept, piece.Bytes...)
	}
	if f.pieces++; f.pieces%3 == 0 {
		http.Error(w, "the answer is lost", http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(protocol.TaskKept{Bytes: int64(len(f.outputs[piece.ID]))})
}

// jobs keeps what heads tell of jobs.
func (f *fakeController) jobs(w http.ResponseWriter, r *http.Request) {
	var told protocol.JobsTold
	if err := json.NewDecoder(r.Body).Decode(&told); err != nil || peer(r) == "" {
		http.Error(w, "bad jobs", http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	if told.Until.After(f.told.Until) {
		f.told.Until = told.Until
	}
	if told.Current != nil {
		f.told.Current = told.Current
	}
	f.told.Ended = append(f.told.Ended, told.Ended...)
	kept := protocol.JobsKept{Since: f.told.Until}
	f.mu.Unlock()
	f.bell()
	_ = json.NewEncoder(w).Encode(kept)
}

// last is the node's last report.
func (f *fakeController) last(node string) protocol.Report {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reports[node]
}

// set gives a node its configuration.
func (f *fakeController) set(node string, config protocol.Config) {
	f.mu.Lock()
	f.configs[node] = &config
	f.mu.Unlock()
	f.bell()
}

func (f *fakeController) bell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.changed)
	f.changed = make(chan struct{})
}

// patience is how long a test waits for what is to happen. Only a failure takes so long, and it ends before all of the package's
// tests do.
const patience = 2 * time.Minute

// until waits until what was reported is as the test wants it.
func (f *fakeController) until(t testing.TB, what string, so func() bool) {
	t.Helper()
	most := cmp.Or(f.patience, patience)
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	for {
		f.mu.Lock()
		ok, changed := so(), f.changed
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			f.mu.Lock()
			defer f.mu.Unlock()
			last, _ := json.MarshalIndent(f.reports, "", " ")
			t.Fatalf("after %v not yet: %s\nlast reports: %s", most, what, last)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
