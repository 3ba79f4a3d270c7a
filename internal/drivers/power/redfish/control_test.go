package redfish

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/drivers/power"
)

const digest = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"

func TestControls(t *testing.T) {
	var pin [sha256.Size]byte
	for i := range pin {
		pin[i] = byte(i%16) * 0x11
	}
	bmc1 := power.Address{Host: "bmc1", Port: 443}
	for rest, wanted := range map[string]control{
		"://bmc1":  {Address: bmc1},
		"://bmc1/": {Address: bmc1},
		"://[fd00::5]:8443/redfish/v1/Systems/1?certificate=sha256:" + digest: {
			Address: power.Address{Host: "fd00::5", Port: 8443}, system: "/redfish/v1/Systems/1", certificate: &pin},
		"://bmc1/redfish/v1/Systems/System.Embedded.1/": {Address: bmc1, system: "/redfish/v1/Systems/System.Embedded.1"},
	} {
		got, err := parse(rest)
		if diff := cmp.Diff(power.Control(wanted), got, cmp.AllowUnexported(control{})); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", rest, err, diff)
		}
	}
}

// FuzzParse: what is accepted is safe to dial, and what is not is not repeated if it could hold a password.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"://bmc1/redfish/v1/Systems/1?certificate=sha256:" + digest, "://bmc1//..", "://[::1",
		"://u:p@h", "://h?%zz", "://h/redfish/v1/Systems/.."} {
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
		if c := c.(control); c.Host == "" || c.Port == 0 || strings.ContainsAny(c.Host, "@/?# %\x00\n") ||
			strings.ContainsAny(c.system, "?# \x00\n") || strings.Contains(c.system, "..") {
			t.Errorf("%q: %+v", rest, c)
		}
	})
}
