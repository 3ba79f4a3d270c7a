package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
)

// compression is how answers are compressed for callers who take that: zstd would hold megabytes for each reader who is slow.
func compression() (func(http.Handler) http.HandlerFunc, error) {
	return gzhttp.NewWrapper(gzhttp.EnableZstd(false), gzhttp.CompressionLevel(gzip.BestSpeed))
}

// conditional gives answers to reads an entity tag, and tells a caller who has this very answer already only that nothing has
// changed: 304 (RFC 9110, section 13.1.2). The tag is a weak one, as the answer may be compressed on its way.
func (a *API) conditional(ctx huma.Context, next func(huma.Context)) {
	answer := &heldAnswer{inner: ctx}
	next(answer)
	r, to := humago.Unwrap(ctx)
	if answer.status == http.StatusOK {
		sum := sha256.Sum256(answer.body.Bytes())
		tag := `"` + hex.EncodeToString(sum[:16]) + `"`
		to.Header().Set("ETag", "W/"+tag)
		if askedOf(ctx.Context()).cookie == "" {
			to.Header().Set("Cache-Control", "private, no-cache") // the caller alone may keep it, and asks again each time
		}
		if hasTag(r.Header.Get("If-None-Match"), tag) {
			ctx.SetStatus(http.StatusNotModified)
			return
		}
	}
	askedOf(ctx.Context()).status = answer.status
	a.compress(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answer.status)
		_, _ = w.Write(answer.body.Bytes()) // who has left does not care
	}))(to, r)
}

// hasTag says whether a list of entity tags has one, by the weak comparison.
func hasTag(list, tag string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
			return true
		}
	}
	return false
}

// heldAnswer keeps an answer until it is complete.
type heldAnswer struct {
	inner
	status int
	body   bytes.Buffer
}

type inner = huma.Context // which has a method Context, so that it cannot be embedded by its own name

func (h *heldAnswer) SetStatus(status int)  { h.status = status }
func (h *heldAnswer) Status() int           { return h.status }
func (h *heldAnswer) BodyWriter() io.Writer { return &h.body }
