package power

import (
	"encoding/json"
	"net"
	"net/netip"
	"testing"

	"github.com/bougou/go-ipmi/pkg/command/app"
	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/types"
)

func TestBroadcastIsTheLastAddress(t *testing.T) {
	for network, wanted := range map[string]string{
		"10.78.0.1/16": "10.78.255.255", "10.0.0.5/30": "10.0.0.7", "10.0.0.1/32": "10.0.0.1", "10.0.0.1/0": "255.255.255.255",
	} {
		if got := broadcast(netip.MustParsePrefix(network)).String(); got != wanted {
			t.Errorf("%s: %s, not %s", network, got, wanted)
		}
	}
}

// FuzzARP: what anybody on the segment sends.
func FuzzARP(f *testing.F) {
	f.Add([]byte{})
	f.Add(arpProbe(net.HardwareAddr{2, 0, 0, 0, 0, 1}, netip.MustParseAddr("10.0.0.1")))
	f.Add(arpProbe(net.HardwareAddr{2, 0, 0, 0, 0, 1}, netip.MustParseAddr("10.0.0.1"))[:27])
	f.Add(make([]byte, 128))
	f.Fuzz(func(t *testing.T, p []byte) {
		if mac, ok := arpSender(p); ok != (len(mac) == 6) {
			t.Errorf("% x is from %v", p, mac)
		}
	})
}

// FuzzRMCP: what anybody sends us in a BMC's name, and what a BMC may say in a session.
func FuzzRMCP(f *testing.F) {
	f.Add([]byte{})
	f.Add(frame(sessionFlags, 1, 1, make([]byte, 32)))
	f.Add(frame(0x11, 0, 0, []byte{1, 0, 0, 0, 1, 0, 0, 0}))
	f.Add(append(frame(sessionFlags, 7, 1, make([]byte, 17)), make([]byte, 20)...))
	f.Add([]byte{0x81, 0x04, 0x7b, 0x20, 0x08, 0x01, 0x00, 0x01, 0x00, 0x00, 0xd6})
	f.Add([]byte{0x81, 0x04, 0x7b, 0x20, 0x08, 0x09, 0x00, 0x01, 0x05, 0x80, 0, 0, 0, 0, 0xd6})
	s := rmcp{integrity: types.IntegrityAlg_HMAC_SHA256_128, ours: 7, k1: make([]byte, 32), k2: make([]byte, 32)}
	f.Fuzz(func(t *testing.T, data []byte) {
		if message, ok := s.unseal(data); ok {
			t.Errorf("% x was taken for % x", data, message)
		}
		for request, response := range map[types.Request]types.Response{
			&chassis.GetChassisStatusRequest{}:          &chassis.GetChassisStatusResponse{},
			&chassis.GetSystemBootOptionsParamRequest{}: &chassis.GetSystemBootOptionsParamResponse{},
			&chassis.SetSystemBootOptionsParamRequest{}: &chassis.SetSystemBootOptionsParamResponse{},
			&chassis.ChassisControlRequest{}:            &chassis.ChassisControlResponse{},
			&app.SetSessionPrivilegeLevelRequest{}:      &app.SetSessionPrivilegeLevelResponse{},
		} {
			_, answer, ok := parseAnswer(data, request.Command(), 2)
			if ok && response.Unpack(answer) == nil {
				if options, ok := response.(*chassis.GetSystemBootOptionsParamResponse); ok {
					var flags types.BootOptionParam_BootFlags
					if flags.Unpack(options.ParamData) == nil && len(options.ParamData) != 5 {
						t.Errorf("% x are boot flags", options.ParamData)
					}
				}
			}
		}
	})
}

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
