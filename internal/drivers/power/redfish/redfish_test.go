package redfish_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"muster/internal/drivers/power"
	"muster/internal/drivers/power/powertest"
)

// stateError asks a service once and returns its error.
func stateError(t *testing.T, control, credentials string) error {
	t.Helper()
	_, err := open(t, powertest.Target("", control, credentials)).State(t.Context())
	if err == nil {
		t.Fatal("no error")
	}
	return err
}

func TestACertificateThatNobodyVouchesForIsRefusedAndShown(t *testing.T) {
	b := newService()
	control := serve(t, "", b)
	host, pin, _ := strings.Cut(control, "?certificate=")
	secret := powertest.Secret(t)
	if err := stateError(t, host, secret); !strings.Contains(err.Error(), pin) {
		t.Errorf("%v; the certificate to pin, %s, is not named", err, pin)
	}
	other := host + "?certificate=sha256:" + strings.Repeat("0", 64)
	if err := stateError(t, other, secret); !strings.Contains(err.Error(), pin) {
		t.Errorf("%v; the certificate that was seen, %s, is not named", err, pin)
	}
	if len(b.asked) > 0 {
		t.Errorf("a service that is not trusted was asked %v", b.asked)
	}
}

func TestAServiceWithSeveralSystemsNamesThem(t *testing.T) {
	b := newService()
	two := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/redfish/v1/Systems" {
			answer(w, map[string]any{"Members": []any{link(systemPath), link("/redfish/v1/Systems/Other")}})
			return
		}
		b.ServeHTTP(w, r)
	})
	control, secret := serve(t, "", two), powertest.Secret(t)
	if err := stateError(t, control, secret); !strings.Contains(err.Error(), systemPath+" /redfish/v1/Systems/Other") {
		t.Errorf("%v; the systems are not named", err)
	}
	host, pin, _ := strings.Cut(control, "?")
	d := open(t, powertest.Target("", host+systemPath+"/?"+pin, secret))
	powertest.Becomes(t, d, power.Off)
}

func TestAServiceThatAsksForCredentialsWithoutAny(t *testing.T) {
	if err := stateError(t, serve(t, "", newService()), ""); !errors.Is(err, power.ErrCredentials) {
		t.Errorf("%v; it is about credentials", err)
	}
}

func TestAHostileServiceGetsNowhere(t *testing.T) {
	secret := powertest.Secret(t)
	for name, h := range map[string]http.HandlerFunc{
		"sends us elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://192.0.2.1/", http.StatusFound)
		},
		"sends us in circles": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		},
		"never ends": func(w http.ResponseWriter, r *http.Request) {
			endless(w, r, `{"Members":[`, `{"@odata.id":"/a"},`)
		},
		"never ends its refusal": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			endless(w, r, "", password+" ")
		},
		"says nothing": func(http.ResponseWriter, *http.Request) {},
		"is no JSON":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, password) },
		"names another host": func(w http.ResponseWriter, _ *http.Request) {
			answer(w, map[string]any{"Members": []any{link("@192.0.2.1/")}})
		},
		"repeats what it was told": func(w http.ResponseWriter, r *http.Request) {
			refuse(w, 400, r.Header.Get("Authorization")+" "+password)
		},
		"speaks in other characters": func(w http.ResponseWriter, _ *http.Request) { refuse(w, 400, "\x1b[2J\r\nforged line") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The root is served as it should be: the library reads it before anything of ours.
			b := newService()
			control := serve(t, "", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/redfish/v1/" {
					b.ServeHTTP(w, r)
					return
				}
				h(w, r)
			}))
			err := stateError(t, control, secret)
			text := err.Error()
			if len(text) > 600 || strings.Contains(text, password) || strings.Contains(text, "QURNSU46") ||
				strings.ContainsAny(text, "\x1b\r\n") {
				t.Errorf("the error is %q", text)
			}
		})
	}
}

func endless(w http.ResponseWriter, r *http.Request, head, more string) {
	fmt.Fprint(w, head)
	for r.Context().Err() == nil {
		if _, err := fmt.Fprint(w, strings.Repeat(more, 1000)); err != nil {
			return
		}
	}
}
