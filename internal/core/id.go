package core

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
)

// NewID makes a name for life: a letter that tells the kind, and 50 random bits.
func NewID(kind string) string {
	var random [10]byte
	_, _ = rand.Read(random[:])
	return kind + strings.ToLower(base32.StdEncoding.EncodeToString(random[:]))[:10]
}
