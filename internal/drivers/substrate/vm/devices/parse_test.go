package devices

import (
	"encoding/binary"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// vfAttributes are those of an interface with one virtual function, as rtnl_fill_vfinfo writes them.
func vfAttributes(number uint32, more ...*nl.RtAttr) []byte {
	word := func(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
	pair := func(v uint32) []byte { return append(word(number), word(v)...) }
	list := nl.NewRtAttr(unix.IFLA_VFINFO_LIST, nil)
	info := list.AddRtAttr(nl.IFLA_VF_INFO, nil)
	mac := append(word(number), make([]byte, 32)...)
	copy(mac[4:], net.HardwareAddr{2, 0, 0, 0, 0, 9})
	info.AddRtAttr(nl.IFLA_VF_MAC, mac)
	info.AddRtAttr(nl.IFLA_VF_VLAN, append(pair(12), word(0)...))
	info.AddRtAttr(nl.IFLA_VF_SPOOFCHK, pair(1))
	info.AddRtAttr(nl.IFLA_VF_TRUST, pair(0xffffffff))
	info.AddRtAttr(nl.IFLA_VF_LINK_STATE, pair(2))
	guid := append(pair(0), binary.NativeEndian.AppendUint64(nil, 0x0011223344556677)...)
	info.AddRtAttr(nl.IFLA_VF_IB_NODE_GUID, guid)
	var text []byte
	for _, a := range append(more, list) {
		text = append(text, a.Serialize()...)
	}
	return text
}

func TestVirtualFunctionsAreReadFromNetlink(t *testing.T) {
	got, err := parseVF(vfAttributes(3, nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated("ens1"))), 3)
	if err != nil {
		t.Fatal(err)
	}
	// Trust is not there: the driver does not tell.
	want := map[string]string{"mac": "02:00:00:00:00:09", "vlan": "12", "spoofchk": "on", "state": "disable",
		"node_guid": "00:11:22:33:44:55:66:77"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := parseVF(vfAttributes(3), 4); err == nil || !strings.Contains(err.Error(), "no virtual function 4") {
		t.Errorf("function 4: %v", err)
	}
}

func FuzzParseVF(f *testing.F) {
	f.Add(vfAttributes(0), 0)
	f.Add(vfAttributes(7)[:60], 7)
	f.Add([]byte{8, 0, 22, 128, 4, 0, 1, 128}, 0)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, attributes []byte, number int) {
		values, err := parseVF(attributes, number)
		if err == nil && values["mac"] == "" {
			t.Errorf("a virtual function without a MAC: %v", values)
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	for _, r := range []record{
		{PCI: "0000:3b:00.1", Guest: "g1", Parent: "0000:3b:00.0", Number: 0, MAC: "02:00:00:00:00:01", VLAN: 12},
		{PCI: "10000:3b:1f.7", Guest: "g1", Returning: true, Lost: "it does not answer"},
	} {
		text, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"pci":"../../etc/passwd","guest":"g1"}`))
	f.Add([]byte(`{"pci":"0000:3b:00.1","guest":"g1","number":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseRecord(text)
		if err == nil && (!isAddress(r.PCI) || r.Guest == "" || r.Number < 0) {
			t.Errorf("accepted %+v", r)
		}
	})
}

func FuzzIdentify(f *testing.F) {
	f.Add(make([]byte, 4096))
	f.Add(slices.Repeat([]byte{0xff}, 4096))
	f.Add(append([]byte{1, 0, 0, 0}, make([]byte, 124)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 128 {
			return // identify has refused it
		}
		p := parsePrimary(data)
		if n, err := share(p.queues, 4, p.mostQueues, p.queueGrain, 2); err == nil &&
			(n < 2 || n > p.mostQueues || n > p.queues/4) {
			t.Errorf("%d of %+v", n, p)
		}
		if n := len(parseSecondaries(data)); n > 127*32 || n*32 > len(data) {
			t.Errorf("%d secondary controllers", n)
		}
		if n := len(parseIDs(data)); 2+2*n > len(data) {
			t.Errorf("%d controllers", n)
		}
		if n := len(parseNamespaces(data)); 4*n > len(data) {
			t.Errorf("%d namespaces", n)
		}
	})
}

func TestAddressesAreWritten(t *testing.T) {
	for in, want := range map[string]string{
		"0011:2233:4455:6677": "00:11:22:33:44:55:66:77", "00:11:22:33:44:55:AA:77": "00:11:22:33:44:55:aa:77",
		"": "", "0000:0000:0000:0000": "", "0011:2233:4455:66": "", "0011:2233:4455:667g": "",
	} {
		if got, err := guidBytes(in); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	for in, want := range map[string]bool{"0000:3b:00.1": true, "10000:01:1f.7": true, "0000:3b:00.8": false, "3b:00.1": false,
		"0000:3b:00.1/..": false} {
		if isAddress(in) != want {
			t.Errorf("%q is an address: %v", in, !want)
		}
	}
}
