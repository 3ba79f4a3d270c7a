package topology

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"muster/internal/drivers/fabric/fabrictest"
	"muster/internal/fabric"
)

// twoRails are two hosts with two adapters each, on two leaves that three cables join.
const twoRails = `#
# Topology file: generated on Sun Nov 22 07:00:00 2026
#
# Initiated from node 0002c90300000010 port 0002c90300000011

vendid=0x2c9
devid=0xc738
sysimgguid=0x2c90200000001
switchguid=0x2c90200000001(2c90200000001)
Switch	36 "S-0002c90200000001"		# "leaf01" enhanced port 0 lid 1 lmc 0
[1]	"H-0002c90300000010"[1](2c90300000011) 		# "n1 mlx5_0" lid 3 4xHDR
[2]	"H-0002c90300000020"[1](2c90300000021) 		# "n2 mlx5_0" lid 4 4xHDR
[34]	"S-0002c90200000002"[34]		# "leaf02" lid 2 4xHDR
[35]	"S-0002c90200000002"[35]		# "leaf02" lid 2 4xHDR
[36][ext 18]	"S-0002c90200000002"[36]		# "leaf02" lid 2 4xHDR

switchguid=0x2c90200000002(2c90200000002)
Switch	36 "S-0002c90200000002"		# "leaf02" enhanced port 0 lid 2 lmc 0
[1]	"H-0002c90300000110"[1](2c90300000111) 		# "n1 mlx5_2" lid 5 4xHDR
[2]	"H-0002c90300000120"[1](2c90300000121) 		# "n2 mlx5_2" lid 6 4xHDR
[34]	"S-0002c90200000001"[34]		# "leaf01" lid 1 4xHDR
[35]	"S-0002c90200000001"[35]		# "leaf01" lid 1 4xHDR
[36]	"S-0002c90200000001"[36][ext 18]		# "leaf01" lid 1 4xHDR

caguid=0x2c90300000010
Ca	1 "H-0002c90300000010"		# "n1 mlx5_0"
[1](2c90300000011) 	"S-0002c90200000001"[1]		# lid 3 lmc 0 "leaf01" lid 1 4xHDR

caguid=0x2c90300000020
Ca	1 "H-0002c90300000020"		# "n2 mlx5_0"
[1](2c90300000021) 	"S-0002c90200000001"[2]		# lid 4 lmc 0 "leaf01" lid 1 4xHDR

caguid=0x2c90300000110
Ca	1 "H-0002c90300000110"		# "n1 mlx5_2"
[1](2c90300000111) 	"S-0002c90200000002"[1]		# lid 5 lmc 0 "leaf02" lid 2 4xHDR

caguid=0x2c90300000120
Ca	1 "H-0002c90300000120"		# "n2 mlx5_2"
[1](2c90300000121) 	"S-0002c90200000002"[2]		# lid 6 lmc 0 "leaf02" lid 2 4xHDR
`

const lldp = `machine=n2
lldp.eno1.via=LLDP
lldp.eno1.rid=1
lldp.eno1.chassis.mac=00:1c:73:00:00:01
lldp.eno1.chassis.name=tor1
lldp.eno1.port.ifname=Ethernet2
machine=n1
lldp.eno1.chassis.mac=00:1c:73:00:00:01
lldp.eno1.chassis.name=tor1
lldp.eno1.port.ifname=Ethernet1
lldp.eno2.100.chassis.mac=00:1c:73:00:00:02
lldp.eno2.100.chassis.name=tor2
lldp.eno2.100.port.local=7
`

func mustRead(t testing.TB, text string) *Graph {
	t.Helper()
	g, err := Read(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestASnapshotTellsLeafRailAndLinks(t *testing.T) {
	g := mustRead(t, twoRails)
	want := &Graph{
		Switches: []Switch{{"0x0002c90200000001", "leaf01"}, {"0x0002c90200000002", "leaf02"}},
		Ports: []Port{
			{0x2c90300000011, 0x2c90300000010, "n1", "mlx5_0/1", 0, 0, "1"},
			{0x2c90300000111, 0x2c90300000110, "n1", "mlx5_2/1", 1, 1, "1"},
			{0x2c90300000021, 0x2c90300000020, "n2", "mlx5_0/1", 0, 0, "2"},
			{0x2c90300000121, 0x2c90300000120, "n2", "mlx5_2/1", 1, 1, "2"},
		},
		Links: []Link{{0, 1, 3}},
	}
	if !reflect.DeepEqual(g, want) {
		t.Errorf("got  %+v\nwant %+v", g, want)
	}
	if leaf, known := leafOf(g, 0x2c90300000121); !known || leaf.Name != "leaf02" {
		t.Error(leaf, known)
	}
	if _, known := leafOf(g, 7); known {
		t.Error("a port that nobody has hangs somewhere")
	}
	if hops(g, 0, 0) != 0 || hops(g, 0, 1) != 1 || cables(g, 0) != 3 {
		t.Error(hops(g, 0, 0), hops(g, 0, 1), cables(g, 0))
	}
	if text := g.String(); text != "2 hosts with 4 ports on 2 leaves, 2 switches" {
		t.Error(text)
	}
}

func TestHopsInATreeAreNoneOnALeafAndTwoByASpine(t *testing.T) {
	g := mustRead(t, fabrictest.FatTree(1000, 32, 4))
	index := map[string]int{}
	for i, s := range g.Switches {
		index[s.ID] = i
	}
	leaf := func(i int) int { return index[fabrictest.Leaf(i).String()] }
	for i, want := range map[int]int{0: 0, 1: 2, 31: 2} {
		if got := hops(g, leaf(0), leaf(i)); got != want {
			t.Errorf("leaf 0 to leaf %d: %d hops, not %d", i, got, want)
		}
	}
	got, known := leafOf(g, fabrictest.HostPort(33))
	if !known || got.Name != "leaf1" || len(g.Ports) != 1000 || g.Leaves() != 32 {
		t.Error(got, known, g)
	}
}

func TestHostsSeeTheirSwitchByLLDP(t *testing.T) {
	g := mustRead(t, lldp)
	want := &Graph{
		Switches: []Switch{{"00:1c:73:00:00:01", "tor1"}, {"00:1c:73:00:00:02", "tor2"}},
		Ports: []Port{
			{Host: "n1", Interface: "eno1", At: "Ethernet1"}, {Host: "n1", Interface: "eno2.100", Rail: 1, Switch: 1, At: "7"},
			{Host: "n2", Interface: "eno1", At: "Ethernet2"},
		},
	}
	if !reflect.DeepEqual(g, want) {
		t.Errorf("got  %+v\nwant %+v", g, want)
	}
	if hops(g, 0, 1) != 2 {
		t.Error("between switches of which nothing is known", hops(g, 0, 1))
	}
}

func TestWhatIsNoSnapshotIsRefusedWithItsLine(t *testing.T) {
	cut := twoRails[:strings.Index(twoRails, "caguid=0x2c90300000110")]
	for name, c := range map[string]struct{ text, want string }{
		"nothing":           {"", "line 1: no node before the end"},
		"another program's": {"CA 'mlx5_0'\n", `line 1: "CA 'mlx5_0'" is not output of ibnetdiscover`},
		"cut off": {cut,
			"line 19: S-0002c90200000002[1] has a cable to H-0002c90300000110[1], which is not in the text"},
		"a node twice": {twoRails + `Ca	1 "H-0002c90300000120"		# "n2 mlx5_2"`, "is described twice"},
		"two cables": {strings.Replace(twoRails, "[2]\t\"H-0002c90300000020\"", "[1]\t\"H-0002c90300000020\"", 1),
			"line 12: port S-0002c90200000001[1] has a second cable"},
		"ends that differ": {strings.Replace(twoRails, "[34]\t\"S-0002c90200000002\"[34]",
			"[33]\t\"S-0002c90200000002\"[34]", 1), "line 21 says has one to S-0002c90200000001[34]"},
		"a port of nobody": {`[1]	"S-0002c90200000001"[1]`, "line 1: a port before any node"},
		"a port without a GUID": {strings.Replace(twoRails, "[1](2c90300000011) \t\"S", "[1] \t\"S", 1),
			"line 27: port H-0002c90300000010[1] has no GUID"},
		"a port of GUID 0": {strings.Replace(twoRails, "[1](2c90300000011) \t\"S", "[1](0) \t\"S", 1),
			"line 27: port H-0002c90300000010[1]: "},
		"a high port":          {strings.Replace(twoRails, "[36]", "[999]", 1), "line 15: a port's number is at most 255"},
		"nobody's neighbour":   {"lldp.eth0.chassis.mac=00:1c:73:00:00:01\n", "line 1: a line machine=NAME must come first"},
		"a nameless machine":   {"machine=\n", "line 1: machine= without a name"},
		"LLDP without a value": {"machine=n1\nlldp.eth0.chassis.mac\n", "line 2: "},
		"no chassis": {"machine=n1\nlldp.eth0.port.ifname=1\n",
			"line 2: the neighbour of n1 at eth0 has no chassis.mac"},
		"LLDP without any": {"machine=n1\n", "no interface has a neighbour"},
		"other words":      {"machine=n1\nhello\n", `line 2: "hello" is not output`},
	} {
		if _, err := Read(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; it should say %q", name, err, c.want)
		}
	}
}

func TestMachinesOnTheSameLeavesAreInOnePlace(t *testing.T) {
	g := mustRead(t, twoRails)
	m := g.Map("ib0", []Machine{
		{ID: "a", Adapters: []fabric.GUID{0x2c90300000010, 0x2c90300000110}},
		{ID: "b", Adapters: []fabric.GUID{0x2c90300000120, 0x2c90300000020}},
		{ID: "c", Adapters: []fabric.GUID{0x2c90300000999}},
		{ID: "d", Name: "n1"}, // InfiniBand knows no names
	})
	a, known := m.At("a")
	b, also := m.At("b")
	if !known || !also || a != b || len(m.Places) != 1 || m.Places[0] != (Place{"leaf01+leaf02", 3}) {
		t.Error(a, known, b, also, m.Places)
	}
	for _, id := range []string{"c", "d"} {
		if _, known := m.At(id); known {
			t.Errorf("%s has no port, and is on the map", id)
		}
	}
}

func TestTheLongestRailCounts(t *testing.T) {
	g := &Graph{
		Switches: []Switch{{ID: "1", Name: "a"}, {ID: "2", Name: "b"}, {ID: "3", Name: "top"}, {ID: "4", Name: "a"},
			{ID: "5", Name: "alone"}},
		Links: []Link{{0, 2, 4}, {1, 2, 4}, {2, 3, 1}},
		Ports: []Port{
			{Adapter: 1, Host: "x", Rail: 0, Switch: 0}, {Adapter: 2, Host: "x", Rail: 1, Switch: 1},
			{Adapter: 3, Host: "y", Rail: 0, Switch: 0}, {Adapter: 4, Host: "y", Rail: 1, Switch: 3},
			{Adapter: 5, Host: "z", Rail: 2, Switch: 3},
			{Adapter: 6, Host: "lost", Rail: 0, Switch: 4},
		},
	}
	m := g.Map("ib0", []Machine{{ID: "x", Adapters: []fabric.GUID{1, 2}}, {ID: "y", Adapters: []fabric.GUID{3, 4}},
		{ID: "z", Adapters: []fabric.GUID{5}}, {ID: "lost", Adapters: []fabric.GUID{6}}})
	for pair, want := range map[[2]string]int{{"x", "x"}: 0, {"x", "y"}: 2, {"x", "z"}: 2, {"y", "z"}: 0,
		{"x", "lost"}: Unreachable, {"z", "lost"}: Unreachable} {
		a, _ := m.At(pair[0])
		b, _ := m.At(pair[1])
		if got := m.Hops(a, b); got != want {
			t.Errorf("%v: %d hops, not %d", pair, got, want)
		}
	}
	names := map[string]bool{}
	for _, p := range m.Places {
		names[p.Name] = true
	}
	if len(names) != len(m.Places) {
		t.Errorf("two places have one name: %+v", m.Places)
	}
}

func TestAGraphSurvivesItsRow(t *testing.T) {
	for _, text := range []string{twoRails, lldp} {
		g := mustRead(t, text)
		row, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		var back Graph
		if err := json.Unmarshal(row, &back); err != nil || !reflect.DeepEqual(g, &back) || back.Check() != nil {
			t.Errorf("%v %v\n%+v\n%+v", err, back.Check(), g, back)
		}
	}
	for _, bad := range []Graph{{Ports: []Port{{Switch: 0}}}, {Switches: make([]Switch, 2), Links: []Link{{1, 0, 1}}},
		{Switches: make([]Switch, 2), Links: []Link{{0, 1, 0}}}} {
		if bad.Check() == nil {
			t.Errorf("%+v passes", bad)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{"", twoRails, lldp, fabrictest.FatTree(3, 2, 1),
		strings.Replace(twoRails, "n1 mlx5_0", `"# "`, 1), "[1]", "machine=x\nlldp.a.b=\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := Read(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") {
				t.Fatalf("%v has no line", err)
			}
			return
		}
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
		var stands []Machine
		for i, p := range g.Ports {
			s := Machine{ID: fmt.Sprint(i), Name: p.Host}
			if p.Adapter != 0 {
				s.Adapters = []fabric.GUID{p.Adapter}
			}
			stands = append(stands, s)
		}
		m := g.Map("x", stands[:min(len(stands), 20)])
		for i := range m.Places {
			for j := range m.Places {
				if m.Hops(i, j) != m.Hops(j, i) || m.Hops(i, i) != 0 {
					t.Fatalf("places %d and %d: %d and %d hops", i, j, m.Hops(i, j), m.Hops(j, i))
				}
			}
		}
	})
}

// leafOf is the switch that a port hangs on, by the port's own GUID or its adapter's.
func leafOf(g *Graph, guid fabric.GUID) (Switch, bool) {
	for _, p := range g.Ports {
		if p.GUID == guid || p.Adapter == guid {
			return g.Switches[p.Switch], true
		}
	}
	return Switch{}, false
}

func hops(g *Graph, a, b int) int { return g.from(a, g.neighbours())[b] }

// cables is how many lead from a switch to other switches.
func cables(g *Graph, of int) (n int) {
	for _, l := range g.Links {
		if l.A == of || l.B == of {
			n += l.Count
		}
	}
	return n
}
