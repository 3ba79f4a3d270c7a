package redfish

import (
	"encoding/json"
	"testing"
)

// FuzzSystem: what a Redfish service says of a system.
func FuzzSystem(f *testing.F) {
	f.Add([]byte(`{"PowerState":"On","Boot":{"BootSourceOverrideMode":"UEFI"},"Actions":{"#ComputerSystem.Reset":{"target":"/a"}}}`), "Dell", `"1-gzip"`)
	f.Add([]byte(`{"PowerState":null,"Boot":null,"Actions":[]}`), "Super Micro Computer, Inc.", "W/\"-gzip\"")
	f.Add([]byte(`[]`), "AMI", "-gzip")
	f.Fuzz(func(t *testing.T, body []byte, vendor, etag string) {
		var s system
		if json.Unmarshal(body, &s) == nil && s.state() == "" {
			t.Errorf("%s has no state", body)
		}
		w := wayOf(vendor, s.Manufacturer, s.Model)
		if once := w.etag(etag); len(once) > len(etag) {
			t.Errorf("%q became %q", etag, once)
		}
	})
}
