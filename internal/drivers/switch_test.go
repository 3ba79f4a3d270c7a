package drivers_test

import (
	"strings"
	"testing"

	"muster/internal/drivers"
	switches "muster/internal/drivers/switch"
	"muster/internal/inventory"
)

func TestANetworkWithoutASwitchSaysSoAloud(t *testing.T) {
	all := drivers.Switches()
	for _, kind := range []string{"", "none"} {
		n := inventory.Network{Name: "boot", Interface: "br7", Switch: kind}
		text := all.Warning(n)
		if !strings.Contains(text, "NOTHING KEEPS MACHINES OF NETWORK boot APART") ||
			!strings.Contains(text, `switch is "none"`) || !strings.Contains(text, "--switch bridge or ovs,") {
			t.Errorf("%q", text)
		}
		s, err := all.Open(n)
		if err != nil || all.Check(n) != nil {
			t.Fatal(err, all.Check(n))
		}
		if bridge, err := s.Open(t.Context(), 5); err != nil || bridge != "br7" {
			t.Error(bridge, err)
		}
		if err := s.Put(t.Context(), switches.Port{Name: "x"}, 5); err != nil {
			t.Error(err)
		}
		if err := s.Close(t.Context(), 5); err != nil {
			t.Error(err)
		}
		if ports, err := s.Ports(t.Context()); err != nil || len(ports) > 0 {
			t.Errorf("it claims to know where ports are: %v, %v", ports, err)
		}
	}
	if text := all.Warning(inventory.Network{Switch: "bridge"}); text != "" {
		t.Error(text)
	}
	if _, err := all.Open(inventory.Network{Switch: "cisco"}); err == nil ||
		!strings.Contains(err.Error(), "use none, bridge or ovs") {
		t.Error(err)
	}
}

func TestWhatANetworkSaysOfItsSwitchIsChecked(t *testing.T) {
	const socket = "unix:/run/openvswitch/db.sock"
	for _, c := range []struct{ kind, bridge, database, why string }{
		{"", "", "", ""}, {"none", "", "", ""}, {"bridge", "", "", ""}, {"ovs", "b", socket, ""},
		{"cisco", "", "", `switch: "cisco"; use none, bridge or ovs`},
		{"bridge", "b", "", "only switch ovs has them"}, {"", "", socket, "only switch ovs has them"},
		{"ovs", "", socket, "switch_bridge: missing"},
	} {
		err := drivers.Switches().Check(inventory.Network{Switch: c.kind, SwitchBridge: c.bridge, SwitchDatabase: c.database})
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, database := range []string{
		"unix:/run/openvswitch/db.sock,tcp:192.0.2.1:6640", "tcp:192.0.2.1:6640", "unix:/run/../tmp/db.sock", "unix:run/db.sock",
		"unix:/a b", "unix:/", "ssl:192.0.2.1:6640",
	} {
		if err := drivers.Switches().Check(inventory.Network{Switch: "ovs", SwitchBridge: "b",
			SwitchDatabase: database}); err == nil {
			t.Errorf("database %q is taken", database)
		}
	}
}
