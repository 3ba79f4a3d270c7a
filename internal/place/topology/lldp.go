package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	machineKey = "machine="
	lldpKey    = "lldp."
)

// neighbour is what lldpctl says of one interface.
type neighbour struct {
	machine, name string
	line          int
	fields        map[string]string // "chassis.mac", "port.ifname"
}

// ParseLLDP reads what `lldpctl -f keyvalue` prints on machines, one after the other, each after a line "machine=NAME" with
// its name in the inventory. Hosts see the switch that they hang on, and nothing of what is between switches. Of an interface
// with several neighbours the last one counts. Errors name the line.
func ParseLLDP(text string) (*Graph, error) {
	var all []*neighbour
	machine, number := "", 0
	found := map[[2]string]*neighbour{}
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		name, isMachine := strings.CutPrefix(line, machineKey)
		rest, isLLDP := strings.CutPrefix(line, lldpKey)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case isMachine && name == "":
			return nil, fmt.Errorf("line %d: machine= without a name", number)
		case isMachine:
			machine = name
		case !isLLDP:
			return nil, fmt.Errorf("line %d: %.60q is not output of `lldpctl -f keyvalue`", number, line)
		case machine == "":
			return nil, fmt.Errorf("line %d: a line machine=NAME must come first, to say whose neighbour this is", number)
		default:
			key, value, told := strings.Cut(rest, "=")
			port, field, deep := cutInterface(key)
			if !told || !deep {
				return nil, fmt.Errorf("line %d: %.60q is not lldp.INTERFACE.FIELD=VALUE", number, line)
			}
			n := found[[2]string{machine, port}]
			if n == nil {
				n = &neighbour{machine: machine, name: port, line: number, fields: map[string]string{}}
				found[[2]string{machine, port}] = n
				all = append(all, n)
			}
			n.fields[field] = value
		}
	}
	return graphOf(all)
}

// cutInterface parts an interface's name, which may have dots as eth0.100 has, from a field, which begins with one of a few
// words.
func cutInterface(key string) (port, field string, ok bool) {
	for _, word := range []string{".chassis.", ".port.", ".vlan.", ".ppvid.", ".pi.", ".lldp-med.", ".unknown-tlvs."} {
		if i := strings.Index(key, word); i > 0 {
			return key[:i], key[i+1:], true
		}
	}
	i := strings.LastIndex(key, ".")
	if i <= 0 || i == len(key)-1 {
		return "", "", false
	}
	return key[:i], key[i+1:], true // via, rid, age
}

func graphOf(all []*neighbour) (*Graph, error) {
	if len(all) == 0 {
		return nil, fmt.Errorf("line 1: no interface has a neighbour; the text should be the output of `lldpctl -f keyvalue`")
	}
	names := map[string]string{} // switch → name
	for _, n := range all {
		id := chassis(n)
		if id == "" {
			return nil, fmt.Errorf("line %d: the neighbour of %s at %s has no chassis.mac, chassis.local, chassis.ifname or "+
				"chassis.ip", n.line, n.machine, n.name)
		}
		names[id] = n.fields["chassis.name"]
	}
	g := &Graph{}
	for _, id := range slices.Sorted(maps.Keys(names)) {
		g.Switches = append(g.Switches, Switch{ID: id, Name: names[id]})
	}
	for _, n := range all {
		leaf, _ := slices.BinarySearchFunc(g.Switches, chassis(n), func(s Switch, id string) int {
			return strings.Compare(s.ID, id)
		})
		at := cmp.Or(n.fields["port.ifname"], n.fields["port.local"], n.fields["port.mac"], n.fields["port.descr"])
		g.Ports = append(g.Ports, Port{Host: n.machine, Interface: n.name, Switch: leaf, At: at})
	}
	g.order(func(p Port) string { return p.Interface })
	return g, nil
}

// chassis is how a switch names itself for certain (IEEE 802.1AB, 8.5.2).
func chassis(n *neighbour) string {
	return cmp.Or(n.fields["chassis.mac"], n.fields["chassis.local"], n.fields["chassis.ifname"], n.fields["chassis.ip"])
}
