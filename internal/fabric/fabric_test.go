package fabric

import (
	"errors"
	"reflect"
	"testing"
)

func TestGUIDsAreReadAsTheyAreWritten(t *testing.T) {
	for _, text := range []string{"0x0002c903000a0b0c", "0002c903000a0b0c", "0002:c903:000a:0b0c", "00:02:c9:03:00:0a:0b:0c",
		"0x2c903000a0b0c"} {
		if g, err := ParseGUID(text); err != nil || g != 0x0002c903000a0b0c {
			t.Errorf("%s: %s, %v", text, g, err)
		}
	}
	for _, text := range []string{"", "0", "0x0", "0xffffffffffffffff", "2c903000a0b0c", "0002:c903:000a", "0002:c903:000a:0b0",
		"0x12345678901234567", "x", "0002-c903-000a-0b0c", "+002c903000a0b0cc"} {
		if g, err := ParseGUID(text); err == nil {
			t.Errorf("%q: %s", text, g)
		}
	}
}

func FuzzParseGUID(f *testing.F) {
	for _, text := range []string{"0x0002c903000a0b0c", "0002:c903:000a:0b0c", "00:02:c9:03:00:0a:0b:0c", ":::", "0x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := ParseGUID(text)
		if err != nil {
			return
		}
		if again, err := ParseGUID(g.String()); err != nil || again != g {
			t.Errorf("%q is %s, which is read as %s, %v", text, g, again, err)
		}
	})
}

func TestComparing(t *testing.T) {
	i := Intent{
		Partitions: []Partition{{Key: 1, Members: map[GUID]Membership{1: Full, 2: Full}},
			{Key: 2, Members: map[GUID]Membership{2: Limited, 5: Full}}},
		Managers: []GUID{9},
	}
	seen := Tables{
		1: {Entries: []Entry{0x7fff, 0x8001}},         // as it should be
		2: {Entries: []Entry{0x7fff, 0x8001, 0x8002}}, // full where it should be limited
		3: {Entries: []Entry{0x7fff}},                 // in no partition of the intent
		4: {Entries: []Entry{0xffff}},                 // what a manager that fails open gives to all
		9: {Entries: []Entry{0xffff}},
	}
	want := []Difference{
		{Port: 2, Surplus: []Entry{0x8002}, Missing: []Entry{0x0002}},
		{Port: 4, Surplus: []Entry{0xffff}, Missing: []Entry{0x7fff}},
		{Port: 5, Silent: true},
	}
	if got := Compare(i, seen); !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}

func TestIntentsThatWouldMixTenantsAreRefused(t *testing.T) {
	good := Intent{Partitions: []Partition{{Key: FirstKey}, {Key: LastKey}}, Managers: []GUID{1}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]Intent{
		"zero":     {Partitions: []Partition{{Key: 0}}, Managers: []GUID{1}},
		"default":  {Partitions: []Partition{{Key: DefaultKey}}, Managers: []GUID{1}},
		"16 bits":  {Partitions: []Partition{{Key: 0x8001}}, Managers: []GUID{1}},
		"twice":    {Partitions: []Partition{{Key: 1}, {Key: 1}}, Managers: []GUID{1}},
		"unmanned": {Partitions: []Partition{{Key: 1}}},
	} {
		if err := bad.Check(); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAGuestsPortsAreKnownBeforeItIs(t *testing.T) {
	seen := map[GUID]string{}
	for _, node := range []string{"n1", "n11", "n2", ""} {
		for number := range 12 {
			g := GuestPort(node, number)
			if g != GuestPort(node, number) || g>>56 != 0x06 {
				t.Errorf("%s", g)
			}
			if other, twice := seen[g]; twice {
				t.Errorf("%s is port %d of %q and %s", g, number, node, other)
			}
			seen[g] = node
		}
	}
}
