package noded

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// ErrRefused is why an agent ends: the controller says that this boot is not the node's own any more.
var ErrRefused = errors.New("refused by the controller: this boot has been superseded")

const (
	dialTimeout   = 2 * time.Second  // connection and TLS: a stopped replica accepts and hangs
	answerTimeout = 3 * time.Second  // for everything but the long poll: a replica that stopped keeps its connections
	pollTimeout   = 40 * time.Second // the controller answers after about 25 s
	answerLimit   = 16 << 20         // bytes

	joinPath = "/agent/v1/join"
)

// client is the controller as seen over the network. It speaks to one replica until that fails, then to the next.
type client struct {
	endpoints []string // of the boot file

	mu      sync.Mutex
	tls     *tls.Config
	current *replica // nil: none has worked yet, or the last one failed
}

// replica is one controller that worked. Its context ends when it fails, which ends the long poll that waits for it.
type replica struct {
	network string // unix or tcp
	address string // a socket's path, or host:port
	http    *http.Client
	ctx     context.Context
	fail    context.CancelCauseFunc
}

func newClient(endpoints []string, config *tls.Config) *client {
	return &client{endpoints: endpoints, tls: config}
}

// Join asks for a certificate; ErrRefused if this boot may not have one.
func (c *client) Join(ctx context.Context, q protocol.JoinRequest) (protocol.JoinReply, error) {
	var reply protocol.JoinReply
	status, err := c.call(ctx, answerTimeout, http.MethodPost, joinPath, q, &reply)
	if status == http.StatusForbidden {
		return reply, fmt.Errorf("join: %w", ErrRefused)
	}
	if err != nil {
		return reply, fmt.Errorf("join: %w", err)
	}
	c.renew()
	return reply, nil
}

// Config waits for a configuration with a revision above after; nil if there was none for a while.
func (c *client) Config(ctx context.Context, after int64) (*protocol.Config, error) {
	return newer[protocol.Config](ctx, c, "/agent/v1/config", after, "get configuration")
}

// Report delivers a report.
func (c *client) Report(ctx context.Context, r protocol.Report) (protocol.ReportReply, error) {
	return ask[protocol.ReportReply](ctx, c, answerTimeout, http.MethodPost, "/agent/v1/report", r, "report")
}

// Output delivers the next piece of what a task has written.
func (c *client) Output(ctx context.Context, piece protocol.TaskOutput) (protocol.TaskKept, error) {
	return ask[protocol.TaskKept](ctx, c, answerTimeout, http.MethodPost, protocol.TaskPath, piece, "deliver output")
}

// Jobs tells of a head's jobs.
func (c *client) Jobs(ctx context.Context, jobs protocol.JobsTold) (protocol.JobsKept, error) {
	return ask[protocol.JobsKept](ctx, c, answerTimeout, http.MethodPost, protocol.JobsPath, jobs, "tell of jobs")
}

// Mail delivers a head's letters.
func (c *client) Mail(ctx context.Context, letters protocol.Letters) (protocol.Posted, error) {
	return ask[protocol.Posted](ctx, c, pollTimeout, http.MethodPost, protocol.MailPath, letters, "deliver letters")
}

// Inspection asks what the inspection of this machine is to do.
func (c *client) Inspection(ctx context.Context) (protocol.Inspection, error) {
	return ask[protocol.Inspection](ctx, c, answerTimeout, http.MethodGet, "/agent/v1/inspection", nil, "get inspection")
}

// Findings delivers how far the inspection is, or what it found.
func (c *client) Findings(ctx context.Context, f protocol.Findings) error {
	_, err := ask[json.RawMessage](ctx, c, answerTimeout, http.MethodPost, "/agent/v1/findings", f, "deliver findings")
	return err
}

// Hosting waits for a Hosting with a revision above after; nil if there was none for a while.
func (c *client) Hosting(ctx context.Context, after int64) (*protocol.Hosting, error) {
	return newer[protocol.Hosting](ctx, c, protocol.HostingPath, after, "ask which guests are wanted")
}

// Hosted delivers a hypervisor's report.
func (c *client) Hosted(ctx context.Context, r protocol.HostReport) (protocol.ReportReply, error) {
	return ask[protocol.ReportReply](ctx, c, answerTimeout, http.MethodPost, protocol.HostedPath, r, "report guests")
}

// ask makes a call; what it is for stands before its error.
func ask[T any](ctx context.Context, c *client, within time.Duration, method, path string, in any, what string) (T, error) {
	var answer T
	_, err := c.call(ctx, within, method, path, in, &answer)
	return answer, wrap.Errorf(err, "%s", what)
}

// newer waits for an answer with a revision above after; nil if there was none for a while.
func newer[T any](ctx context.Context, c *client, path string, after int64, what string) (*T, error) {
	var answer T
	status, err := c.call(ctx, pollTimeout, http.MethodGet, path+"?after="+strconv.FormatInt(after, 10), nil, &answer)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	case status == http.StatusNoContent:
		return nil, nil
	}
	return &answer, nil
}

// call asks the replica that worked last; if there is none, all in turn until one answers. Whatever a replica answers
// is final, except that it is in trouble itself (5xx).
func (c *client) call(ctx context.Context, timeout time.Duration, method, path string, in, out any) (int, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	tried := map[string]bool{}
	var failed error
	for _, r := range c.candidates() {
		if tried[r.address] {
			continue
		}
		tried[r.address] = true
		status, err := r.do(ctx, timeout, method, path, body, out)
		if err == nil || (status != 0 && status < http.StatusInternalServerError) {
			c.keep(r)
			return status, err
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		c.drop(r, err)
		failed = errors.Join(failed, fmt.Errorf("%s: %w", filepath.Base(r.address), err))
	}
	if failed == nil {
		failed = fmt.Errorf("no controller at %s", strings.Join(c.endpoints, ", "))
	}
	return 0, failed
}

func (r *replica) do(ctx context.Context, timeout time.Duration, method, path string, body []byte, out any) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer for %v", timeout))
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	request, err := http.NewRequestWithContext(ctx, method, "https://"+controllerName+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Close = path == joinPath // the next call shows the certificate, which takes a new connection
	response, err := r.http.Do(request)
	if err != nil {
		if detail, is := errors.AsType[*url.Error](err); is {
			err = detail.Err // the URL around it says nothing
		}
		return 0, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err != nil {
		return 0, err
	}
	switch {
	case response.StatusCode == http.StatusNoContent:
		return response.StatusCode, nil
	case response.StatusCode == http.StatusGone:
		return response.StatusCode, ErrRefused
	case response.StatusCode != http.StatusOK:
		return response.StatusCode, fmt.Errorf("%s: %.200s", response.Status, strings.TrimSpace(string(answer)))
	}
	return response.StatusCode, json.Unmarshal(answer, out)
}

// candidates are the replica that worked, then all there are now: sockets come and go with the controllers.
func (c *client) candidates() []*replica {
	var all []*replica
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		all = append(all, c.current)
	}
	for _, endpoint := range c.endpoints {
		u, err := url.Parse(endpoint)
		if err != nil {
			continue
		}
		if u.Scheme != "unix" {
			all = append(all, c.replica("tcp", u.Host))
			continue
		}
		sockets, _ := filepath.Glob(filepath.Join(u.Path, "*.sock")) // fails for a bad pattern only
		for _, socket := range sockets {
			all = append(all, c.replica("unix", socket))
		}
	}
	return all
}

// replica is called under the lock.
func (c *client) replica(network, address string) *replica {
	dialer := &net.Dialer{Timeout: dialTimeout}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address)
	}
	ctx, fail := context.WithCancelCause(context.Background())
	return &replica{network: network, address: address, ctx: ctx, fail: fail, http: &http.Client{Transport: &http.Transport{
		DialContext:         dial,
		TLSClientConfig:     c.tls,
		TLSHandshakeTimeout: dialTimeout,
		MaxIdleConnsPerHost: 2,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
	}}}
}

func (c *client) keep(r *replica) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil && r.ctx.Err() == nil {
		c.current = r
	} else if c.current != r {
		r.http.CloseIdleConnections()
	}
}

// drop forgets a replica that failed and ends what others still wait for from it.
func (c *client) drop(r *replica, err error) {
	c.mu.Lock()
	if c.current == r {
		c.current = nil
	}
	c.mu.Unlock()
	r.fail(err)
	r.http.CloseIdleConnections()
}

// renew makes the next call open a new connection, which shows the new certificate. A long poll under way ends by itself.
func (c *client) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.current; old != nil {
		c.current = c.replica(old.network, old.address)
		old.http.CloseIdleConnections()
	}
}

// believe makes new connections trust another CA.
func (c *client) believe(config *tls.Config) {
	c.mu.Lock()
	c.tls = config
	c.mu.Unlock()
	c.renew()
}

// Close ends all calls and connections.
func (c *client) Close() {
	c.mu.Lock()
	current := c.current
	c.mu.Unlock()
	if current != nil {
		c.drop(current, net.ErrClosed)
	}
}
