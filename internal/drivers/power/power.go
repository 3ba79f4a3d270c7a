// Package power switches machines. It is what drivers of power controls have in common: the interface, how one is declared
// (Factory) and found (Registry), credentials, and the bound on time. Each driver is a folder below it: wol, ipmi, redfish,
// program. powertest is the contract that all of them pass.
//
// What enters: a machine's inventory.Power and where it is found. What leaves: states that were observed, and commands
// that are idempotent. Nothing is believed because a command was accepted: callers look at State afterwards. No secret
// leaves these packages: credentials are read when they are used, and are in no error, log or argument list.
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
	Unknown State = "unknown" // there is nothing to ask
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

// Accountant is what drivers are that can say who may log in at the machine's BMC. Root of a machine may add
// users to its BMC, from inside (KCS), and nothing but this tells.
type Accountant interface {
	// Accounts lists users, each with what it may do, and how the network reaches them: always the same lines as long as nothing
	// is changed. ErrUnsupported: the control knows no users, or does not show them. It changes nothing.
	Accounts(ctx context.Context) ([]string, error)
}

// MaxAccounts bounds what is read of one BMC. IPMI has 63 users at most.
const MaxAccounts = 64
