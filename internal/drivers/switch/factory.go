package switches

import (
	"fmt"
	"strings"

	"muster/internal/inventory"
	"muster/internal/kit/lists"
)

// Factory declares a driver: what is known of it before there is a network. It is data; a driver's folder has a function that
// returns its own, and the list of drivers calls it.
type Factory struct {
	Name string // as networks name it
	// Isolates: it keeps segments apart. Without it a machine's port is not asked for, and all are in one segment.
	Isolates bool
	// Database is the usual place of the database that the switch is reached by. "": it has none, and a network does not say
	// where its switch is.
	Database string
	// Check says what is wrong with what a network says of the switch; nil: there is nothing to say. It does not ask the switch.
	Check func(n inventory.Network) error
	// Open makes the driver for a network that passed Check. It touches nothing.
	Open func(n inventory.Network) Switch
}

// Registry is the drivers that there are. The first is that of networks that name none. Nothing changes it.
type Registry []Factory

// Named is the driver of a name; its Open is nil where there is none.
func (r Registry) Named(name string) Factory {
	if name == "" && len(r) > 0 {
		return r[0]
	}
	found, _ := lists.Find(r, func(f Factory) bool { return f.Name == name })
	return found
}

// Names lists the drivers, in their order.
func (r Registry) Names() []string {
	return r.names(func(Factory) bool { return true })
}

func (r Registry) names(those func(Factory) bool) []string {
	var all []string
	for _, f := range r {
		if those(f) {
			all = append(all, f.Name)
		}
	}
	return all
}

// Isolates says that frames do not pass between clusters on a network.
func (r Registry) Isolates(n inventory.Network) bool { return r.Named(n.Switch).Isolates }

// Check says what is wrong with what a network says of its switch. It does not ask the switch.
func (r Registry) Check(n inventory.Network) error {
	f := r.Named(n.Switch)
	switch {
	case f.Open == nil:
		return fmt.Errorf("switch: %q; use %s", n.Switch, or(r.Names()))
	case f.Database == "" && n.SwitchBridge+n.SwitchDatabase != "":
		return fmt.Errorf("switch_bridge, switch_database: only switch %s has them", or(r.names(func(f Factory) bool {
			return f.Database != ""
		})))
	case f.Check == nil:
		return nil
	}
	return f.Check(n)
}

// Open makes the driver of a network's switch. It touches nothing.
func (r Registry) Open(n inventory.Network) (Switch, error) {
	f := r.Named(n.Switch)
	if f.Open == nil {
		return nil, fmt.Errorf("network %s: there is no driver for a switch %q; use %s", n.Name, n.Switch, or(r.Names()))
	}
	return f.Open(n), nil
}

// Warning says what is not kept apart on a network; "" where all is. It is for operators.
func (r Registry) Warning(n inventory.Network) string {
	f := r.Named(n.Switch)
	if f.Isolates {
		return ""
	}
	return fmt.Sprintf("NOTHING KEEPS MACHINES OF NETWORK %s APART: its switch is %q, so root on a machine can send any frame "+
		"to every other machine there, "+
		"and with another's MAC take that one's boot: its node with all keys, or its receipt of erasure; "+
		"declare it again by `muster networks add`, with --switch %s, or give machines to one tenant only", n.Name, f.Name,
		or(r.names(func(f Factory) bool { return f.Isolates })))
}

// or is a list in a sentence.
func or(names []string) string {
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return strings.Join(names, "")
}
