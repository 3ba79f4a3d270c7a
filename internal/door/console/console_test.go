package console

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func built(t *testing.T) *Console {
	t.Helper()
	c, err := New(fstest.MapFS{
		"index.html":       {Data: []byte(`<meta property="csp-nonce" nonce="{{nonce}}"><script src="/assets/a-1.js"></script>`)},
		"assets/a-1.js":    {Data: []byte("console.log('" + strings.Repeat("a", 2000) + "')")},
		"assets/f-1.woff2": {Data: []byte{1, 2, 3}},
		"theme.js":         {Data: []byte("theme")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ask(c *Console, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

func TestEveryPathIsAPageWithANumberOfItsOwn(t *testing.T) {
	c, numbers := built(t), map[string]bool{}
	number := regexp.MustCompile(`nonce="([^"]+)"`)
	for _, path := range []string{"/", "/clusters/cfd", "/index.html"} {
		w := ask(c, path)
		found := number.FindStringSubmatch(w.Body.String())
		if w.Code != http.StatusOK || found == nil || w.Header().Get("Cache-Control") != "no-store" {
			t.Fatalf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "'nonce-"+found[1]+"'") ||
			strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s: %s", path, policy)
		}
		numbers[found[1]] = true
	}
	if len(numbers) != 3 {
		t.Errorf("three pages have %d numbers", len(numbers))
	}
}

func TestFilesAreKeptByBrowsersAndPacked(t *testing.T) {
	c := built(t)
	for path, kept := range map[string]string{"/assets/a-1.js": "immutable", "/theme.js": "no-cache"} {
		h := ask(c, path).Header()
		if !strings.Contains(h.Get("Cache-Control"), kept) || h.Get("Content-Encoding") != "" ||
			h.Get("Content-Type") != "text/javascript; charset=utf-8" {
			t.Errorf("%s: %v", path, h)
		}
	}
	plain, small := ask(c, "/assets/a-1.js"), ask(c, "/assets/a-1.js", "Accept-Encoding", "br, gzip")
	if small.Header().Get("Content-Encoding") != "gzip" || small.Body.Len() > plain.Body.Len()/10 {
		t.Fatalf("%d bytes of %d: %v", small.Body.Len(), plain.Body.Len(), small.Header())
	}
	r, err := gzip.NewReader(small.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != plain.Body.String() {
		t.Errorf("unpacked it is another one: %v", err)
	}
	tag := ask(c, "/theme.js").Header().Get("ETag")
	if again := ask(c, "/theme.js", "If-None-Match", tag); again.Code != http.StatusNotModified {
		t.Errorf("the same file once more: %d", again.Code)
	}
}

func TestProgramsGetNoPages(t *testing.T) {
	c := built(t)
	for name, tc := range map[string]struct {
		method, path, accept string
		want                 bool
	}{
		"a browser": {"GET", "/clusters", "text/html,*/*", true},
		"a file":    {"GET", "/theme.js", "*/*", true},
		"a program": {"GET", "/clusters", "*/*", false},
		"a form":    {"POST", "/clusters", "text/html", false},
	} {
		r := httptest.NewRequest(tc.method, tc.path, nil)
		r.Header.Set("Accept", tc.accept)
		if got := c.Answers(r); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestAnUnknownKindOfFileIsNoticed(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{"no page": {"a.js": {}}, "an odd file": {"index.html": {}, "a.exe": {}}} {
		if _, err := New(files); err == nil {
			t.Error(name)
		}
	}
}

func TestPagesOfOtherSitesAreForeign(t *testing.T) {
	for name, tc := range map[string]struct {
		headers []string
		want    bool
	}{
		"its own":               {[]string{"Sec-Fetch-Site", "same-origin", "Origin", "http://muster.test"}, false},
		"typed in":              {[]string{"Sec-Fetch-Site", "none"}, false},
		"a program":             {nil, false},
		"another app":           {[]string{"Sec-Fetch-Site", "same-site"}, true},
		"another site":          {[]string{"Sec-Fetch-Site", "cross-site"}, true},
		"its own WebSocket":     {[]string{"Origin", "https://muster.test"}, false},
		"another's WebSocket":   {[]string{"Origin", "https://evil.test"}, true},
		"one without an origin": {[]string{"Origin", "null"}, true},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://muster.test/v1/site", nil)
		for i := 0; i < len(tc.headers); i += 2 {
			r.Header.Set(tc.headers[i], tc.headers[i+1])
		}
		if got := Foreign(r); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestTwoCookiesAreNone(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.AddCookie(Cookie("one", 1e9))
	if got := CookieOf(r); got != "one" {
		t.Errorf("%q", got)
	}
	r.AddCookie(Cookie("planted", 1e9))
	if got := CookieOf(r); got != "" {
		t.Errorf("%q", got)
	}
	if text := Cookie("", 0).String(); !strings.Contains(text, "Max-Age=0") {
		t.Error(text)
	}
}
