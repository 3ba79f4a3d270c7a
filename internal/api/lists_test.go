package api_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/inventory/shapes"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
)

// TestAListOfMachinesHasSummaries: facts are only with a single machine, and both say the same.
func TestAListOfMachinesHasSummaries(t *testing.T) {
	s, db := server(t, 0)
	facts := shapes.Named("dgx-h100")
	kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) error {
		return machine.Add(ctx, tx, inventory.Machine{ID: "m1", Name: "dgx", Substrate: "local", Facts: facts})
	})
	all, raw, err := apiv1.All(t.Context(), apiv1.HTTP{Address: s.URL, Token: token}, apiv1.ListMachines, apiv1.Page{})
	if err != nil || len(all) != 1 || all[0].Summary != apiv1.Summary(facts.Summary()) || all[0].Summary.GPUs != 8 {
		t.Fatalf("%+v, %v", all, err)
	}
	if strings.Contains(string(raw), `"facts"`) {
		t.Errorf("the list has facts: %s", raw)
	}
	one, _, err := apiv1.GetMachine.Call(t.Context(), apiv1.HTTP{Address: s.URL, Token: token}, apiv1.MachineRef{Machine: "dgx"})
	if err != nil || one.Summary != all[0].Summary || one.Summary.GPUs != 8 || len(one.Facts.Devices) != len(facts.Devices) ||
		!slices.Equal(one.Classes, all[0].Classes) {
		t.Errorf("%+v, %v", one, err)
	}
}

// TestAnAnswerThatIsThereAlreadyIsNotSentAgain asks by entity tags, and changes what is asked for.
func TestAnAnswerThatIsThereAlreadyIsNotSentAgain(t *testing.T) {
	s, _ := server(t, 40)
	ask := func(path, tag string) (*http.Response, string) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer " + token}, "If-None-Match": {tag}, "Accept-Encoding": {"gzip"}}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		body := io.Reader(response.Body)
		if response.Header.Get("Content-Encoding") == "gzip" {
			if body, err = gzip.NewReader(body); err != nil {
				t.Fatal(err)
			}
		}
		text, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		return response, string(text)
	}
	const path = "/v1/machines?limit=40"
	first, text := ask(path, "")
	tag := first.Header.Get("ETag")
	if first.Header.Get("Content-Encoding") != "gzip" || !json.Valid([]byte(text)) || !strings.HasPrefix(tag, `W/"`) {
		t.Fatalf("%v %.100s", first.Header, text)
	}
	if small, text := ask("/v1/machines/m1", ""); small.Header.Get("Content-Encoding") != "" || !json.Valid([]byte(text)) {
		t.Errorf("a small answer: %v %.100s", small.Header, text)
	}
	for _, tags := range []string{tag, `"a,b", ` + tag, strings.TrimPrefix(tag, "W/"), "*"} {
		if again, text := ask(path, tags); again.StatusCode != 304 || text != "" || again.Header.Get("ETag") != tag {
			t.Errorf("If-None-Match: %s is answered with %d %q", tags, again.StatusCode, text)
		}
	}
	for _, tags := range []string{`W/"a"`, "", tag[1:]} {
		if again, got := ask(path, tags); again.StatusCode != 200 || got != text {
			t.Errorf("If-None-Match: %s is answered with %d %.100s", tags, again.StatusCode, got)
		}
	}
	wants(t, call(t, s, "POST", "/v1/machines/m1/maintain", ""), 200)
	if changed, got := ask(path, tag); changed.StatusCode != 200 || got == text || changed.Header.Get("ETag") == tag {
		t.Errorf("after a change: %d %v", changed.StatusCode, changed.Header)
	}
	if gone, text := ask("/v1/machines/x", "*"); gone.StatusCode != 404 || !strings.Contains(text, "machine x") {
		t.Errorf("a machine that is not there: %d %s", gone.StatusCode, text)
	}
}
