// Package sealing encrypts what must not be readable in a database: with a key that lies elsewhere, so that a copy of the
// database alone is worth nothing.
//
// What enters: the site's key, from a file or from a program of the site's, and secrets. What leaves: boxes, which are text,
// and on the way back secrets. A box opens in the one place that it was made for: a table, a column and a row.
package sealing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/chacha20poly1305"
)

// prefix is what every box begins with: the word, and the version of the form.
const prefix = "sealed:1:"

// ErrNoKey is returned for a box whose key is not at hand.
var ErrNoKey = errors.New("the key is missing")

// key is one key of 32 bytes.
type key struct {
	id     string
	secret [chacha20poly1305.KeySize]byte
}

// Ring is the keys of a site, from one source. Its methods may be called from any goroutine.
type Ring struct {
	source source

	mu   sync.Mutex
	keys []key // the first is the one to seal with
}

// source is where a ring's text lies.
type source interface {
	read(ctx context.Context) (text string, err error)
	String() string // for people
}

// Load reads the keys from their source, again if need be. A file that is not there is no error: the ring is empty.
func (r *Ring) Load(ctx context.Context) error {
	text, err := r.source.read(ctx)
	if err != nil {
		return err
	}
	keys, err := parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", r.source, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = keys
	return nil
}

// parse reads a key a line, in base64. Empty lines and those that begin with # are comments. Its errors repeat nothing.
func parse(text string) (keys []key, err error) {
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		bytes, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(bytes) != chacha20poly1305.KeySize {
			return nil, fmt.Errorf("line %d is no key of 32 bytes in base64; make one by: head -c 32 /dev/urandom | base64", i+1)
		}
		k := key{id: idOf(bytes)}
		copy(k.secret[:], bytes)
		if !slices.ContainsFunc(keys, func(known key) bool { return known.id == k.id }) {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

// idOf names a key without telling anything of it.
func idOf(secret []byte) string {
	sum := sha256.Sum256(append([]byte("muster site key\x00"), secret...))
	return hex.EncodeToString(sum[:8])
}

// newLine makes a key, as a line of a file.
func newLine() string {
	var secret [chacha20poly1305.KeySize]byte
	_, _ = rand.Read(secret[:])
	return base64.StdEncoding.EncodeToString(secret[:])
}

// IDs lists the names of the keys, that of the one to seal with first.
func (r *Ring) IDs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make([]string, len(r.keys))
	for i, k := range r.keys {
		ids[i] = k.id
	}
	return ids
}

// Source says where the keys come from, for people.
func (r *Ring) Source() string { return r.source.String() }

// find returns a key by its name, looking at the source again if it is not known.
func (r *Ring) find(ctx context.Context, id string) (key, error) {
	for again := false; ; again = true {
		r.mu.Lock()
		i := slices.IndexFunc(r.keys, func(k key) bool { return k.id == id })
		var k key
		if i >= 0 {
			k = r.keys[i]
		}
		r.mu.Unlock()
		switch {
		case i >= 0:
			return k, nil
		case again:
			return key{}, fmt.Errorf("%w: it was sealed with key %s, and %s has %s", ErrNoKey, id, r.source, r.held())
		}
		if err := r.Load(ctx); err != nil {
			return key{}, err
		}
	}
}

func (r *Ring) held() string {
	if ids := r.IDs(); len(ids) > 0 {
		return "key " + strings.Join(ids, ", ")
	}
	return "none"
}

// Seal encrypts a secret with the key of that name, for one place.
func (r *Ring) Seal(ctx context.Context, id, place string, secret []byte) (box string, err error) {
	k, err := r.find(ctx, id)
	if err != nil {
		return "", err
	}
	aead, err := chacha20poly1305.NewX(k.secret[:])
	if err != nil {
		return "", err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(secret)+aead.Overhead())
	_, _ = rand.Read(nonce)
	return prefix + k.id + ":" + base64.RawStdEncoding.EncodeToString(aead.Seal(nonce, nonce, secret, bound(k.id, place))), nil
}

// Open decrypts what Seal has made for the same place.
func (r *Ring) Open(ctx context.Context, place, box string) ([]byte, error) {
	id := KeyOf(box)
	if id == "" {
		return nil, fmt.Errorf("%s is not sealed", place)
	}
	k, err := r.find(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", place, err)
	}
	bytes, err := base64.RawStdEncoding.DecodeString(box[len(prefix)+len(id)+1:])
	if err != nil || len(bytes) < chacha20poly1305.NonceSizeX {
		return nil, fmt.Errorf("open %s: the sealed value is damaged", place)
	}
	aead, err := chacha20poly1305.NewX(k.secret[:])
	if err != nil {
		return nil, err
	}
	secret, err := aead.Open(nil, bytes[:aead.NonceSize()], bytes[aead.NonceSize():], bound(id, place))
	if err != nil {
		return nil, fmt.Errorf("open %s: the sealed value is damaged, or was sealed for another place", place)
	}
	return secret, nil
}

// bound is what a box is tied to.
func bound(id, place string) []byte { return []byte("muster\x00" + prefix + id + "\x00" + place) }

// KeyOf names the key of a box; "" if it is none.
func KeyOf(box string) string {
	rest, ok := strings.CutPrefix(box, prefix)
	if !ok {
		return ""
	}
	id, _, _ := strings.Cut(rest, ":")
	return id
}

// Of is the beginning of all boxes of a key.
func Of(id string) string { return prefix + id + ":" }
