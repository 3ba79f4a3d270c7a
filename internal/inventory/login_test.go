package inventory

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestASiteSaysHowPeopleLogIn(t *testing.T) {
	c, err := parseCatalogue([]byte(builtin))
	if err != nil || c.Login.Issuer != "" {
		t.Fatal(c.Login, err)
	}
	c, err = parseCatalogue([]byte(builtin + "login: {issuer: https://id.example.org/realms/lab, client_id: muster}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if l := c.Login; l.For != 12*time.Hour || l.NameClaim != "preferred_username" || l.Create ||
		!slices.Equal(l.Scopes, []string{"openid", "profile"}) {
		t.Errorf("%+v", l)
	}
	for login, wrong := range map[string]string{
		"{client_id: muster}":                                                       "login.issuer is missing",
		"{issuer: https://id.example.org}":                                          "login.client_id is missing",
		"{issuer: id.example.org, client_id: muster}":                               "is not the address",
		"{issuer: http://id.example.org, client_id: muster}":                        "only https://",
		"{issuer: 'https://me:x@id.example.org', client_id: muster}":                "is not the address",
		"{issuer: https://id.example.org, client_id: muster, for: 30d}":             "not from 1m to 1d",
		"{issuer: https://id.example.org, client_id: muster, redirect_port: 70000}": "is no port",
		"{issuer: https://id.example.org, client_id: muster, scopes: ['a b']}":      "is no scope",
		"{issuer: https://id.example.org, client_id: muster, operators: [wheel]}":   "operators",
	} {
		if _, err := parseCatalogue([]byte(builtin + "login: " + login + "\n")); err == nil ||
			!strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v; %q wanted", login, err, wrong)
		}
	}
	for _, here := range []string{"http://127.0.0.1:5556/dex", "http://[::1]:5556", "http://localhost:5556"} {
		if _, err := parseCatalogue([]byte(builtin + "login: {issuer: '" + here + "', client_id: muster}\n")); err != nil {
			t.Error(err)
		}
	}
}
