package power

import (
	"net/netip"

	"muster/internal/inventory"
	"muster/internal/kit/private"
)

// Factory declares a driver: what is known of it before there is a machine. It is data; a driver's folder has a function
// that returns its own, and the list of drivers calls it.
type Factory struct {
	// Scheme is what a control of this kind begins with, up to the first colon.
	Scheme string
	// Title is what people call it: "IPMI".
	Title string
	// Usage is how a control is written at the least, and Form how with all that may be left out. About says what it is.
	// They are for errors and help.
	Usage, Form, About string
	Capabilities       Capabilities
	// Parse reads what follows the scheme in a control, from the colon on; "" if nothing does. It is strict, connects to nothing,
	// and its errors repeat nothing that could be a password. They need not name the scheme.
	Parse func(rest string) (Control, error)
}

// Capabilities is what others may ask of a kind of control instead of its name. A single machine's may be able to do less,
// which its driver says by ErrUnsupported. The zero value can do nothing.
type Capabilities struct {
	// SwitchesOff: it takes the power away. Without it a machine has to switch itself off.
	SwitchesOff bool
	// SeesPower: what it asks knows of the power itself. Without it a machine that is silent on its network counts as off.
	SeesPower bool
	// Credentials are those that it shows to whom it asks.
	Credentials Need
}

// Need says whether something is needed.
type Need int

// The needs.
const (
	Never Need = iota // it is refused
	Optional
	Required
)

// Control is how one machine is switched, as it was parsed.
type Control interface {
	// String is the control again, for messages: no more than one needs to find it.
	String() string
	// To is whom credentials are shown: a host, or "command:PROGRAM". Root names them in the secret's file.
	To() string
	// Open makes the driver. It connects to nothing, so its errors are errors of the settings. The driver need not bound its
	// time itself, nor say in errors what it is. It may be used by several goroutines and needs no closing.
	Open(o Opening) (Driver, error)
}

// Target is a machine as power control sees it.
type Target struct {
	Machine string // name, for messages and for site commands
	Power   inventory.Power
	MACs    []string // of the NICs on its network
	// Network is where it boots. Everything is dialled and sent from inside its namespace.
	Network inventory.Network
	// Address is the machine's own on that network; the zero value if it is not known. A control that has nothing else to ask
	// asks there whether the machine is on.
	Address netip.Addr
	// UEFI says that the machine was last seen to boot by UEFI. IPMI has no word for "as before" and needs to know.
	UEFI bool
}

// Site is what the drivers of a site share.
type Site struct {
	// Programs has what a control may have run. It and they belong to root, and no other user may write them. "": there are none.
	Programs private.Dir
	// Secrets has the credentials that machines name, in files that others may not read.
	Secrets private.Dir
}

// Opening is what a control is opened with.
type Opening struct {
	Target
	Credentials Source // none, where none are set
	Programs    private.Dir
}
