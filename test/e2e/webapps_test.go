package e2e_test

import (
	"bufio"
	"context"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// app is a web application as users have them: it answers with the headers that it got, with much, or by WebSocket.
const app = `import base64, hashlib, http.server, json
class App(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers.get("Upgrade") == "websocket":
            key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            self.send_response(101)
            for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())):
                self.send_header(name, value)
            self.end_headers()
            while head := self.rfile.read(2):
                mask, text = self.rfile.read(4), self.rfile.read(head[1] & 127)
                text = bytes(c ^ mask[i % 4] for i, c in enumerate(text))
                self.wfile.write(bytes([0x81, len(text)]) + text)
            self.close_connection = True
            return
        body = bytes(64 << 20) if self.path == "/big" else json.dumps(dict(self.headers.items(), path=self.path)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_PUT(self):
        left, sum = int(self.headers["Content-Length"]), hashlib.sha256()
        while left:
            part = self.rfile.read(min(left, 1 << 20)); left -= len(part); sum.update(part)
        body = sum.hexdigest().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("0.0.0.0", 8888), App).serve_forever()
`

// as runs the command line as a person with a token.
func as(r *rig.Rig, c *rig.Controller, token string, args ...string) rig.Result {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, r.Binary, args...)
	command.Env = append(os.Environ(), "MUSTER_URL="+c.URL, "MUSTER_TOKEN="+token)
	var out, errs strings.Builder
	command.Stdout, command.Stderr = &out, &errs
	_ = command.Run() // its exit code tells
	return rig.Result{Out: out.String(), Err: errs.String(), Code: command.ProcessState.ExitCode()}
}

// browser is a client that trusts the site's authority and finds *.localhost on this host.
func browser(r *rig.Rig) (*http.Client, *tls.Config) {
	r.Helper()
	trust := &tls.Config{RootCAs: x509.NewCertPool()}
	if !trust.RootCAs.AppendCertsFromPEM([]byte(r.Run("open", "--ca"))) {
		r.Fatal("muster open --ca prints no certificate")
	}
	jar, _ := cookiejar.New(nil)
	return &http.Client{Jar: jar, Timeout: time.Minute,
		Transport: &http.Transport{TLSClientConfig: trust, DialContext: dialHere}}, trust
}

func dialHere(ctx context.Context, network, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
}

// page is what a browser shows.
func page(r *rig.Rig, b *http.Client, address string) (status int, text string) {
	r.Helper()
	response, err := b.Get(address)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// webSocket opens one as a page of the origin does, and returns it with what its first message was answered with.
func webSocket(r *rig.Rig, b *http.Client, trust *tls.Config, app *url.URL, origin string) (c net.Conn, status int, echo string) {
	r.Helper()
	raw, err := dialHere(context.Background(), "tcp", app.Host)
	if err != nil {
		r.Fatal(err)
	}
	trust = trust.Clone()
	trust.ServerName = app.Hostname()
	c = tls.Client(raw, trust)
	r.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	request, _ := http.NewRequest(http.MethodGet, app.String()+"ws", http.NoBody)
	for name, value := range map[string]string{"Upgrade": "websocket", "Connection": "Upgrade",
		"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13", "Origin": origin} {
		request.Header.Set(name, value)
	}
	for _, cookie := range b.Jar.Cookies(app) {
		request.AddCookie(cookie)
	}
	if err := request.Write(c); err != nil {
		r.Fatal(err)
	}
	reader := bufio.NewReader(c)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		r.Fatal(err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return c, response.StatusCode, ""
	}
	sum := sha1.Sum([]byte("dGhlIHNhbXBsZSBub25jZQ==258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	if response.Header.Get("Sec-WebSocket-Accept") != base64.StdEncoding.EncodeToString(sum[:]) {
		r.Error("the handshake is not the app's:", response.Header)
	}
	const text = "over the door"
	if _, err := c.Write(append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...)); err != nil { // masked with zeros
		r.Fatal(err)
	}
	frame := make([]byte, 2+len(text))
	if _, err := io.ReadFull(reader, frame); err != nil {
		r.Fatal(err)
	}
	return c, response.StatusCode, string(frame[2:])
}

func TestAWebAppIsOpenedByItsTenantAloneAndClosedWithinSeconds(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	r.Flags = []string{"--web", "127.0.0.1:0"}
	controller := r.Start()
	r.Run("machines", "add", "--local", "2", "--wait")
	tokens := map[string]string{}
	for person, project := range map[string]string{"alice": "aero", "mallory": "bio"} {
		r.Run("users", "add", person)
		r.Run("projects", "add", project, "--owner", person)
		tokens[person] = strings.TrimSpace(r.Run("tokens", "add", "laptop", "--person", person))
	}
	file := r.File("cfd.yaml", "name: cfd\nproject: aero\nnodes: 1\naccess: {apps: [{name: app, port: 8888}]}\n")
	if got := as(r, controller, tokens["alice"], "create", "-f", file, "--wait"); got.Code != 0 {
		t.Fatal(got.Err)
	}
	var described struct {
		Apps []struct{ URL string } `json:"apps"`
	}
	r.Get(&described, "get", "aero/cfd")
	address, err := url.Parse(described.Apps[0].URL)
	if err != nil || address.Hostname() != "app--cfd--aero.localhost" {
		t.Fatal(described, err)
	}
	b, trust := browser(r)
	opened := func() string {
		r.Helper()
		got := as(r, controller, tokens["alice"], "open", "cfd")
		if got.Code != 0 {
			r.Fatal(got.Err)
		}
		return strings.TrimSpace(got.Out)
	}

	t.Run("strangers and other tenants stay outside", func(t *testing.T) {
		r := r.In(t)
		if status, text := page(r, b, address.String()); status != http.StatusUnauthorized ||
			!strings.Contains(text, "muster open aero/cfd app") {
			t.Error(status, text)
		}
		if got := as(r, controller, tokens["mallory"], "open", "aero/cfd", "app"); got.Code != 6 {
			t.Error("another tenant:", got)
		}
		if got := r.Muster("open", "aero/cfd", "app"); got.Code == 0 ||
			!strings.Contains(got.Err, "takes a project's owner or member") {
			t.Error("an operator who is no member:", got)
		}
	})
	t.Run("what does not listen yet says so", func(t *testing.T) {
		r := r.In(t)
		if status, text := page(r, b, opened()); status != http.StatusBadGateway ||
			!strings.Contains(text, "Nothing listens on port 8888 of node head") {
			t.Error(status, text)
		}
	})
	start := func(r *rig.Rig) {
		c := exec.Command(r.Binary, "ssh", "cfd", "--", "cat > app.py; (setsid python3 app.py > app.log 2>&1 < /dev/null &)")
		c.Env = append(os.Environ(), "MUSTER_URL="+controller.URL, "MUSTER_TOKEN="+tokens["alice"])
		c.Stdin = strings.NewReader(app)
		if out, err := c.CombinedOutput(); err != nil {
			r.Fatalf("%v\n%s", err, out)
		}
	}
	start(r)
	r.Until("the app answers", func() bool { status, _ := page(r, b, address.String()); return status == http.StatusOK })
	t.Run("the app knows who comes, and no secret of theirs", func(t *testing.T) {
		r := r.In(t)
		_, text := page(r, b, address.String()+"a%2f..//b?c=%7E")
		var seen map[string]string
		if err := json.Unmarshal([]byte(text), &seen); err != nil {
			t.Fatal(err)
		}
		if seen["X-Muster-User"] != "alice" || seen["Cookie"] != "" || seen["X-Forwarded-Proto"] != "https" ||
			seen["Host"] != address.Host || seen["path"] != "/a%2f..//b?c=%7E" {
			t.Error(text)
		}
	})
	t.Run("much goes through", func(t *testing.T) {
		r := r.In(t)
		began := time.Now()
		if _, text := page(r, b, address.String()+"big"); len(text) != 64<<20 {
			t.Error(len(text))
		}
		t.Logf("64 MiB came in %.1f s", time.Since(began).Seconds())
		const size = 64 << 20
		request, _ := http.NewRequest(http.MethodPut, address.String()+"up", io.LimitReader(zeros{}, size))
		request.ContentLength = size
		response, err := b.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		sum, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if want := "3b6a07d0d404fab4e23b6d34bc6696a6a312dd92821332385e5af7c01c421351"; string(sum) != want {
			t.Errorf("%s, want %s", sum, want)
		}
	})
	t.Run("WebSockets are for the app's own pages", func(t *testing.T) {
		r := r.In(t)
		if _, status, _ := webSocket(r, b, trust, address, "https://app--cfd--bio.localhost:"+
			address.Port()); status != http.StatusForbidden {
			t.Error("another app's page:", status)
		}
		if _, status, echo := webSocket(r, b, trust, address,
			strings.TrimSuffix(address.String(), "/")); status != http.StatusSwitchingProtocols || echo != "over the door" {
			t.Error(status, echo)
		}
	})
	t.Run("who leaves the project is outside within seconds", func(t *testing.T) {
		r := r.In(t)
		r.Run("projects", "grant", "aero", "admin", "owner") // the last owner stays
		c, _, _ := webSocket(r, b, trust, address, strings.TrimSuffix(address.String(), "/"))
		began := time.Now()
		r.Run("projects", "revoke", "aero", "alice")
		if rest, err := io.ReadAll(c); len(rest) != 0 || err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("it goes on: %q %v", rest, err)
		}
		t.Logf("a WebSocket ended %.1f s after the command to revoke began", time.Since(began).Seconds())
		if status, _ := page(r, b, address.String()); status != http.StatusForbidden {
			t.Error(status)
		}
		r.Run("projects", "grant", "aero", "alice", "member")
		if status, _ := page(r, b, address.String()); status == http.StatusForbidden {
			t.Error("she is back, and outside")
		}
		// What she ran has ended with her membership, so she starts it again.
		r.Until("her account is open again", func() bool {
			return r.As(tokens["alice"]).Muster("ssh", "aero/cfd", "--", "true").Code == 0
		})
		start(r)
		r.Until("the app answers again", func() bool {
			status, _ := page(r, b, address.String())
			return status == http.StatusOK
		})
	})
	t.Run("the audit log says who opened it", func(t *testing.T) {
		r := r.In(t)
		var log struct {
			Items []struct{ Person, Door, Action, Object string }
		}
		r.Get(&log, "audit", "--project", "aero")
		opened := 0
		for _, e := range log.Items {
			if e.Door == "web" && e.Person == "alice" && e.Action == "open-app" && e.Object == "cfd/app" {
				opened++
			}
		}
		if opened != 1 {
			t.Errorf("%d times: %+v", opened, log)
		}
	})
	t.Run("a paused cluster says so", func(t *testing.T) {
		r := r.In(t)
		r.Run("pause", "aero/cfd", "--wait")
		if status, text := page(r, b, address.String()); status != http.StatusServiceUnavailable ||
			!strings.Contains(text, "Cluster cfd is paused") {
			t.Error(status, text)
		}
		if got := as(r, controller, tokens["alice"], "open", "cfd"); got.Code != 5 {
			t.Error(got)
		}
	})
	r.Run("delete", "aero/cfd", "--wait")
	if status, _ := page(r, b, address.String()); status != http.StatusUnauthorized {
		t.Error(fmt.Sprint("of a cluster that is gone: ", status))
	}
	controller.Stop()
	r.NothingLeft()
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
