package ipmi

import (
	"strings"
	"testing"

	"muster/internal/drivers/power"
)

func TestControls(t *testing.T) {
	for rest, wanted := range map[string]control{
		"://10.0.0.5":         {power.Address{Host: "10.0.0.5", Port: 623}},
		"://n1-bmc.rack:6230": {power.Address{Host: "n1-bmc.rack", Port: 6230}},
		"://[fd00::5]:623":    {power.Address{Host: "fd00::5", Port: 623}},
	} {
		if got, err := parse(rest); err != nil || got != power.Control(wanted) {
			t.Errorf("%s: %v, %v", rest, got, err)
		}
	}
}

// FuzzParse: what is accepted is safe to dial, and what is not is not repeated if it could hold a password.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", ":10.0.0.5", "://10.0.0.5:623", "://[fd00::5]", "://u:p@h", "://h:1:2", "://%41", "://h/",
		"://h?", "://h#"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		c, err := parse(rest)
		if err != nil {
			if _, secret, ok := strings.Cut(rest, "@"); ok && len(secret) > 8 && strings.Contains(err.Error(), secret) {
				t.Errorf("%q: %v", rest, err)
			}
			return
		}
		if c := c.(control); c.Host == "" || c.Port == 0 || strings.ContainsAny(c.Host, "@/?# %\x00\n") {
			t.Errorf("%q: %+v", rest, c)
		}
	})
}
