// Package power switches machines: by Wake-on-LAN, IPMI, Redfish, or a site's own command.
//
// What enters: a machine's inventory.Power and where it is found. What leaves: states that were observed, and commands
// that are idempotent. Nothing is believed because a command was accepted: callers look at State afterwards. No secret
// leaves this package: credentials are read when they are used, and are in no error, log or argument list.
package power

import (
	"context"
	"errors"
)

// State is what a machine's power was seen to be.
type State string

// The states.
const (
	On      State = "on"
	Off     State = "off"
	Unknown State = "unknown" // there is nobody to ask
)

// Errors to be told apart with errors.Is.
var (
	// ErrUnsupported: this kind of control cannot do that (Wake-on-LAN cannot switch off).
	ErrUnsupported = errors.New("not supported by this kind of power control")
	// ErrCredentials: the credentials are missing, unreadable or refused.
	ErrCredentials = errors.New("credentials")
)

// Driver switches one machine. Every method may be called again at any time and blocks for no longer than its context,
// or ten seconds.
type Driver interface {
	// State looks; it changes nothing.
	State(ctx context.Context) (State, error)
	// On asks for power. It returns when the request was accepted; the machine may take seconds.
	On(ctx context.Context) error
	// Off takes the power away, without asking the machine. It returns when the request was accepted.
	Off(ctx context.Context) error
	// BootFromNetwork makes the next boot one from the network, where the control can say so; else ErrUnsupported,
	// which is no failure: the firmware's own order decides then.
	BootFromNetwork(ctx context.Context) error
}
