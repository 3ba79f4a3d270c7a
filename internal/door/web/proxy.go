package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/netip"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/kit/printable"
)

// Limits of what an app may take its time for. Bodies take as long as they take.
const (
	dialWithin   = 5 * time.Second
	answerWithin = 2 * time.Minute // to the answer's first byte, once the request is sent
	mostHeaders  = 64 << 10
	mostLogged   = 300 // bytes of an error, which holds what the app said
)

func (d *Door) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:      rewrite,
		ErrorHandler: d.failed,
		ErrorLog:     slog.NewLogLogger(d.Log.Handler(), slog.LevelDebug), // apps and browsers that go away in the middle
		Transport: cleaning{&http.Transport{
			DialContext: d.dial, DisableCompression: true, MaxIdleConns: 512, MaxIdleConnsPerHost: 16,
			IdleConnTimeout: 30 * time.Second, ResponseHeaderTimeout: answerWithin, MaxResponseHeaderBytes: mostHeaders,
			WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10,
		}},
	}
}

// cleaning cleans all headers of an app's answer: those of informational answers before it (103), its own, and its trailers.
type cleaning struct{ apps http.RoundTripper }

func (c cleaning) RoundTrip(r *http.Request) (*http.Response, error) {
	// This hook is called before the proxy's, which passes the same header on.
	trace := &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
		cleanAnswer(http.Header(h))
		return nil
	}}
	answer, err := c.apps.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err != nil {
		return nil, err
	}
	cleanAnswer(answer.Header)
	if answer.StatusCode != http.StatusSwitchingProtocols { // whose body is the connection
		answer.Body = trailed{answer.Body, answer}
	}
	return answer, nil
}

// trailed is a body that is followed by trailers, which the transport has read when the body ends.
type trailed struct {
	io.ReadCloser
	answer *http.Response
}

func (t trailed) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err == io.EOF {
		cleanAnswer(t.answer.Trailer)
	}
	return n, err
}

// rewrite makes the request that the app gets. Path and query are the browser's, to the byte.
func rewrite(p *httputil.ProxyRequest) {
	v := visitOf(p.In.Context())
	p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.RawQuery = "http", v.peer(), p.In.URL.RawQuery
	p.Out.Trailer = nil
	cleanRequest(p.Out.Header)
	p.SetXForwarded()
	p.Out.Header.Set("X-Muster-User", v.who.Name)
}

// cleanRequest takes out what is ours and not the app's business, and what only we may say.
func cleanRequest(h http.Header) {
	for name := range h {
		// Many apps see no difference between - and _.
		plain := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if strings.HasPrefix(plain, "x-forwarded-") || strings.HasPrefix(plain, "x-muster-") || plain == "forwarded" ||
			plain == "x-real-ip" {
			delete(h, name)
		}
	}
	if scheme, token, _ := strings.Cut(h.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") &&
		strings.HasPrefix(strings.TrimSpace(token), "muster_") {
		h.Del("Authorization") // one of the API's, sent to the wrong place
	}
	var lines []string
	for _, line := range h.Values("Cookie") {
		var kept []string
		for part := range strings.SplitSeq(line, ";") {
			if name, _, _ := strings.Cut(part, "="); strings.TrimSpace(name) != cookieName {
				kept = append(kept, part)
			}
		}
		if left := strings.TrimSpace(strings.Join(kept, ";")); left != "" {
			lines = append(lines, left)
		}
	}
	h.Del("Cookie")
	if len(lines) > 0 {
		h["Cookie"] = lines
	}
}

// cleanAnswer keeps an app to its own host: its cookies are for no other app, none is named as ours, and it neither clears
// those of the whole site nor sends browsers elsewhere. Its service workers do not see our own paths.
func cleanAnswer(h http.Header) {
	h.Del("Service-Worker-Allowed")
	h.Del("Clear-Site-Data")
	h.Del("Alt-Svc")
	cookies := h.Values("Set-Cookie")
	h.Del("Set-Cookie")
	for _, line := range cookies {
		parts := strings.Split(line, ";")
		if name, _, _ := strings.Cut(strings.TrimLeft(parts[0], "= \t"), "="); strings.EqualFold(strings.TrimSpace(name),
			cookieName) {
			continue
		}
		kept := parts[:1]
		for _, part := range parts[1:] {
			if attribute, _, _ := strings.Cut(part, "="); !strings.EqualFold(strings.TrimSpace(attribute), "Domain") {
				kept = append(kept, part)
			}
		}
		h.Add("Set-Cookie", strings.Join(kept, ";"))
	}
}

// peer names what a request is sent to. All clusters use the same addresses, and connections are kept for the next request
// by this name: so it names the cluster, the node and the boot.
func (v *visit) peer() string {
	return net.JoinHostPort(fmt.Sprintf("%s.%d.%d", v.cluster.ID, v.node.Slot, v.node.Boot), strconv.Itoa(v.app.Port))
}

// dial opens a connection to a peer.
func (d *Door) dial(ctx context.Context, _, peer string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(peer)
	if err != nil {
		return nil, err
	}
	words := strings.Split(host, ".")
	if len(words) != 3 {
		return nil, fmt.Errorf("%q is no node of a cluster", host)
	}
	slot, err := strconv.Atoi(words[1])
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	return d.Dialer.Dial(ctx, words[0], netip.AddrPortFrom(substrate.Address(slot).Addr(), uint16(port)))
}

// failed answers for an app that did not.
func (d *Door) failed(w http.ResponseWriter, r *http.Request, err error) {
	v := visitOf(r.Context())
	var lost refusal
	var slow net.Error
	switch {
	case errors.As(context.Cause(r.Context()), &lost):
		lost.write(w, r)
	case r.Context().Err() != nil: // the browser has gone
	case errors.Is(err, syscall.ECONNREFUSED):
		nothingListens(v).write(w, r)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) &&
		slow.Timeout():
		tooSlow(v).write(w, r)
	default:
		if say, omitted := d.lines.Say(r.RemoteAddr, time.Now()); say {
			d.Log.InfoContext(r.Context(), "a web app does not answer", "cluster", v.cluster.Name, "app", v.app.Name, "error",
				printable.Within(err.Error(), mostLogged), "omitted", omitted)
		}
		brokenApp(v).write(w, r)
	}
}
