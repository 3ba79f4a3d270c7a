package inventory

import (
	"strings"
	"testing"
	"time"
)

func TestASiteSaysHowLongItIsKeptWhoDidWhat(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 400 * 24 * time.Hour, "audit: {keep: 30d}": 30 * 24 * time.Hour} {
		c, err := parseCatalogue([]byte(builtin + text))
		if err != nil || c.AuditKeep != want {
			t.Errorf("%q: %s %v", text, c.AuditKeep, err)
		}
	}
	for _, wrong := range []string{"1h", "forever", "20000d"} {
		if _, err := parseCatalogue([]byte(builtin + "audit: {keep: " + wrong + "}")); err == nil ||
			!strings.Contains(err.Error(), "audit.keep, how long") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
