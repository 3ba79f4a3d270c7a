package rig

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"
)

// Provider is a real OpenID Connect provider, Glewlwyd, with the client that a site file names and people of its own.
type Provider struct {
	testing.TB
	URL    string
	Issuer string
	Port   int // that browsers are sent back to
	log    string
	admin  *http.Client
}

// Client is what the provider knows the site as.
const Client = "muster"

// The programs and files of Debian's package glewlwyd.
const (
	glewlwyd       = "/usr/bin/glewlwyd"
	glewlwydTables = "/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3"
)

// providerConfig is what Glewlwyd is started with.
const providerConfig = `
port=%d
bind_address="127.0.0.1"
external_url="%s"
login_url="login.html"
api_prefix="api"
static_files_path="/usr/share/glewlwyd/webapp/"
static_files_mime_types =
( {extension=".html"; mime_type="text/html"}, {extension=".js"; mime_type="text/javascript"},
  {extension=".css"; mime_type="text/css"}, {extension=".json"; mime_type="application/json"} )
log_mode="console"
log_level="INFO"
cookie_domain="127.0.0.1"
cookie_secure=0
session_expiration=3600
session_key="GLEWLWYD2_SESSION_ID"
admin_scope="g_admin"
profile_scope="g_profile"
user_module_path="/usr/lib/glewlwyd/user"
user_middleware_module_path="%s"
client_module_path="/usr/lib/glewlwyd/client"
user_auth_scheme_module_path="/usr/lib/glewlwyd/scheme"
plugin_module_path="/usr/lib/glewlwyd/plugin"
hash_algorithm="SHA512"
database = { type = "sqlite3"; path = "%s"; };
`

// NewProvider starts one, for as long as the test runs. Its people have their names for passwords.
func NewProvider(t testing.TB, people ...string) *Provider {
	t.Helper()
	if _, err := os.Stat(glewlwyd); err != nil {
		t.Skip("logins are not tested against a provider: glewlwyd is not here; `scripts/setup.sh test` installs it")
	}
	p := &Provider{TB: t}
	p.start()
	p.Issuer, p.Port = p.URL+"/api/oidc", freePort(t)
	p.admin = p.session("admin", "password") // as the package's tables have it
	key, certificate := newKey(t)
	yes := true
	p.ask(p.admin, "POST", "/api/mod/plugin/", map[string]any{"module": "oidc", "name": "oidc", "display_name": "oidc",
		"enabled": yes, "parameters": map[string]any{
			"iss": p.Issuer, "jwt-type": "ecdsa", "jwt-key-size": "256", "key": key, "cert": certificate,
			"subject-type":  "public",
			"allowed-scope": []string{"openid"},
			"code-duration": 600, "refresh-token-duration": 3600, "access-token-duration": 3600, "allow-non-oidc": false,
			"auth-type-code-enabled": yes, "auth-type-device-enabled": yes, "device-authorization-expiration": 600,
			"device-authorization-interval": 1,
			"pkce-allowed":                  yes, "pkce-method-plain-allowed": false, "pkce-required": yes,
			"pkce-required-public-client": yes,
			"name-claim":                  "mandatory",
			"claims": []map[string]any{{"name": "preferred_username", "user-property": "username",
				"type": "string", "mandatory": yes}},
		}})
	p.ask(p.admin, "POST", "/api/client/", p.client())
	for _, name := range people {
		p.ask(p.admin, "POST", "/api/user/", map[string]any{"username": name, "name": "The real " + name, "password": name,
			"enabled": yes, "scope": []string{"openid"}})
	}
	return p
}

// client is what it knows of the site, which it sends browsers back to at these addresses, too.
func (p *Provider) client(redirects ...string) map[string]any {
	return map[string]any{"client_id": Client, "name": "Muster", "confidential": false, "enabled": true, "scope": []string{},
		"authorization_type": []string{"code", "device_authorization"},
		"redirect_uri":       append(redirects, fmt.Sprintf("http://127.0.0.1:%d/callback", p.Port))}
}

// Redirects has browsers sent back to an address, too.
func (p *Provider) Redirects(address string) {
	p.Helper()
	p.ask(p.admin, "PUT", "/api/client/"+Client, p.client(address))
}

// start runs the program with fresh tables on a free port. Another program may take the port first: then it is another.
func (p *Provider) start() {
	p.Helper()
	dir := p.TempDir()
	tables, err := os.ReadFile(glewlwydTables)
	if err != nil {
		p.Fatal(err)
	}
	database, config := filepath.Join(dir, "provider.db"), filepath.Join(dir, "provider.conf")
	db, err := sql.Open("sqlite", database)
	if err == nil {
		_, err = db.Exec(string(tables))
	}
	if err != nil {
		p.Fatal(err)
	}
	if err := db.Close(); err != nil {
		p.Fatal(err)
	}
	for range 5 {
		port := freePort(p)
		p.URL, p.log = fmt.Sprintf("http://127.0.0.1:%d", port), filepath.Join(dir, fmt.Sprintf("provider-%d.log", port))
		if err := os.WriteFile(config, fmt.Appendf(nil, providerConfig, port, p.URL, dir, database), 0o600); err != nil {
			p.Fatal(err)
		}
		if p.run(config) {
			return
		}
	}
	text, _ := os.ReadFile(p.log)
	p.Fatalf("the provider does not start:\n%s", text)
}

// run says whether the program answers.
func (p *Provider) run(config string) bool {
	file, err := os.Create(p.log)
	if err != nil {
		p.Fatal(err)
	}
	c := exec.Command(glewlwyd, "--config-file="+config)
	c.Stdout, c.Stderr = file, file
	if err := c.Start(); err != nil {
		p.Fatal(err)
	}
	_ = file.Close()
	ended := make(chan struct{})
	go func() { defer close(ended); _ = c.Wait() }()
	p.Cleanup(func() { _ = c.Process.Kill(); <-ended })
	for deadline := time.Now().Add(patience()); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		select {
		case <-ended:
			return false
		default:
		}
		if response, err := http.Get(p.URL + "/api/"); err == nil {
			_ = response.Body.Close()
			return true
		}
	}
	return false
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func newKey(t testing.TB) (private, public string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: shown}))
}

// session is a browser in which somebody has typed their name and password.
func (p *Provider) session(name, password string) *http.Client {
	p.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		p.Fatal(err)
	}
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	p.ask(browser, "POST", "/api/auth/", map[string]any{"username": name, "password": password})
	return browser
}

func (p *Provider) ask(browser *http.Client, method, path string, body any) {
	p.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		p.Fatal(err)
	}
	request, err := http.NewRequest(method, p.URL+path, bytes.NewReader(text))
	if err != nil {
		p.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := browser.Do(request)
	if err != nil {
		p.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if answer, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		p.Fatalf("the provider answers %s %s with %s %s", method, path, response.Status, answer)
	}
}

// visit has somebody go to an address of the provider, agree, and be sent on; it returns where to.
func (p *Provider) visit(name, address string) *url.URL {
	p.Helper()
	browser := p.session(name, name)
	p.ask(browser, "PUT", "/api/auth/grant/"+Client, map[string]any{"scope": "openid"})
	response, err := browser.Get(address)
	if err != nil {
		p.Fatal(err)
	}
	_ = response.Body.Close()
	to, err := response.Location()
	if err != nil {
		p.Fatalf("the provider sends %s nowhere: %s", name, response.Status)
	}
	return to
}

// Type has somebody type the code that a device shows.
func (p *Provider) Type(name, code string) {
	p.Helper()
	if to := p.visit(name, p.Issuer+"/device?g_continue&code="+url.QueryEscape(code)); to.Query().
		Get("prompt") != "deviceComplete" {
		p.Fatalf("%s typed %s and came to %s", name, code, to)
	}
}

// Browse has somebody open the address of a login in a browser, and returns where that comes back.
func (p *Provider) Browse(name, address string) *url.URL {
	p.Helper()
	return p.visit(name, address+"&g_continue")
}

// Post sends a form to one of the provider's endpoints, as its client, and returns the answer.
func (p *Provider) Post(ctx context.Context, endpoint string, form url.Values) map[string]any {
	p.Helper()
	form.Set("client_id", Client)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Issuer+endpoint, bytes.NewReader([]byte(form.Encode())))
	if err != nil {
		p.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer map[string]any
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		p.Fatal(err)
	}
	return answer
}
