package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/kinds/person"
)

// filesOf is where the files of a project's cluster cfd are.
func filesOf(project, what string, query ...string) string {
	values := url.Values{}
	for i := 0; i < len(query); i += 2 {
		values.Set(query[i], query[i+1])
	}
	return "/v1/clusters/" + project + "%2Fcfd/files" + what + "?" + values.Encode()
}

// sessionsOfMember is how many sessions member has had.
func sessionsOfMember(t *testing.T, s *httptest.Server) int {
	t.Helper()
	got := as(t, s, "member", "GET", "/v1/sessions", "")
	var sessions apiv1.List[apiv1.Session]
	if err := json.Unmarshal([]byte(got.text), &sessions); err != nil {
		t.Fatal(got.text)
	}
	return len(sessions.Items)
}

func TestFilesGoThroughTheGateway(t *testing.T) {
	home := t.TempDir()
	s, db := server(t, 2, throughGatewayTo(t, home))
	tenants(t, db)
	enterable(t, db)
	cookie := signIn(t, s, `{"token": "member"}`)
	const name = "m\u00fcsh; \"a\".txt"
	must := func(method, path, body string, status int, headers ...string) (*http.Response, string) {
		t.Helper()
		response, text := browse(t, s, cookie, method, path, body, headers...)
		if response.StatusCode != status {
			t.Fatalf("%s %s: %s: %s", method, path, response.Status, text)
		}
		return response, text
	}
	must("POST", filesOf("aero", "/directories"), `{"path": "case"}`, 204)
	must("PUT", filesOf("aero", "/content", "path", "case/"+name), "0123456789", 204, "Content-Type", "application/octet-stream")
	must("PUT", filesOf("aero", "/content", "path", "case/"+name), "other", 409)
	response, text := must("GET", filesOf("aero", "/content", "path", "case/"+name), "", 206, "Range", "bytes=2-4")
	if h := response.Header; text != "234" || h.Get("Content-Type") != "application/octet-stream" ||
		h.Get("Content-Disposition") != "attachment; filename*=utf-8''m%C3%BCsh%3B%20%22a%22.txt" ||
		!strings.Contains(h.Get("Content-Security-Policy"), "sandbox") || h.Get("X-Content-Type-Options") != "nosniff" ||
		h.Get("Cache-Control") != "no-store" {
		t.Errorf("%q with %v", text, h)
	}
	must("POST", filesOf("aero", "/move"), `{"from": "case/`+strings.ReplaceAll(name, `"`, `\"`)+`", "to": "case/b"}`, 204)
	_, text = must("GET", filesOf("aero", "", "path", "case"), "", 200)
	var listing apiv1.Files
	if err := json.Unmarshal([]byte(text), &listing); err != nil || len(listing.Items) != 1 ||
		listing.Path != filepath.Join(home, "case") {
		t.Fatal(text, err)
	}
	if f := listing.Items[0]; f.Name != "b" || f.Kind != "file" || f.Directory || f.Size != 10 || f.Mode != "rw-r--r--" ||
		time.Since(f.Modified) > time.Hour {
		t.Errorf("%+v", f)
	}
	must("PUT", filesOf("aero", "/content", "path", "case/b", "replace", "true"), "new", 204)
	if text, err := os.ReadFile(filepath.Join(home, "case", "b")); string(text) != "new" {
		t.Error(string(text), err)
	}
	must("DELETE", filesOf("aero", "", "path", "case"), "", 409)
	must("DELETE", filesOf("aero", "", "path", "case/b"), "", 204)
	must("GET", filesOf("aero", "/content", "path", "case/b"), "", 404)
	must("GET", filesOf("aero", "/content"), "", 422)

	if n := sessionsOfMember(t, s); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

func TestFilesAreForThoseWhoMayEnterAndForTheConsolesPages(t *testing.T) {
	home := t.TempDir()
	s, db := server(t, 2, throughGatewayTo(t, home))
	tenants(t, db)
	enterable(t, db)
	cookie := signIn(t, s, `{"token": "member"}`)
	for _, ask := range [][2]string{
		{"GET", filesOf("aero", "", "path", home)}, {"DELETE", filesOf("aero", "", "path", home+"/a")},
		{"GET", filesOf("aero", "/content", "path", home+"/a")}, {"PUT", filesOf("aero", "/content", "path", home+"/b")},
	} {
		if err := os.WriteFile(filepath.Join(home, "a"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			header []string
			status int
		}{
			"who only looks":    {[]string{"Authorization", "Bearer viewer"}, 403},
			"another project's": {[]string{"Authorization", "Bearer nobody"}, 404},
			"an operator":       {[]string{"Authorization", "Bearer operator"}, 403},
			"an app's page":     {[]string{"Cookie", cookie, "Sec-Fetch-Site", "same-site"}, 403},
			"another site":      {[]string{"Cookie", cookie, "Sec-Fetch-Site", "cross-site"}, 403},
			"an old browser's":  {[]string{"Cookie", cookie, "Origin", "https://evil.test"}, 403},
		} {
			if got := call(t, s, ask[0], ask[1], "", c.header...); got.status != c.status {
				t.Errorf("%s %s: %s: %d %s", ask[0], ask[1], name, got.status, got.text)
			}
		}
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) != 1 {
		t.Error(entries, err)
	}
	if n := sessionsOfMember(t, s); n != 0 {
		t.Errorf("%d sessions", n)
	}
}

func TestAnUploadEndsWithTheMembership(t *testing.T) {
	home := t.TempDir()
	s, db := server(t, 2, throughGatewayTo(t, home))
	tenants(t, db)
	enterable(t, db)
	body, more := io.Pipe()
	defer more.Close()
	r, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL+filesOf("aero", "/content", "path", "big"), body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer member")
	ended := make(chan int, 1)
	go func() {
		response, err := http.DefaultClient.Do(r)
		if err != nil { // it was cut
			ended <- 0
			return
		}
		_ = response.Body.Close()
		ended <- response.StatusCode
	}()
	there := func() (names []string) {
		entries, err := os.ReadDir(home)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	go func() { // until the body is closed
		for piece := make([]byte, 1<<10); ; time.Sleep(10 * time.Millisecond) {
			if _, err := more.Write(piece); err != nil {
				return
			}
		}
	}()
	until := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	until("it does not begin", func() bool {
		return slices.ContainsFunc(there(), func(name string) bool { return strings.HasPrefix(name, "big.") })
	})
	if err := db.Update(t.Context(), func(tx *core.Tx) error {
		return person.RemoveMember(t.Context(), tx, "aero", "member")
	}); err != nil {
		t.Fatal(err)
	}
	var status int
	until("it goes on", func() bool {
		select {
		case status = <-ended:
			_ = body.Close()
			return true
		default:
			return false
		}
	})
	if status == 204 {
		t.Error("it is taken for whole")
	}
	if slices.Contains(there(), "big") {
		t.Error("a part stands there as the whole")
	}
}
