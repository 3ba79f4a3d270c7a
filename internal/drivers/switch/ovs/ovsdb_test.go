package ovs

import (
	"net"
	"reflect"
	"testing"

	switches "muster/internal/drivers/switch"
)

const ovsTable = `{"data":[["p1",5,"access",false],["p2",["set",[]],["set",[]],true],["p3",["set",[4094]],["set",["access"]],true]],"headings":["name","tag","vlan_mode","protected"]}`

func TestPortsOfOpenVSwitchAreRead(t *testing.T) {
	want := []ovsPort{{"p1", 5, "access", false}, {"p2", 0, "", true}, {"p3", 4094, "access", true}}
	if got, err := parsePorts([]byte(ovsTable)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{
		``, `{}`, `{"headings":["name","tag","vlan_mode"],"data":[]}`,
		`{"headings":["name","tag","vlan_mode","protected"],"data":[["p"]]}`,
		`{"headings":["name","tag","vlan_mode","protected"],"data":[["",1,"access",false]]}`,
		`{"headings":["name","tag","vlan_mode","protected"],"data":[["p",["set",[1,2]],"access",false]]}`,
		`{"headings":["name","tag","vlan_mode","protected"],"data":[["p",["map",[]],"access",false]]}`,
		`{"headings":["name","tag","vlan_mode","protected"],"data":[["p","5","access",false]]}`,
	} {
		if got, err := parsePorts([]byte(bad)); err == nil {
			t.Errorf("%s: %+v", bad, got)
		}
	}
}

func TestOnlyAPortThatHoldsIsInASegment(t *testing.T) {
	for want, ports := range map[switches.Segment][]ovsPort{
		switches.Common: {{tag: vlanCommon, protected: true, mode: "access"}, {tag: vlanCommon, protected: true}},
		switches.Hosts:  {{tag: vlanHosts}},
		5:               {{tag: 5}, {tag: 5, mode: "access"}},
		switches.Nowhere: {{}, {tag: vlanCommon}, {tag: 5, protected: true}, {tag: 5, mode: "trunk"},
			{tag: 5, mode: "native-untagged"}, {tag: vlanNone}, {tag: 0, mode: "access"}},
	} {
		for _, p := range ports {
			if got := segmentOf(p); got != want {
				t.Errorf("%+v is in %s, not in %s", p, got, want)
			}
		}
	}
	for _, s := range []switches.Segment{switches.Nowhere, lastCluster + 1, 1<<16 - 1} {
		if n, err := vlan(s); err == nil {
			t.Errorf("%s is VLAN %d", s, n)
		}
	}
}

func FuzzParsePorts(f *testing.F) {
	for _, seed := range []string{ovsTable, `{"headings":[],"data":[[]]}`,
		`{"headings":["name","tag","vlan_mode","protected"],"data":[["p",["set",[[]]],"access",false]]}`, `[`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		ports, err := parsePorts(text)
		for _, p := range ports {
			if err != nil || p.name == "" {
				t.Errorf("%q: %+v, %v", text, p, err)
			}
			if s := segmentOf(p); s != switches.Nowhere {
				if n, err := vlan(s); err != nil || n != p.tag {
					t.Errorf("port with tag %d is in %s, whose VLAN is %d (%v)", p.tag, s, n, err)
				}
			}
		}
	})
}

const ovsPins = ` port  VLAN  MAC                Age
    2  4094  0a:bf:9d:91:88:fc    3
    1  4094  52:54:00:12:34:60  static
LOCAL     5  52:54:00:AA:00:01  static
`

func TestPinsOfOpenVSwitchAreRead(t *testing.T) {
	want := map[pinned]bool{{4094, "52:54:00:12:34:60"}: true, {5, "52:54:00:aa:00:01"}: true}
	if got := parsePins([]byte(ovsPins)); !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}

func FuzzParsePins(f *testing.F) {
	for _, seed := range []string{ovsPins, "1 5 static static", "1 x 52:54:00:12:34:60 static", ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for p := range parsePins(text) {
			if mac, err := net.ParseMAC(p.mac); err != nil || mac.String() != p.mac {
				t.Errorf("%q: %+v", text, p)
			}
		}
	})
}
