package diags

import (
	"reflect"
	"testing"

	"muster/internal/drivers/fabric/fabrictest"
	"muster/internal/fabric"
)

const table = `   0: 0x7fff 0x8001 0x0000 0x0002 0x0000 0x0000 0x0000 0x0000
   8: 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000
16 pkeys capacity for this port
`

func TestTablesAreReadWholeOrNotAtAll(t *testing.T) {
	want := fabric.Port{Entries: []fabric.Entry{0x7fff, 0x8001, 0x0002}, Capacity: 16}
	if p, err := parseTable(table); err != nil || !reflect.DeepEqual(p, want) {
		t.Errorf("%v, %v", p, err)
	}
	for n := range len(table) - 1 {
		if p, err := parseTable(table[:n]); err == nil {
			t.Errorf("the first %d bytes are taken for a table: %v", n, p)
		}
	}
	text := "port 0x0002c90300100011\n" + table + "port 0x0002c90300100021\nsmpquery: iberror: failed: operation pkeys\nfailed\n"
	if all, err := parseTables(text); err != nil || !reflect.DeepEqual(all, fabric.Tables{0x0002c90300100011: want}) {
		t.Errorf("%v, %v", all, err)
	}
}

func TestPlacesAreReadFromASnapshot(t *testing.T) {
	places, err := Places([]byte(fabrictest.FatTree(5, 2, 1)))
	if err != nil || len(places) != 5 || places[fabrictest.HostPort(4)] != (Place{"H-0002c90300100040", 9}) {
		t.Errorf("%v, %v", places, err)
	}
	for name, text := range map[string]string{
		"nothing":      "",
		"a port twice": fabrictest.FatTree(2, 2, 1) + fabrictest.FatTree(1, 2, 1),
		"LIDs of 17 bits": "Ca\t1 \"H-0002c90300100040\"\n[1](2c90300100041) \t\"S-0002c90200100020\"[1]\t\t# lid 99999 lmc " +
			"0 \"leaf2\" lid 4 4xFDR\n",
		"no adapters' own": "[1](2c90300100041) \t\"S-0002c90200100020\"[1]\t\t# lid 9 lmc 0 \"leaf2\" lid 4 4xFDR\n",
	} {
		if places, err := Places([]byte(text)); err == nil {
			t.Errorf("%s: %v", name, places)
		}
	}
}

func TestTheMasterIsReadFromWhatSminfoSays(t *testing.T) {
	if g, err := parseMaster([]byte(
		"sminfo: sm lid 4 sm guid 0x2c90300100001, activity count 737 priority 0 state 3 SMINFO_MASTER\n")); err != nil ||
		g != 0x0002c90300100001 {
		t.Errorf("%s, %v", g, err)
	}
	if g, err := parseMaster([]byte(
		"sminfo: sm lid 4 sm guid 0x2c90300100001, activity count 737 priority 0 state 2 SMINFO_STANDBY\n")); err == nil {
		t.Errorf("a standby one: %s", g)
	}
}

func FuzzParseTables(f *testing.F) {
	f.Add("port 0x0002c90300100011\n" + table)
	f.Add("port 0x0002c90300100021\nfailed\nport x\n")
	f.Add("65535 pkeys capacity for this port\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseTables(text)
		for g, p := range all {
			if err != nil || p.Capacity < 1 || g == 0 {
				t.Errorf("%q: %v", text, all)
			}
		}
		if _, err := parseMaster([]byte(text)); err == nil && len(text) < 40 {
			t.Errorf("%q names a master", text)
		}
	})
}

func FuzzPlaces(f *testing.F) {
	f.Add(fabrictest.FatTree(3, 2, 1))
	f.Add("Ca\t1 \"H-0002c90300100040\"\n[1](0) \"S-0002c90200100020\"[1] # lid 9 lmc 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		places, err := Places([]byte(text))
		if err == nil && len(places) == 0 {
			t.Error("no place, and no error")
		}
		for g, at := range places {
			if g == 0 || at.Node == "" {
				t.Errorf("%q: %v", text, places)
			}
		}
	})
}
