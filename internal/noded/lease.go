package noded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"

	"muster/internal/kit/clock"
	"muster/internal/protocol"
)

const (
	leaseRetryLeast = time.Minute      // RFC 2131, 4.4.5: between two tries to extend a lease
	leaseTries      = 3                // packets a try
	leaseAnswer     = 5 * time.Second  // for the answer to one packet
	leaseLeast      = 10 * time.Second // a server's shorter lease counts as this
)

// keepLease extends the machine's lease at half of its time, as the first stage got it from a DHCP server, until ctx
// ends. It asks by broadcast, so that any server of the segment may answer (RFC 2131, 4.4.5: REBINDING). A lease that is
// lost leaves the address in place: there is no better one, and the console says so.
func keepLease(ctx context.Context, b protocol.BootNetwork, say func(format string, args ...any)) {
	lease := time.Duration(b.LeaseSeconds) * time.Second
	began := time.Now()
	for wait := max(lease, leaseLeast) / 2; clock.Sleep(ctx, wait) == nil; {
		next, err := extendLease(ctx, b)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			lease, began = max(next, leaseLeast), time.Now()
			wait = lease / 2
		default:
			say("lease of %s: %v", b.Address, err)
			wait = max(time.Until(began.Add(lease))/2, leaseRetryLeast)
		}
	}
}

// extendLease returns the new lease's time.
func extendLease(ctx context.Context, b protocol.BootNetwork) (time.Duration, error) {
	lease, err := leaseOf(b)
	if err != nil {
		return 0, err
	}
	client, err := nclient4.New(b.NIC, nclient4.WithRetry(leaseTries), nclient4.WithTimeout(leaseAnswer))
	if err != nil {
		return 0, fmt.Errorf("listen on %s: %w", b.NIC, err)
	}
	defer client.Close()
	lease, err = client.Renew(ctx, lease)
	var refused *nclient4.ErrNak
	switch {
	case errors.As(err, &refused):
		return 0, errors.New("the server does not extend it")
	case err != nil:
		return 0, fmt.Errorf("extend: %w", err)
	}
	return lease.ACK.IPAddressLeaseTime(0), nil
}

// leaseOf is the lease as the DHCP library knows one: by the packets that it came with. Only these fields of theirs count.
func leaseOf(b protocol.BootNetwork) (*nclient4.Lease, error) {
	mac, err := net.ParseMAC(b.MAC)
	if err != nil {
		return nil, err
	}
	address, _, err := net.ParseCIDR(b.Address)
	if err != nil {
		return nil, err
	}
	server := net.ParseIP(b.Server).To4()
	if server == nil {
		return nil, fmt.Errorf("no DHCP server's address: %q", b.Server)
	}
	packet, err := dhcpv4.New(dhcpv4.WithHwAddr(mac), dhcpv4.WithYourIP(address),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(server)))
	if err != nil {
		return nil, err
	}
	packet.OpCode = dhcpv4.OpcodeBootReply
	return &nclient4.Lease{Offer: packet, ACK: packet}, nil
}
