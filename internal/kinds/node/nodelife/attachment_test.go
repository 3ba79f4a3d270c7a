package nodelife

import (
	"testing"

	"muster/internal/fabric"
	fabrics "muster/internal/kinds/fabric"
)

func TestWhatAPortHoldsDecidesHowFarItsNodeMayGo(t *testing.T) {
	const told = 7
	own := fabric.Key(5)
	port := func(read int64, answered bool, surplus []fabric.Entry, entries ...fabric.Entry) fabrics.NodePort {
		return fabrics.NodePort{
			Member: fabrics.Member{GUID: 0x2c903000a0b0c, Wanted: true, Membership: fabric.Full, Since: told}, Key: own,
			Fabric: "ib0", Applied: read, Read: read,
			Seen: fabrics.PortSeen{GUID: 0x2c903000a0b0c, Answered: answered, Entries: entries, Surplus: surplus},
		}
	}
	leaves := port(told, true, nil, own.In(fabric.Full))
	leaves.Wanted = false
	for name, c := range map[string]struct {
		port          fabrics.NodePort
		boots, serves bool
	}{
		"it holds its key":                 {port(told, true, nil, 0x7fff, own.In(fabric.Full)), true, true},
		"its manager was not told":         {port(told-1, true, nil, 0x7fff, own.In(fabric.Full)), false, false},
		"its machine is off":               {port(told, false, nil), true, false},
		"it lacks its key":                 {port(told, true, nil, 0x7fff), false, false},
		"it is a member of the other kind": {port(told, true, nil, 0x7fff, own.In(fabric.Limited)), false, false},
		"it holds another's beside": {port(told, true, []fabric.Entry{0x8006}, 0x7fff, own.In(fabric.Full), 0x8006),
			false, false},
		"it held another's, and now is off": {port(told, false, []fabric.Entry{0x8006}, 0x8006), true, false},
		"its manager lets all in": {port(told, true, []fabric.Entry{0xffff}, 0xffff, own.In(fabric.Full)), false,
			false},
		"it is to have its key no more":       {leaves, false, true},
		"it was told more than it was asked":  {port(told+1, true, nil, own.In(fabric.Full)), true, true},
		"it was read, and its key came later": {port(0, false, nil), false, false},
	} {
		n := nodeView{ports: []fabrics.NodePort{port(told, true, nil, own.In(fabric.Full)), c.port}}
		if why := n.awaitsKeys(); (why == "") != c.boots {
			t.Errorf("%s: it boots: %t, %q", name, c.boots, why)
		}
		if why := n.awaitsPorts(); (why == "") != c.serves {
			t.Errorf("%s: it serves: %t, %q", name, c.serves, why)
		}
	}
}
