// Package attack_test attacks a real site as those would who are let into a corner of it: a tenant without root, a stranger
// at its doors, a neighbour on the network that machines boot from. What enters: the binary and the image. What leaves: a
// failure for each attack that gets anywhere. docs/security.md lists every attack with the test that holds the answer.
package attack_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// site is a controller with its doors open, a victim's cluster and an attacker's: alice has a1 in aero, mallory m1 in bio.
type site struct {
	*rig.Rig
	controller     *rig.Controller
	alice, mallory *rig.Rig
	ssh            string // path of the client configuration with mallory's key, host "gw"
}

func newSite(t *testing.T, flags ...string) site {
	t.Helper()
	r := rig.New(t, "")
	r.Flags = append([]string{"--ssh", "127.0.0.1:0", "--web", "127.0.0.1:0"}, flags...)
	s := site{Rig: r, controller: r.Start()}
	r.Run("machines", "add", "--local", "5", "--wait")
	people := map[string]*rig.Rig{}
	for person, project := range map[string]string{"alice": "aero", "mallory": "bio"} {
		r.Run("users", "add", person)
		r.Run("projects", "add", project, "--owner", person)
		people[person] = r.As(strings.TrimSpace(r.Run("tokens", "add", "laptop", "--person", person)))
	}
	s.alice, s.mallory = people["alice"], people["mallory"]
	a1 := r.File("a1.yaml", "name: a1\nnodes: 1\naccess: {apps: [{name: app, port: 8888}]}\n")
	s.alice.Run("create", "-f", a1)
	s.mallory.Run("create", "m1", "--nodes", "1", "--wait")
	s.alice.Run("apply", "-f", a1, "--wait")
	s.ssh = s.key()
	return s
}

func (s site) in(t *testing.T) site {
	s.Rig, s.alice, s.mallory = s.Rig.In(t), s.alice.In(t), s.mallory.In(t)
	return s
}

// key gives mallory a key, and returns the configuration that ssh comes through the gateway with.
func (s site) key() string {
	s.Helper()
	dir := s.TempDir()
	key := filepath.Join(dir, "id")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		s.Fatalf("ssh-keygen: %v %s", err, out)
	}
	s.mallory.Run("keys", "add", key+".pub")
	var announced struct{ SSH string }
	text, err := os.ReadFile(filepath.Join(s.Data, "controller.json"))
	if err == nil {
		err = json.Unmarshal(text, &announced)
	}
	host, port, splitErr := net.SplitHostPort(announced.SSH)
	if err := errors.Join(err, splitErr); err != nil {
		s.Fatal(err)
	}
	config := filepath.Join(dir, "config")
	lines := []string{"Host gw", "HostName " + host, "Port " + port, "Host *", "User mallory", "IdentityFile " + key,
		"IdentitiesOnly yes",
		"IdentityAgent none", "StrictHostKeyChecking no", "UserKnownHostsFile " + filepath.Join(dir, "known_hosts"),
		"GlobalKnownHostsFile /dev/null", "BatchMode yes"}
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		s.Fatal(err)
	}
	return config
}

// by runs ssh as mallory and returns what came of it.
func (s site) by(args ...string) rig.Result {
	s.Helper()
	c := exec.Command("timeout", append([]string{"60", "ssh", "-F", s.ssh}, args...)...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		s.Fatal(err)
	}
	return rig.Result{Out: out.String(), Err: errs.String(), Code: c.ProcessState.ExitCode()}
}

// get asks the API as the bearer of a token, with a path as it stands.
func (s site) get(token, path string) (int, http.Header) {
	s.Helper()
	request, err := http.NewRequest(http.MethodGet, s.controller.URL, http.NoBody)
	if err != nil {
		s.Fatal(err)
	}
	request.URL.Opaque = "//" + request.URL.Host + path
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode, response.Header
}

func TestASiteUnderAttack(t *testing.T) {
	testall.Only(t)
	s := newSite(t)
	t.Run("the gateway forwards to the attacker's own nodes alone", func(t *testing.T) { s.in(t).forwards() })
	t.Run("the web door lets no other page and no borrowed cookie in", func(t *testing.T) { s.in(t).webDoor() })
	t.Run("a name from a request forges no line of the audit log", func(t *testing.T) { s.in(t).auditLog() })
	t.Run("twenty thousand silent connections keep nobody out", func(t *testing.T) { s.in(t).silentFlood() })
	t.Run("a bottomless tree ends neither pause nor delete", func(t *testing.T) { s.in(t).bottomlessTree() })

	s.alice.Run("delete", "a1", "--wait")
	s.Run("machines", "list")
	s.NothingLeft()
}

// forwards asks the gateway for ways to everything that is not mallory's.
func (s site) forwards() {
	s.Helper()
	_, api, err := net.SplitHostPort(strings.TrimPrefix(s.controller.URL, "http://"))
	if err != nil {
		s.Fatal(err)
	}
	var a1 struct {
		Nodes []struct{ Address string }
	}
	s.alice.Get(&a1, "get", "a1")
	for _, to := range []string{"10.77.0.1:7421", "169.254.169.254:80", "0.0.0.0:" + api, "[::]:" + api,
		"[::ffff:127.0.0.1]:" + api,
		"127.1:" + api, "n1.a1:22", "head.a1.aero:22", "a1:22", "192.0.2.1:80", "2130706433:" + api, "localhost.:" + api} {
		got := s.by("-W", to, "m1@gw")
		if strings.HasPrefix(got.Out, "SSH-2.0") || strings.HasPrefix(got.Out, "HTTP/") || got.Code == 0 {
			s.Errorf("-W %s: %+v", to, got)
		}
	}
	// The loopback address is the head's own; the controller's API must not be behind it.
	c := exec.Command("timeout", "60", "ssh", "-F", s.ssh, "-W", "127.0.0.1:"+api, "m1@gw")
	c.Stdin = strings.NewReader("GET /healthz HTTP/1.0\r\n\r\n")
	if out, _ := c.Output(); len(out) > 0 {
		s.Errorf("the controller's API answers through the gateway: %q", out)
	}
	for _, remote := range []string{"0:localhost:22", "127.0.0.1:0:localhost:22"} {
		if got := s.by("-o", "ExitOnForwardFailure=yes", "-R", remote, "m1@gw", "true"); got.Code == 0 {
			s.Errorf("-R %s is granted", remote)
		}
	}
	for _, name := range []string{"a1@gw", "aero/a1@gw", "mallory+aero/a1@gw", "alice+aero/a1@gw", "a1.aero@gw", "../a1@gw"} {
		if got := s.by("-l", strings.TrimSuffix(name, "@gw"), "gw", "id"); got.Code != 255 || got.Out != "" {
			s.Errorf("mallory is let in as %s: %+v", name, got)
		}
	}
	if got := s.by("m1@gw", "hostname"); got.Out != "head\n" {
		s.Errorf("her own cluster: %+v", got) // or nothing above has tried anything
	}
}

// webDoor comes to alice's app as a page of elsewhere, with mallory's own session and with none.
func (s site) webDoor() {
	s.Helper()
	var described struct {
		Apps []struct{ URL string } `json:"apps"`
	}
	s.alice.Get(&described, "get", "a1")
	app, err := url.Parse(described.Apps[0].URL)
	if err != nil {
		s.Fatal(err)
	}
	if got := s.mallory.Muster("open", "aero/a1", "app"); got.Code != 6 {
		s.Errorf("mallory is given a way to alice's app: %+v", got)
	}
	ca := s.File("ca.pem", s.Run("open", "--ca"))
	opened := strings.TrimSpace(s.alice.Run("open", "a1"))
	curl := func(args ...string) string {
		s.Helper()
		base := []string{"-sS", "-m", "30", "--cacert", ca, "--resolve", app.Host + ":127.0.0.1", "-o", "/dev/null", "-w",
			"%{http_code}"}
		out, err := exec.Command("curl", append(base, args...)...).Output()
		if err != nil {
			s.Fatalf("curl %v: %v", args, err)
		}
		return string(out)
	}
	jar := filepath.Join(s.TempDir(), "jar")
	curl("-c", jar, "-L", opened) // alice's browser has its cookie now
	if got := curl("-b", jar, app.String()); got != "502" {
		s.Fatalf("alice's own browser: %s, and nothing listens at her app yet", got)
	}
	for what, args := range map[string][]string{
		"no cookie":                         {},
		"the code of her address once more": {"-L", opened},
		"a cookie of mallory's making":      {"-H", "Cookie: __Host-muster=AAAAAAAAAAAAAAAAAAAAAA"},
		"a header that names her":           {"-H", "X-Muster-User: alice"},
		"mallory's token":                   {"-H", "Authorization: Bearer " + s.mallory.Token},
		"a page of another site":            {"-b", jar, "-H", "Origin: https://evil.example", "-X", "POST"},
		"a page without an origin":          {"-b", jar, "-H", "Origin: null", "-X", "POST"},
		"a page of mallory's own app": {"-b", jar, "-H", "Origin: https://app--m1--bio.localhost:" + app.Port(), "-X",
			"POST"},
		"another host's name, her cookie": {"-b", jar, "-H", "Host: app--m1--bio.localhost:" + app.Port()},
		"her cookie at the name with a dot": {"-b", jar, "-H", "Host: app--a1--aero.localhost.:" + app.Port(), "-H",
			"Origin: https://evil.example", "-X", "POST"},
		"a web socket from a page elsewhere": {"-b", jar, "-H", "Origin: https://evil.example", "-H", "Connection: Upgrade", "-H",
			"Upgrade: websocket"},
	} {
		if got := curl(append(args, app.String())...); got[0] != '4' && what != "the code of her address once more" {
			s.Errorf("%s: %s", what, got)
		} else if what == "the code of her address once more" && strings.Contains(got, "502") {
			s.Errorf("%s: %s", what, got)
		}
	}
}

// auditLog puts escape sequences and whole lines where names belong.
func (s site) auditLog() {
	s.Helper()
	for _, path := range []string{
		"/v1/clusters/%1b%5d0%3bPWNED%07%1b%5b2J%0a2026-11-22%20admin%20api%20nothing",
		"/v1/clusters/%c2%9b31mPWNED", "/v1/clusters/%e2%80%aePWNED%e2%80%a8forged", "/v1/clusters/a%0dPWNED",
		"/v1/projects/%1b%5b8mPWNED", "/v1/clusters/" + strings.Repeat("PWNED", 1500),
	} {
		s.get(s.mallory.Token, path)
	}
	for _, verb := range []string{"audit --all", "audit", "events", "list", "users list"} {
		out := s.Muster(strings.Fields(verb)...)
		for _, text := range []string{out.Out, out.Err} {
			for _, raw := range []string{"\x1b", "\x07", "\r", "\u009b", "\u202e", "\u2028"} {
				if strings.Contains(text, raw) {
					s.Errorf("muster %s prints %q raw", verb, raw)
				}
			}
			for _, line := range strings.Split(text, "\n") {
				if strings.HasPrefix(line, "2026-11-22 admin api nothing") {
					s.Errorf("muster %s has a forged line", verb)
				}
				if len(line) > 2000 {
					s.Errorf("muster %s has a line of %d bytes", verb, len(line))
				}
			}
		}
	}
	var log struct {
		Items []struct{ Person, Object string }
	}
	s.Get(&log, "audit", "--person", "mallory")
	if len(log.Items) == 0 {
		s.Error("what mallory asked for is not in the log at all")
	}
}

// silentFlood opens twice ten thousand connections that say nothing, from one address and from two hundred, and then works
// as users do.
func (s site) silentFlood() {
	s.Helper()
	spend := func() time.Duration {
		s.Helper()
		began := time.Now()
		for range 5 {
			s.alice.Run("list")
		}
		return time.Since(began) / 5
	}
	quiet := spend()
	held := 0
	for _, from := range []string{"127.0.9.1", "127.0.10.0"} {
		held += s.flood(from, 10_200)
	}
	busy := spend()
	s.Logf("%d connections were opened; `muster list` takes %s beside them, and %s without", held, busy, quiet)
	s.Run("list") // the administrator
	if status, _ := s.get("", "/readyz"); status != http.StatusOK {
		s.Errorf("/readyz answers %d", status)
	}
	if got := s.by("m1@gw", "hostname"); got.Out != "head\n" {
		s.Errorf("the gateway: %+v", got)
	}
	if text, err := os.ReadFile(s.controller.Log); err != nil || strings.Contains(string(text), "too many open files") {
		s.Errorf("the controller's log says: too many open files (%v)", err)
	}
}

// flood has a process of its own hold connections to the API until the test ends, and returns how many it got.
func (s site) flood(from string, many int) (held int) {
	s.Helper()
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", floodVariable, strings.TrimPrefix(s.controller.URL, "http://"), from,
		many))
	in, err := c.StdinPipe()
	if err != nil {
		s.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = in.Close(); _ = c.Wait() })
	if _, err := fmt.Fscan(out, &held); err != nil {
		s.Fatal(err)
	}
	return held
}

// floodVariable makes this program one that floods: where to, from which address, how many connections.
const floodVariable = "MUSTER_TEST_FLOOD"

func TestMain(m *testing.M) {
	var address, from string
	var many int
	if n, _ := fmt.Sscan(os.Getenv(floodVariable), &address, &from, &many); n < 3 {
		os.Exit(m.Run())
	}
	source := net.ParseIP(from).To4()
	var held []net.Conn
	for i := range many {
		if source[3] = byte(1 + i%200); from == "127.0.9.1" {
			source[3] = 1
		}
		c, err := (&net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: source}}).Dial("tcp", address)
		if err != nil {
			continue // refused, which is an answer too
		}
		if i%3 == 0 { // kept alive after a question, rather than silent from the beginning
			_, _ = fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n", address)
		}
		held = append(held, c)
	}
	fmt.Println(len(held))
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
}

// bottomlessTree makes what the deepest path is too short for, and then ends the cluster's life as a lease would.
func (s site) bottomlessTree() {
	s.Helper()
	s.mallory.Run("ssh", "m1", "--",
		`perl -e 'for(1..25000){mkdir "d"; chdir "d"} mkdir "x" x 255; symlink "/", "root"'; mkfifo pipe; true`)
	s.mallory.Run("pause", "m1", "--wait")
	descriptors := 0
	watched, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
				open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.controller.Process.Pid))
				descriptors = max(descriptors, len(open))
			}
		}
	}()
	s.mallory.Run("resume", "m1", "--wait")
	s.mallory.Run("snapshot", "m1", "--name", "deep", "--wait")
	s.mallory.Run("delete", "m1", "--wait")
	s.mallory.Run("snapshots", "delete", "deep")
	s.Until("the snapshot is gone", func() bool { return !strings.Contains(s.mallory.Run("snapshots", "list"), "deep") })
	close(done)
	<-watched
	s.Logf("the controller had %d descriptors open at most", descriptors)
	if descriptors > 1000 {
		s.Error("a tree takes the controller's descriptors")
	}
	if out := s.mallory.Run("list"); rig.Names(out, "m1") {
		s.Error("m1 is still there: ", out)
	}
}
