package login_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/door/login"
	"muster/internal/door/login/logintest"
	"muster/internal/inventory"
)

func open(t *testing.T, i *logintest.Issuer) *login.Provider {
	t.Helper()
	p, err := login.Open(inventory.Login{Issuer: i.URL, ClientID: "muster", Scopes: []string{"openid"},
		NameClaim: "preferred_username", For: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAnIDTokenSaysWhoSomebodyIs(t *testing.T) {
	i := logintest.New(t)
	p := open(t, i)
	raw := i.Token(i.Claims(map[string]any{"name": "Alice Example"}))
	who, err := p.Verify(t.Context(), raw, time.Now())
	if err != nil || who.Subject != i.URL+" s-1" || who.Name != "alice" || who.FullName != "Alice Example" ||
		who.Until.Before(time.Now()) {
		t.Fatal(who, err)
	}
	// The same signed words in JWS's other form are the same proof.
	parts := strings.Split(raw, ".")
	other, err := json.Marshal(map[string]any{"payload": parts[1], "protected": parts[0], "signature": parts[2],
		"header": map[string]string{"x": "y"}})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := p.Verify(t.Context(), string(other), time.Now()); err == nil && again.Hash != who.Hash {
		t.Error("a token written in another way counts as another one")
	}
	if again, err := p.Verify(t.Context(), i.Token(i.Claims(map[string]any{"jti": "2"})), time.Now()); err != nil ||
		again.Hash == who.Hash {
		t.Error("another token counts as the same", err)
	}
}

func TestATokenThatProvesNothingIsRefusedWithWords(t *testing.T) {
	i, stranger := logintest.New(t), logintest.New(t)
	p := open(t, i)
	good := i.Token(i.Claims(nil))
	parts := strings.Split(good, ".")
	payload, err := json.Marshal(i.Claims(map[string]any{"sub": "root"}))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ raw, words string }{
		"another audience":       {i.Token(i.Claims(map[string]any{"aud": "shop"})), "audience"},
		"another issuer":         {i.Token(i.Claims(map[string]any{"iss": "https://id.example.org"})), "different provider"},
		"expired":                {i.Token(i.Claims(map[string]any{"exp": time.Now().Add(-time.Second).Unix()})), "has ended at"},
		"no end":                 {i.Token(i.Claims(map[string]any{"exp": nil})), "has ended at"},
		"another's signature":    {stranger.Token(i.Claims(nil)), "signature"},
		"claims changed":         {parts[0] + "." + base64.RawURLEncoding.EncodeToString(payload) + "." + parts[2], "signature"},
		"no algorithm":           {i.Unsigned(i.Claims(nil)), "malformed"},
		"public key as a secret": {i.Confused(i.Claims(nil)), "malformed"},
		"issued to another": {i.Token(i.Claims(map[string]any{"aud": []string{"muster", "shop"}, "azp": "shop"})),
			`issued to "shop"`},
		"of a browser's login": {i.Token(i.Claims(map[string]any{"nonce": "n"})), "another login"},
		"nobody":               {i.Token(i.Claims(map[string]any{"sub": ""})), "subject"},
		"two words":            {i.Token(i.Claims(map[string]any{"sub": "a b"})), "subject"},
		"nothing":              {"", "malformed"},
	} {
		_, err := p.Verify(t.Context(), c.raw, time.Now())
		if !errors.Is(err, login.ErrRefused) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v; %q wanted", name, err, c.words)
		}
	}
	if _, err := p.Exchange(t.Context(), login.Code{Code: "x", Redirect: "http://127.0.0.1/"}, time.Now()); !errors.Is(err,
		login.ErrRefused) {
		t.Error("a code without verifier and nonce:", err)
	}
}

func TestAProviderThatIsDownRefusesNobodyAndIsAskedAgain(t *testing.T) {
	i := logintest.New(t)
	p := open(t, i)
	i.Down.Store(true)
	if _, err := p.Site(t.Context()); err == nil || errors.Is(err, login.ErrRefused) {
		t.Error(err)
	}
	i.Down.Store(false)
	s, err := p.Site(t.Context())
	if err != nil || s.Device != i.URL+"/device" || s.Token != i.URL+"/token" || s.Auth != i.URL+"/auth" {
		t.Fatal(s, err)
	}
	i.Down.Store(true) // before it has told its keys
	if _, err := p.Verify(t.Context(), i.Token(i.Claims(nil)), time.Now()); err == nil || errors.Is(err, login.ErrRefused) {
		t.Error(err)
	}
	i.Down.Store(false)
	// For a moment the library still answers with what its last question came to.
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		_, err := p.Verify(t.Context(), i.Token(i.Claims(nil)), time.Now())
		if err == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatal("a provider that is back is not asked again:", err)
		}
	}
}

func TestAClientsSecretIsForItsOwnerAndNotForClients(t *testing.T) {
	i := logintest.New(t)
	file := filepath.Join(t.TempDir(), "secret")
	settings := inventory.Login{Issuer: i.URL, ClientID: "muster", SecretFile: file}
	if _, err := login.Open(settings); err == nil || !strings.Contains(err.Error(), "login.secret_file") {
		t.Error(err)
	}
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := login.Open(settings); err == nil || !strings.Contains(err.Error(), "chmod 600") ||
		strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := login.Open(settings)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := p.Site(t.Context()); err != nil || s.Device != "" || s.Token != "" {
		t.Error("who does not know the secret is told to ask for a device code:", s, err)
	}
}

func TestACodeIsExchangedByWhoKnowsTheRest(t *testing.T) {
	for name, secret := range map[string]string{"public client": "", "confidential client": "s3cret"} {
		t.Run(name, func(t *testing.T) {
			i := logintest.New(t)
			i.Secret = secret
			settings := inventory.Login{Issuer: i.URL, ClientID: "muster", NameClaim: "preferred_username"}
			if secret != "" {
				settings.SecretFile = filepath.Join(t.TempDir(), "secret")
				if err := os.WriteFile(settings.SecretFile, []byte(secret+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p, err := login.Open(settings)
			if err != nil {
				t.Fatal(err)
			}
			code := login.Code{Code: "c-1", Verifier: "v", Redirect: "http://127.0.0.1/callback", Nonce: "n"}
			i.Codes.Store("c-1", i.Token(i.Claims(map[string]any{"nonce": "n"})))
			if who, err := p.Exchange(t.Context(), code, time.Now()); err != nil || who.Name != "alice" {
				t.Fatal(who, err)
			}
			if _, err := p.Exchange(t.Context(), code, time.Now()); !errors.Is(err, login.ErrRefused) ||
				!strings.Contains(err.Error(), "it was used") {
				t.Error("a code twice:", err)
			}
			i.Codes.Store("c-2", i.Token(i.Claims(map[string]any{"nonce": "another"})))
			code.Code = "c-2"
			if _, err := p.Exchange(t.Context(), code, time.Now()); !errors.Is(err, login.ErrRefused) ||
				!strings.Contains(err.Error(), "another login") {
				t.Error("another nonce:", err)
			}
			i.Secret, code.Code = "changed", "c-3" // the site's mistake, not the user's
			i.Codes.Store("c-3", i.Token(i.Claims(map[string]any{"nonce": "n"})))
			if _, err := p.Exchange(t.Context(), code, time.Now()); err == nil || errors.Is(err, login.ErrRefused) ||
				strings.Contains(err.Error(), "s3cret") {
				t.Error("a wrong secret:", err)
			}
		})
	}
}

func TestADeadProviderHoldsNobodyLongerThanTheirOwnPatience(t *testing.T) {
	asked := make(chan struct{}, 100)
	held := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	p, err := login.Open(inventory.Login{Issuer: held.URL, ClientID: "muster", For: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan error, 1)
	go func() { _, err := p.Site(t.Context()); first <- err }()
	<-asked
	ended := make(chan error, 20)
	for range cap(ended) {
		go func() {
			short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := p.Site(short)
			ended <- err
		}()
	}
	for range cap(ended) {
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
	if len(first) > 0 { // it has 10 s
		t.Error("they waited behind the first")
	}
	if len(asked) > 0 {
		t.Error("a provider that does not answer is asked", len(asked)+1, "times at once")
	}
	held.CloseClientConnections()
	if err := <-first; err == nil {
		t.Error("no answer is taken for one")
	}
	held.Close()
	if _, err := p.Site(t.Context()); err == nil {
		t.Error("no answer is taken for one")
	}
}
