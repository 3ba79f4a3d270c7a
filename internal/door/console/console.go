// Package console serves the console, which is a client of the API and nothing else: the files of its pages, under a policy that
// lets a page load and run nothing but them. It knows the cookie of a browser that is signed in, too.
//
// What enters: requests of browsers. What leaves: files.
package console

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"
)

// page is the file that shows every page: which one, its script reads from the address.
const page = "index.html"

// nonce is what stands in the page for the number that its styles have to show.
const nonce = "{{nonce}}"

// hashed is where files are whose names change with their content.
const hashed = "/assets/"

// kindOf is the kind of a file, by the end of its name; "": not known.
func kindOf(name string) string {
	return map[string]string{
		".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".txt": "text/plain; charset=utf-8",
		".svg": "image/svg+xml", ".woff2": "font/woff2",
	}[path.Ext(name)]
}

// file is one of the console's, as it was built.
type file struct {
	content   []byte
	kind, tag string
}

// Console answers with the files of a built console. Every path that names none is one of its pages.
type Console struct {
	page  []byte
	files map[string]file // by path
	pack  func(http.Handler) http.HandlerFunc
}

// New reads a built console.
func New(built fs.FS) (*Console, error) {
	c := &Console{files: map[string]file{}}
	err := fs.WalkDir(built, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(built, name)
		if err != nil {
			return err
		}
		switch kind := kindOf(name); {
		case name == page:
			c.page = content
		case kind == "":
			return fmt.Errorf("%s: nobody knows of what kind it is", name)
		default:
			sum := sha256.Sum256(content)
			c.files["/"+name] = file{content, kind, `"` + hex.EncodeToString(sum[:16]) + `"`}
		}
		return nil
	})
	if err == nil && c.page == nil {
		err = errors.New("there is no " + page)
	}
	if err == nil {
		c.pack, err = gzhttp.NewWrapper(gzhttp.EnableZstd(false))
	}
	if err != nil {
		return nil, fmt.Errorf("read the console's files: %w", err)
	}
	return c, nil
}

// Answers says whether a request is for a file of the console, or for a page of it.
func (c *Console) Answers(r *http.Request) bool {
	_, is := c.files[r.URL.Path]
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		(is || strings.Contains(r.Header.Get("Accept"), "text/html"))
}

// ServeHTTP is http.Handler's.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f, is := c.files[r.URL.Path]; is {
		policy(w.Header(), "")
		c.pack(f)(w, r)
		return
	}
	number := rand.Text()
	policy(w.Header(), number)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(bytes.ReplaceAll(c.page, []byte(nonce), []byte(number))) // who has left does not care
}

// ServeHTTP is http.Handler's.
func (f file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "no-cache")
	if strings.HasPrefix(r.URL.Path, hashed) {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Set("ETag", "W/"+f.tag) // weak, as it may be packed
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
}

// policy says what a page may do: load its own files, and ask its own API. Styles that its script makes show a number. Text can
// become no markup and no script.
func policy(h http.Header, number string) {
	styles := "'self'"
	if number != "" {
		styles += " 'nonce-" + number + "'"
	}
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src "+styles+"; font-src 'self'; "+
		"img-src 'self' data:; connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; "+
		"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types muster")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
}
