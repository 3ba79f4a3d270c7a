package api_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"muster/internal/admission"
	"muster/internal/api"
	"muster/internal/boot/images"
	"muster/internal/core"
	"muster/internal/core/telemetry"
	"muster/internal/drivers"
	"muster/internal/inventory"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
)

// brokenImages is an image store that cannot be read.
type brokenImages struct{ oneImage }

func (brokenImages) List() ([]images.Image, error) {
	return nil, errors.New("disk on fire in /secret/folder")
}

// watched is an API whose log and metrics can be read.
func watched(t *testing.T) (*httptest.Server, *bytes.Buffer) {
	t.Helper()
	catalogue, err := inventory.ReadCatalogue("")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	a := &api.API{
		DB: kindstest.Open(t, t.TempDir()+"/db"), Admission: &admission.Admission{Catalogue: catalogue, Images: oneImage{},
			Schedulers: drivers.Schedulers(), Substrates: drivers.Substrates()}, Images: brokenImages{},
		Log: slog.New(telemetry.Lines(slog.NewTextHandler(&log, nil))), Telemetry: telemetry.New("test"),
	}
	handler, err := a.Handler()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s, &log
}

func TestMetricsNeedATokenAndCountWhatWasAnswered(t *testing.T) {
	s, _ := watched(t)
	answer, err := http.Get(s.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized || answer.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("without a token: %s", answer.Status)
	}
	call(t, s, "POST", "/v1/people", `{"name": "bob"}`)
	tenant, _ := call(t, s, "POST", "/v1/people/bob/tokens", `{"name": "x"}`).body["token"].(string)
	if got := call(t, s, "GET", "/metrics", "", "Authorization", "Bearer "+tenant); got.status != http.StatusForbidden ||
		!strings.Contains(got.text, "bob may not read the metrics") {
		t.Errorf("a tenant: %d %s", got.status, got.text)
	}
	call(t, s, "GET", "/v1/clusters", "")
	call(t, s, "GET", "/v1/clusters/nobody", "")
	metrics := call(t, s, "GET", "/metrics", "").text
	for _, line := range []string{
		`muster_api_requests_total{operation="list-clusters",status="200"} 1`,
		`muster_api_requests_total{operation="get-cluster",status="404"} 1`,
		`muster_api_request_seconds_count{operation="list-clusters"} 1`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	if strings.Contains(metrics, "nobody") {
		t.Error("a cluster's name is in the metrics")
	}
}

func TestAFailedRequestIsFoundInTheLogByItsNumber(t *testing.T) {
	s, log := watched(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/images", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	id := answer.Header.Get(api.RequestIDHeader)
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) {
		t.Fatalf("no number: %q", id)
	}
	if answer.StatusCode != http.StatusInternalServerError || !strings.Contains(string(body), id) ||
		strings.Contains(string(body), "fire") {
		t.Errorf("the client is told %s %s", answer.Status, body)
	}
	if text := log.String(); !strings.Contains(text, "disk on fire") || !strings.Contains(text, "request="+id) ||
		!strings.Contains(text, "operation=list-images") {
		t.Errorf("the log says %s", text)
	}
	if strings.Contains(log.String(), token) {
		t.Error("the token is in the log")
	}
}

func TestStatusCountsAndAlarms(t *testing.T) {
	s, db := server(t, 3)
	if err := db.Update(t.Context(), func(tx *core.Tx) error { tx.Wake(machine.Kind, "m1"); return nil }); err != nil {
		t.Fatal(err)
	}
	claims, err := db.Claim(t.Context(), machine.Kind, "test", 1<<40, 1)
	if err != nil || len(claims) != 1 {
		t.Fatal(claims, err)
	}
	if err := db.Update(t.Context(), func(tx *core.Tx) error {
		return tx.Settle(t.Context(), claims[0], core.Settlement{Phase: machine.Quarantined, Never: true})
	}); err != nil {
		t.Fatal(err)
	}
	got := call(t, s, "GET", "/v1/status", "")
	if got.status != 200 || !strings.Contains(got.text, `"machines":{"available":2,"quarantined":1}`) ||
		!strings.Contains(got.text, `"name":"machines-quarantined"`) {
		t.Errorf("got %d %s", got.status, got.text)
	}
}
