// Package logintest is an issuer of ID tokens for tests: it says of anybody what the test wants, rightly signed or not.
// That real providers are understood is shown in test/e2e.
package logintest

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Issuer tells its description and its keys, and exchanges the codes that it is told of.
type Issuer struct {
	URL    string
	Down   atomic.Bool // answers no request
	Secret string      // of the client; "": it is public
	Codes  sync.Map    // code → ID token; taken once
	key    *rsa.PrivateKey
}

// New starts one, for as long as the test runs.
func New(t testing.TB) *Issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &Issuer{key: key}
	s := httptest.NewServer(i)
	t.Cleanup(s.Close)
	i.URL = s.URL
	return i
}

func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := map[string]any{}
	switch {
	case i.Down.Load():
		w.WriteHeader(http.StatusBadGateway)
		return
	case r.URL.Path == "/.well-known/openid-configuration":
		answer = map[string]any{
			"issuer": i.URL, "authorization_endpoint": i.URL + "/auth", "token_endpoint": i.URL + "/token",
			"jwks_uri":                      i.URL + "/keys",
			"device_authorization_endpoint": i.URL + "/device", "id_token_signing_alg_values_supported": []string{"RS256",
				"HS256", "none"},
		}
	case r.URL.Path == "/keys":
		answer["keys"] = []map[string]string{{"kty": "RSA", "kid": "1", "use": "sig", "alg": "RS256",
			"n": encode(i.key.N.Bytes()), "e": encode(big.NewInt(int64(i.key.E)).Bytes())}}
	case r.URL.Path == "/token":
		id, secret, _ := r.BasicAuth()
		public := i.Secret == "" && r.FormValue("client_id") == "muster"
		token, known := i.Codes.Load(r.FormValue("code"))
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !public && (id != "muster" || secret != i.Secret):
			w.WriteHeader(http.StatusUnauthorized)
			answer["error"] = "invalid_client"
		case !known || r.FormValue("code_verifier") == "" || r.FormValue("redirect_uri") == "":
			w.WriteHeader(http.StatusBadRequest)
			answer["error"] = "invalid_grant"
		default:
			i.Codes.Delete(r.FormValue("code"))
			answer["access_token"], answer["token_type"], answer["id_token"] = "unused", "bearer", token
		}
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func encode(text []byte) string { return base64.RawURLEncoding.EncodeToString(text) }

// Claims are those of a good ID token for client muster, with what is given instead; nil leaves a claim out.
func (i *Issuer) Claims(instead map[string]any) map[string]any {
	claims := map[string]any{"iss": i.URL, "sub": "s-1", "aud": "muster", "iat": time.Now().Unix(),
		"exp": time.Now().Add(time.Hour).Unix(), "preferred_username": "alice"}
	maps.Copy(claims, instead)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}

// Token signs claims as it should be done.
func (i *Issuer) Token(claims map[string]any) string {
	return signed("RS256", claims, func(text []byte) []byte {
		sum := sha256.Sum256(text)
		signature, _ := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
		return signature
	})
}

// Unsigned is a token that says that it needs no signature.
func (i *Issuer) Unsigned(claims map[string]any) string {
	return signed("none", claims, func([]byte) []byte { return nil })
}

// Confused is a token signed with the public key as if that were a shared secret.
func (i *Issuer) Confused(claims map[string]any) string {
	return signed("HS256", claims, func(text []byte) []byte {
		mac := hmac.New(sha256.New, i.key.N.Bytes())
		mac.Write(text)
		return mac.Sum(nil)
	})
}

func signed(algorithm string, claims map[string]any, sign func([]byte) []byte) string {
	header, _ := json.Marshal(map[string]string{"alg": algorithm, "kid": "1"})
	payload, _ := json.Marshal(claims)
	text := encode(header) + "." + encode(payload)
	return text + "." + encode(sign([]byte(text)))
}
