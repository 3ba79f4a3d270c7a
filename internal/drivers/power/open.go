package power

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"muster/internal/inventory"
	"muster/internal/netns"
	"muster/internal/private"
)

// patience bounds every call of a driver.
const patience = 10 * time.Second

// Target is a machine as power control sees it.
type Target struct {
	Machine string // name, for messages and for site commands
	Power   inventory.Power
	MACs    []string // of the NICs on its network
	// Network is where it boots. Everything is dialled and sent from inside its namespace.
	Network inventory.Network
	// Address is the machine's own on that network; the zero value if it is not known. Wake-on-LAN asks there whether
	// the machine is on.
	Address netip.Addr
	// UEFI says that the machine was last seen to boot by UEFI. IPMI has no word for "as before" and needs to know.
	UEFI bool
}

// Opener makes drivers. It holds what they share at a site.
type Opener struct {
	// CommandDir has the programs that "command:" may run. It and they belong to root and nobody else may write them.
	// "": there are none.
	CommandDir string
	// SecretDir has the credentials that machines name, in files that nobody else may read.
	SecretDir string
}

// Open makes the driver that a machine's power settings ask for. It connects to nothing, so its errors are errors of the
// settings. A driver may be used by several goroutines and needs no closing.
func (o Opener) Open(t Target) (Driver, error) {
	driver, err := o.open(t)
	if err != nil {
		return nil, fmt.Errorf("machine %s: %w", t.Machine, err)
	}
	return driver, nil
}

func (o Opener) open(t Target) (Driver, error) {
	if err := validate(t.Power); err != nil {
		return nil, err
	}
	control, err := Parse(t.Power.Control)
	if err != nil {
		return nil, err
	}
	credentials := reference{text: t.Power.Credentials, dir: private.Dir(o.SecretDir), to: control.Host}
	if control.Kind == Command {
		credentials.to = "command:" + control.Program
	}
	var driver Driver
	switch control.Kind {
	case WakeOnLAN:
		driver, err = newWake(t)
	case IPMI:
		driver = bmc{control: control, credentials: credentials, namespace: t.Network.Namespace, uefi: t.UEFI}
	case Redfish:
		driver = redfish{control: control, credentials: credentials, namespace: t.Network.Namespace}
	case Command:
		driver, err = newProgram(private.Dir(o.CommandDir), control, credentials, t)
	}
	if err != nil {
		return nil, err
	}
	return bounded{driver: driver, control: control.String()}, nil
}

// bounded keeps the promise that no call takes longer than patience, and says in every error what was tried.
type bounded struct {
	driver  Driver
	control string
}

func (b bounded) State(ctx context.Context) (state State, err error) {
	err = b.run(ctx, "look at power", func(ctx context.Context) error {
		state, err = b.driver.State(ctx)
		return err
	})
	if err != nil {
		state = Unknown
	}
	return state, err
}

func (b bounded) On(ctx context.Context) error  { return b.run(ctx, "switch on", b.driver.On) }
func (b bounded) Off(ctx context.Context) error { return b.run(ctx, "switch off", b.driver.Off) }
func (b bounded) BootFromNetwork(ctx context.Context) error {
	return b.run(ctx, "ask for a boot from the network", b.driver.BootFromNetwork)
}

func (b bounded) run(ctx context.Context, what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := do(ctx); err != nil {
		// What a library makes of the end of the context does not always say so, and a socket's deadline may come first.
		ended := ctx.Err()
		if deadline, _ := ctx.Deadline(); ended == nil && !time.Now().Before(deadline) {
			ended = context.DeadlineExceeded
		}
		if ended != nil && !errors.Is(err, ended) {
			err = fmt.Errorf("%w: %w", ended, err)
		}
		return fmt.Errorf("%s by %s: %w", what, b.control, err)
	}
	return nil
}

// dial connects from inside a network namespace. Names are looked up by the host, since a namespace has nobody to ask.
func dial(ctx context.Context, namespace, network, host string, port uint16) (net.Conn, error) {
	addresses := []string{host}
	if _, err := netip.ParseAddr(host); err != nil {
		if addresses, err = net.DefaultResolver.LookupHost(ctx, host); err != nil {
			return nil, err
		}
	}
	var failures []error
	for _, address := range addresses {
		connection, err := netns.Dial(ctx, namespace, network, net.JoinHostPort(address, strconv.Itoa(int(port))))
		if err == nil {
			return connection, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}
