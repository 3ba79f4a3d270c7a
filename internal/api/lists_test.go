package api_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiv1 "muster/api/v1"
	"muster/internal/api"
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
	list, raw, err := apiv1.ListMachines.Call(t.Context(), apiv1.HTTP{Address: s.URL, Token: token}, apiv1.ListMachinesInput{})
	all := list.Items
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

// TestListsAreOfWhatIsAskedFor: one filter and several, and pages of what a class selects among others.
func TestListsAreOfWhatIsAskedFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "site.yaml")
	if err := os.WriteFile(file, []byte("site: home\ndefaults: {project: default, image: debian13-hpc, class: local, "+
		"head_class: local}\nclasses:\n  - {name: local, select: [substrate = local]}\n  - {name: gpu, select: [gpus >= 1]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	catalogue, err := inventory.ReadCatalogue(file)
	if err != nil {
		t.Fatal(err)
	}
	s, db := server(t, 5, func(a *api.API) { a.Admission.Catalogue = catalogue })
	kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) error {
		for _, name := range []string{"m1b", "m3b", "m9"} {
			if err := machine.Add(ctx, tx, inventory.Machine{ID: name, Name: name, Substrate: "local",
				Facts: shapes.Named("dgx-h100")}); err != nil {
				return err
			}
		}
		return nil
	})
	wants(t, call(t, s, "PUT", "/v1/machines/m2/location", `{"location": {"rack": "r01", "unit": 1}}`), 200)
	wants(t, call(t, s, "PUT", "/v1/machines/m3b/location", `{"location": {"rack": "r01", "unit": 2}}`), 200)
	wants(t, call(t, s, "POST", "/v1/clusters", "name: cfd\nnodes: 2\n"), 202)
	wants(t, call(t, s, "POST", "/v1/clusters", "name: bio\nnodes: 1\n"), 202)
	client := apiv1.HTTP{Address: s.URL, Token: token}
	machines := func(in apiv1.ListMachinesInput) (names []string) {
		for in.Limit = 2; ; {
			page, _, err := apiv1.ListMachines.Call(t.Context(), client, in)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range page.Items {
				names = append(names, m.Name)
			}
			if in.Cursor = page.Next; in.Cursor == "" {
				return names
			}
		}
	}
	for _, c := range []struct {
		in   apiv1.ListMachinesInput
		want string
	}{
		{apiv1.ListMachinesInput{}, "m1 m1b m2 m3 m3b m4 m5 m9"},
		{apiv1.ListMachinesInput{Phase: apiv1.Enrolled}, "m1b m3b m9"},
		{apiv1.ListMachinesInput{Class: "gpu"}, "m1b m3b m9"},
		{apiv1.ListMachinesInput{Class: "local"}, "m1 m1b m2 m3 m3b m4 m5 m9"},
		{apiv1.ListMachinesInput{Rack: "r01"}, "m2 m3b"},
		{apiv1.ListMachinesInput{Rack: "r01", Class: "gpu"}, "m3b"},
		{apiv1.ListMachinesInput{Rack: "r01", Class: "gpu", Phase: apiv1.Available}, ""},
		{apiv1.ListMachinesInput{Network: "boot"}, ""},
	} {
		if got := strings.Join(machines(c.in), " "); got != c.want {
			t.Errorf("%+v: %s; want %s", c.in, got, c.want)
		}
	}
	one, other := machines(apiv1.ListMachinesInput{Cluster: "cfd"}), machines(apiv1.ListMachinesInput{Cluster: "default/bio"})
	if len(one) != 3 || len(other) != 2 || slices.ContainsFunc(one, func(m string) bool { return slices.Contains(other, m) }) {
		t.Errorf("machines of cfd: %s; of bio: %s", one, other)
	}
	wants(t, call(t, s, "GET", "/v1/machines?class=gold", ""), 404, `there is no class \"gold\"`)
	wants(t, call(t, s, "GET", "/v1/machines?cluster=gone", ""), 404, "cluster gone")
	wants(t, call(t, s, "GET", "/v1/machines?phase=gone", ""), 422, "query.phase", "quarantined")

	wants(t, call(t, s, "GET", "/v1/clusters?project=default&phase=pending", ""), 200, `"name":"bio"`, `"name":"cfd"`)
	for _, none := range []string{"project=aero", "phase=ready", "project=default&phase=paused"} {
		if got := call(t, s, "GET", "/v1/clusters?"+none, ""); got.text != "{\"items\":[]}\n" {
			t.Errorf("clusters of %s: %s", none, got.text)
		}
	}
}
