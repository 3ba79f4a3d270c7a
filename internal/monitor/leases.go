package monitor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"muster/internal/environment/netboot"
	"muster/internal/inventory"
	"muster/internal/store"
)

// offers are addresses that were offered and not yet asked for. They are remembered only so that two machines are not
// offered the same one: whether an address is free is decided when it is leased, in the store.
type offers struct {
	mu    sync.Mutex
	until map[offer]time.Time
	macs  map[offer]string
}

type offer struct {
	network string
	address netip.Addr
}

const (
	offerLasts = 30 * time.Second
	offerLimit = 10000
)

// open says that an address is not offered to another MAC.
func (o *offers) open(network string, address netip.Addr, mac string) bool {
	at := offer{network, address}
	return o.macs[at] == mac || time.Now().After(o.until[at])
}

func (o *offers) make(network string, address netip.Addr, mac string) {
	if o.until == nil || len(o.until) >= offerLimit {
		o.until, o.macs = map[offer]time.Time{}, map[offer]string{}
	}
	at := offer{network, address}
	o.until[at], o.macs[at] = time.Now().Add(offerLasts), mac
}

func (o *offers) take(network string, address netip.Addr) {
	delete(o.until, offer{network, address})
	delete(o.macs, offer{network, address})
}

// Leases answers a batch of wishes in one transaction.
func (b *Boots) Leases(ctx context.Context, network string, asks []netboot.Ask) ([]netboot.Granted, error) {
	b.offers.mu.Lock()
	defer b.offers.mu.Unlock()
	writes := false
	for _, ask := range asks {
		writes = writes || ask.Commit || ask.Decline
	}
	var granted []netboot.Granted
	answer := func(tx *store.Tx) error {
		on, err := tx.Network(ctx, network)
		if err != nil {
			return err
		}
		l := &lessor{tx: tx, on: on, offers: &b.offers}
		granted = granted[:0]
		for _, ask := range asks {
			lease, err := l.grant(ctx, ask)
			if err != nil && !refused(err) {
				return err
			}
			granted = append(granted, netboot.Granted{Lease: lease, Err: err})
		}
		return nil
	}
	if writes {
		return granted, b.DB.Quietly(ctx, answer)
	}
	return granted, b.DB.View(ctx, answer)
}

func refused(err error) bool {
	return errors.Is(err, netboot.ErrUnknown) || errors.Is(err, netboot.ErrTaken) || errors.Is(err, netboot.ErrFull)
}

// lessor gives addresses within one transaction.
type lessor struct {
	tx     *store.Tx
	on     inventory.Network
	offers *offers
	next   netip.Addr   // the lowest that was never given, once looked up
	over   []netip.Addr // of leases that are over, once looked up
	looked bool
}

// grant answers one wish.
func (l *lessor) grant(ctx context.Context, ask netboot.Ask) (netboot.Lease, error) {
	mac := ask.MAC.String()
	if ask.Decline {
		return netboot.Lease{}, l.decline(ctx, ask)
	}
	owner, err := l.tx.OwnerOf(ctx, l.on.Name, mac)
	if err != nil {
		return netboot.Lease{}, err
	}
	lease := netboot.Lease{MAC: ask.MAC, Known: owner != "", Until: time.Now().Add(ask.For)}
	if !lease.Known && l.on.Unknown != inventory.UnknownEnrol {
		return lease, netboot.ErrUnknown
	}
	if lease.Address, err = l.address(ctx, mac, ask.Want); err != nil {
		return lease, err
	}
	if ask.Commit && ask.Want.IsValid() && ask.Want != lease.Address {
		return lease, netboot.ErrTaken
	}
	if !ask.Commit {
		l.offers.make(l.on.Name, lease.Address, mac)
		return lease, nil
	}
	l.offers.take(l.on.Name, lease.Address)
	length := ask.For
	if lease.Known {
		length = ours
	}
	return lease, l.tx.PutLease(ctx, store.Lease{Network: l.on.Name, Address: lease.Address, MAC: mac}, length)
}

// address finds a MAC's address: the one it has, the one it wants if that is free, or another.
func (l *lessor) address(ctx context.Context, mac string, want netip.Addr) (netip.Addr, error) {
	old, err := l.tx.LeaseOf(ctx, l.on.Name, mac)
	if err == nil && l.inRange(old.Address) {
		return old.Address, nil
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return netip.Addr{}, err
	}
	if want.IsValid() && l.inRange(want) && l.offers.open(l.on.Name, want, mac) {
		switch free, err := l.free(ctx, want); {
		case err != nil:
			return netip.Addr{}, err
		case free:
			return want, nil
		}
	}
	return l.fresh(ctx, mac)
}

func (l *lessor) inRange(a netip.Addr) bool {
	return a.Compare(l.on.First) >= 0 && a.Compare(l.on.Last) <= 0
}

// free says that nobody has an address, or no longer.
func (l *lessor) free(ctx context.Context, a netip.Addr) (bool, error) {
	lease, err := l.tx.LeaseAt(ctx, l.on.Name, a)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	return err == nil && !lease.Expires.IsZero() && lease.Expires.Before(time.Now()), err
}

// fresh takes the next address that was never given, and when there is none, one whose lease is over.
func (l *lessor) fresh(ctx context.Context, mac string) (netip.Addr, error) {
	if !l.looked {
		highest, err := l.tx.HighestLease(ctx, l.on.Name)
		if err != nil {
			return netip.Addr{}, err
		}
		l.next, l.looked = l.on.First, true
		if highest.IsValid() && l.inRange(highest) {
			l.next = highest.Next()
		}
	}
	for ; l.inRange(l.next); l.next = l.next.Next() {
		if a := l.next; a != l.on.Address.Addr() && l.offers.open(l.on.Name, a, mac) {
			l.next = a.Next()
			return a, nil
		}
	}
	if l.over == nil {
		over, err := l.tx.ExpiredLeases(ctx, l.on.Name, 1000)
		if err != nil {
			return netip.Addr{}, err
		}
		l.over = append([]netip.Addr{}, over...)
	}
	for len(l.over) > 0 {
		a := l.over[0]
		l.over = l.over[1:]
		if l.inRange(a) && l.offers.open(l.on.Name, a, mac) {
			return a, nil
		}
	}
	return netip.Addr{}, netboot.ErrFull
}

// decline keeps an address that somebody else was found to have from being given for a while.
func (l *lessor) decline(ctx context.Context, ask netboot.Ask) error {
	held, err := l.tx.LeaseAt(ctx, l.on.Name, ask.Want)
	if errors.Is(err, store.ErrNotFound) || err == nil && held.MAC != ask.MAC.String() {
		return nil // not its to decline
	}
	if err != nil {
		return err
	}
	return l.tx.PutLease(ctx, store.Lease{Network: l.on.Name, Address: ask.Want, MAC: fmt.Sprintf("declined %s", ask.Want)}, ask.For)
}
