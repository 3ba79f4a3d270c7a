package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// laptop is a user's own computer: it has the program and an address, and nothing of the controller's.
type laptop struct {
	*rig.Rig
	env []string
}

func newLaptop(r *rig.Rig, controller string) *laptop {
	home := r.TempDir()
	return &laptop{r, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "MUSTER_URL=" + controller,
		"MUSTER_DATA=" + filepath.Join(home, "none")}}
}

// agent starts an ssh-agent.
func (l *laptop) agent() {
	l.Helper()
	socket := filepath.Join(l.TempDir(), "agent")
	c := exec.Command("ssh-agent", "-D", "-a", socket)
	if err := c.Start(); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	l.Until("an ssh-agent", func() bool { _, err := os.Stat(socket); return err == nil })
	l.env = append(l.env, "SSH_AUTH_SOCK="+socket)
}

// run runs a program and returns all that it says.
func (l *laptop) run(program string, args ...string) (string, error) {
	c := exec.Command(program, args...)
	c.Env = l.env
	out, err := c.CombinedOutput()
	return string(out), err
}

// login runs `muster login` and calls act with the first text that matches what it waits for.
func (l *laptop) login(waits *regexp.Regexp, act func(found string), args ...string) (string, error) {
	l.Helper()
	c := exec.Command(l.Binary, append([]string{"login"}, args...)...)
	c.Env = l.env
	var out bytes.Buffer
	c.Stdout = &out
	words, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		l.Fatal(err)
	}
	var told strings.Builder
	lines := bufio.NewScanner(words)
	for acted := false; lines.Scan(); {
		told.WriteString(lines.Text() + "\n")
		if found := waits.FindStringSubmatch(lines.Text()); found != nil && !acted {
			acted = true
			act(found[1])
		}
	}
	err = c.Wait()
	return told.String() + out.String(), err
}

var (
	aCode   = regexp.MustCompile(`type the code (\S+)`)
	anOpen  = regexp.MustCompile(`[Oo]pen (http\S+response_type=code\S*)`)
	aSecret = regexp.MustCompile(`muster_[A-Za-z0-9_-]{20,}|eyJ[A-Za-z0-9_-]{20,}`)
)

func TestPeopleLogInAtTheSitesProvider(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	p := rig.NewProvider(t, "alice", "bob", "eve")
	r := rig.New(t, "")
	r.Site = r.File("site.yaml", `
site: lab
defaults: {project: aero, image: debian13-hpc, class: local, head_class: local}
login: {issuer: "`+p.Issuer+`", client_id: muster, scopes: [], create: true, for: 2h, redirect_port: `+fmt.Sprint(p.Port)+`}
classes:
  - {name: local, select: ["substrate = local"]}
`)
	traces := filepath.Join(t.TempDir(), "traces.json")
	r.Flags = []string{"--log-level", "debug", "--traces", traces, "--ssh", "127.0.0.1:0"}
	c := r.Start()
	r.Run("machines", "add", "--local", "2", "--wait")
	mine := newLaptop(r, c.URL)
	typed := func(name string) func(string) { return func(code string) { p.Type(name, code) } }
	var spoken strings.Builder

	t.Run("who has never been here says so", func(t *testing.T) {
		if out, err := mine.run(r.Binary, "list"); err == nil || !strings.Contains(out, "`muster login`") {
			t.Error(out, err)
		}
	})
	t.Run("by a code on any browser, into the ssh-agent", func(t *testing.T) {
		mine.agent()
		out, err := mine.login(aCode, typed("alice"))
		spoken.WriteString(out)
		if err != nil || !strings.Contains(out, "you are alice until") || !strings.Contains(out, "in the ssh-agent") ||
			!strings.Contains(out, "in no project yet") {
			t.Fatal(out, err)
		}
		if out, err := mine.run(r.Binary, "whoami"); err != nil || !strings.Contains(out, "alice") ||
			!strings.Contains(out, "good for") {
			t.Error(out, err)
		}
		keys, err := mine.run("ssh-add", "-L")
		if err != nil || strings.Count(keys, "\n") != 1 || !strings.HasPrefix(keys, "ssh-ed25519-cert-v01@openssh.com ") {
			t.Fatal(keys, err)
		}
		shown := exec.Command("ssh-keygen", "-L", "-f", "-")
		shown.Stdin = strings.NewReader(keys)
		if out, err := shown.CombinedOutput(); err != nil || !strings.Contains(string(out), "alice") ||
			!strings.Contains(string(out), `Key ID: "t`) || strings.Contains(string(out), "agent-forwarding") {
			t.Errorf("%s %v", out, err)
		}
		for path, mode := range filesBelow(t, mine.env) {
			if mode.Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, mode)
			}
		}
	})
	t.Run("the key opens the gateway, and the logout ends what it opened", func(t *testing.T) {
		r := r.In(t)
		r.Run("projects", "grant", "aero", "alice", "member")
		r.Run("create", "cfd", "--nodes", "1", "--wait")
		gateway := []string{"-F", "/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o",
			"LogLevel=ERROR", "-o", "BatchMode=yes", "-p", gatewayPort(r), "cfd@127.0.0.1"}
		r.Until("alice has an account", func() bool {
			out, err := mine.run("ssh", append(gateway, "whoami; exit 7")...)
			var exit *exec.ExitError
			return errors.As(err, &exit) && exit.ExitCode() == 7 && out == "alice\n"
		})
		stays := exec.Command("ssh", append(gateway, "echo here; sleep 600")...)
		stays.Env = mine.env
		out, err := stays.StdoutPipe()
		if err == nil {
			err = stays.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "here\n" {
			t.Fatal(line, err)
		}
		began, ended := time.Now(), make(chan error, 1)
		if out, err := mine.run(r.Binary, "logout"); err != nil {
			t.Fatal(out, err)
		}
		go func() { ended <- stays.Wait() }()
		select {
		case err := <-ended:
			if err == nil {
				t.Error("it ended by itself")
			}
			t.Logf("the session ended %s after the logout", time.Since(began).Round(10*time.Millisecond))
		case <-time.After(time.Minute): // 5 s are wanted; a busy machine is not what is tested here
			_ = stays.Process.Kill()
			t.Error("the session goes on after the logout")
		}
		if keys, _ := mine.run("ssh-add", "-L"); strings.Contains(keys, "cert") {
			t.Error("the key is in the agent still:", keys)
		}
	})
	t.Run("by a browser on this host, into a file; it is the same person", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "key")
		out, err := mine.login(anOpen, func(address string) {
			back := p.Browse("alice", address)
			stranger := *back
			stranger.RawQuery = url.Values{"code": {"x"}, "state": {"y"}}.Encode()
			if response, err := http.Get(stranger.String()); err != nil || response.StatusCode != http.StatusBadRequest {
				t.Error("a page that does not know the state is listened to:", err)
			}
			if response, err := http.Get(back.String()); err != nil || response.StatusCode != http.StatusOK {
				t.Error(err)
			}
		}, "--browser", "--key-file", file)
		spoken.WriteString(out)
		if err != nil || !strings.Contains(out, "you are alice until") || strings.Contains(out, "new here") {
			t.Fatal(out, err)
		}
		if out, err := mine.run("ssh-keygen", "-L", "-f", file+"-cert.pub"); err != nil || !strings.Contains(out, "alice") {
			t.Error(out, err)
		}
		if about, err := os.Stat(file); err != nil || about.Mode().Perm() != 0o600 {
			t.Error(about, err)
		}
		if again, err := mine.login(anOpen, func(address string) {
			if response, err := http.Get(p.Browse("alice", address).String()); err != nil ||
				response.StatusCode != http.StatusOK {
				t.Error(err)
			}
		}, "--browser", "--key-file", file); err != nil {
			t.Error("a second login over the first:", again, err)
		}
		if out, _ := mine.run(r.Binary, "tokens", "list"); strings.Count(out, "login from") != 1 {
			t.Error("the earlier login goes on:", out)
		}
		if out, err := mine.login(anOpen, func(string) {}, "--browser", "--key-file", r.File("foreign", "a key")); err == nil ||
			!strings.Contains(out, "is there already") {
			t.Error(out, err)
		}
		token := tokenOf(t, mine.env)
		if out, err := mine.run(r.Binary, "logout"); err != nil || !strings.Contains(out, "alice is logged out") {
			t.Error(out, err)
		}
		if got := ask(t, c.URL, "GET", "/v1/site", token, ""); got.status != http.StatusUnauthorized {
			t.Error("the token is good after the logout:", got)
		}
		for _, left := range []string{file, file + "-cert.pub"} {
			if _, err := os.Stat(left); err == nil {
				t.Error("left over:", left)
			}
		}
		if out, err := mine.run(r.Binary, "logout"); err == nil || !strings.Contains(out, "not logged in") {
			t.Error(out, err)
		}
	})
	t.Run("a name alone makes nobody somebody else", func(t *testing.T) {
		r := r.In(t)
		r.Run("users", "add", "bob")
		out, err := mine.login(aCode, typed("bob"))
		words := regexp.MustCompile("`muster (users set bob --subject) '([^']+)'`").FindStringSubmatch(out)
		if err == nil || words == nil {
			t.Fatal(out, err)
		}
		r.Run(append(strings.Fields(words[1]), words[2])...) // what it says is to be done
		if out, err := mine.login(aCode, typed("bob")); err != nil || !strings.Contains(out, "you are bob until") {
			t.Error(out, err)
		}
		r.Run("users", "disable", "bob")
		if out, err := mine.run(r.Binary, "list"); err == nil {
			t.Error("a disabled person's login goes on:", out)
		}
		if out, err := mine.login(aCode, typed("bob")); err == nil || !strings.Contains(out, "bob is disabled") {
			t.Error(out, err)
		}
	})
	t.Run("codes and ID tokens are taken once, and with their verifier only", func(t *testing.T) {
		back, nonce := fmt.Sprintf("http://127.0.0.1:%d/callback", p.Port), "n-1"
		code := func(verifier string) string {
			client := oauth2.Config{ClientID: rig.Client, Scopes: []string{"openid"}, RedirectURL: back,
				Endpoint: oauth2.Endpoint{AuthURL: p.Issuer + "/auth"}}
			to := p.Browse("eve", client.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier),
				oauth2.SetAuthURLParam("nonce", nonce)))
			return to.Query().Get("code")
		}
		verifier := oauth2.GenerateVerifier()
		proof := func(code, verifier, nonce string) string {
			text, _ := json.Marshal(map[string]string{"code": code, "verifier": verifier, "nonce": nonce, "redirect": back})
			return string(text)
		}
		for what, given := range map[string]string{
			"another's verifier": proof(code(verifier), oauth2.GenerateVerifier(), nonce),
			"another nonce":      proof(code(verifier), verifier, "n-2"),
			"no code of theirs":  proof("made-up", verifier, nonce),
		} {
			if got := ask(t, c.URL, "POST", "/v1/login", "", given); got.status != http.StatusUnauthorized {
				t.Errorf("%s: %+v", what, got)
			}
		}
		good := proof(code(verifier), verifier, nonce)
		if got := ask(t, c.URL, "POST", "/v1/login", "", good); got.status != http.StatusCreated {
			t.Fatal(got)
		}
		if got := ask(t, c.URL, "POST", "/v1/login", "", good); got.status != http.StatusUnauthorized ||
			!strings.Contains(got.text, "it was used") {
			t.Error("a code twice:", got)
		}
		device := p.Post(t.Context(), "/device_authorization/", url.Values{"scope": {"openid"}})
		p.Type("eve", device["user_code"].(string))
		answer := p.Post(t.Context(), "/token", url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"},
			"device_code": {device["device_code"].(string)}})
		given, _ := json.Marshal(map[string]any{"id_token": answer["id_token"]})
		if got := ask(t, c.URL, "POST", "/v1/login", "", string(given)); got.status != http.StatusCreated {
			t.Fatal(got)
		}
		if got := ask(t, c.URL, "POST", "/v1/login", "", string(given)); got.status != http.StatusUnauthorized ||
			!strings.Contains(got.text, "already") {
			t.Error("an ID token twice:", got)
		}
	})
	r.Run("delete", "cfd", "--wait")
	c.Stop()
	t.Run("nothing secret was written down", func(t *testing.T) {
		texts := map[string]string{"what was said": spoken.String()}
		for _, path := range []string{c.Log, traces} {
			text, err := os.ReadFile(path)
			if err != nil || len(text) == 0 {
				t.Error(path, err)
			}
			texts[path] = string(text)
		}
		for where, text := range texts {
			if found := aSecret.FindString(text); found != "" {
				t.Errorf("%s tells %.12s…", where, found)
			}
		}
	})
	r.NothingLeft()
}

// filesBelow are the files of a laptop's home, less links and folders.
func filesBelow(t *testing.T, env []string) map[string]os.FileMode {
	t.Helper()
	files := map[string]os.FileMode{}
	for _, variable := range env {
		if home, ok := strings.CutPrefix(variable, "HOME="); ok {
			err := filepath.WalkDir(home, func(path string, entry os.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				about, err := entry.Info()
				files[path] = about.Mode()
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(files) == 0 {
		t.Error("nothing is kept")
	}
	return files
}

// tokenOf is the token that a login left.
func tokenOf(t *testing.T, env []string) string {
	t.Helper()
	for path := range filesBelow(t, env) {
		var kept struct{ Token string }
		if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &kept) == nil && kept.Token != "" {
			return kept.Token
		}
	}
	t.Fatal("no login is kept")
	return ""
}

type reply struct {
	status int
	text   string
}

// ask makes a request to the API.
func ask(t *testing.T, base, method, path, token, body string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{response.StatusCode, string(text)}
}

// gatewayPort is where the SSH gateway of a rig listens.
func gatewayPort(r *rig.Rig) string {
	r.Helper()
	var announced struct {
		SSH string
	}
	text, err := os.ReadFile(filepath.Join(r.Data, "controller.json"))
	if err == nil {
		err = json.Unmarshal(text, &announced)
	}
	_, port, found := strings.Cut(announced.SSH, ":")
	if err != nil || !found {
		r.Fatalf("controller.json names no gateway: %s, %v", text, err)
	}
	return port
}
