package monitor

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
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

// leaseTries is how often a batch is answered anew because another controller gave one of its addresses meanwhile.
const leaseTries = 5

// Leases answers a batch of wishes in one transaction, with a few statements for all: how many machines a second get
// their addresses hangs on it.
func (b *Boots) Leases(ctx context.Context, network string, asks []netboot.Ask) ([]netboot.Granted, error) {
	transaction := b.DB.View
	for _, ask := range asks {
		if ask.Commit || ask.Decline {
			transaction = b.DB.Quietly
		}
	}
	var granted []netboot.Granted
	var err error
	for range leaseTries {
		err = transaction(ctx, func(tx *store.Tx) error {
			l := &lessor{tx: tx, offers: &b.offers, put: map[netip.Addr]store.Lease{}}
			if err := l.load(ctx, network, asks); err != nil {
				return err
			}
			if granted, err = l.answer(ctx, asks); err != nil {
				return err
			}
			return l.save(ctx)
		})
		if !errors.Is(err, store.ErrExists) {
			break
		}
	}
	return granted, err
}

func refused(err error) bool {
	return errors.Is(err, netboot.ErrUnknown) || errors.Is(err, netboot.ErrTaken) || errors.Is(err, netboot.ErrFull)
}

// lessor gives addresses within one transaction.
type lessor struct {
	tx     *store.Tx
	offers *offers
	on     inventory.Network
	now    time.Time                  // the database's
	owners map[string]string          // machines by MAC
	of     map[string]store.Lease     // by MAC; what the batch changes too
	at     map[netip.Addr]store.Lease // by address, as far as somebody has asked; what the batch changes too
	put    map[netip.Addr]store.Lease // what is to be written
	moved  []string                   // MACs whose old lease goes
	next   netip.Addr                 // the lowest that was never given, once looked up
	over   []netip.Addr               // of leases that are over, once looked up
}

// load reads what the answers to a batch hang on.
func (l *lessor) load(ctx context.Context, network string, asks []netboot.Ask) (err error) {
	if l.on, err = l.tx.Network(ctx, network); err != nil {
		return err
	}
	if l.now, err = l.tx.Now(ctx); err != nil {
		return err
	}
	macs, wanted := make([]string, len(asks)), make([]netip.Addr, 0, len(asks))
	for i, ask := range asks {
		macs[i] = ask.MAC.String()
		if ask.Want.IsValid() {
			wanted = append(wanted, ask.Want)
		}
	}
	if l.owners, err = l.tx.Owners(ctx, network, macs); err != nil {
		return err
	}
	leases, err := l.tx.LeasesOf(ctx, network, macs, wanted)
	l.of, l.at = make(map[string]store.Lease, len(leases)), make(map[netip.Addr]store.Lease, len(leases))
	for _, lease := range leases {
		l.of[lease.MAC], l.at[lease.Address] = lease, lease
	}
	return err
}

// answer answers wish after wish. What was offered is looked at only here, so that no other batch waits for our disk.
func (l *lessor) answer(ctx context.Context, asks []netboot.Ask) ([]netboot.Granted, error) {
	l.offers.mu.Lock()
	defer l.offers.mu.Unlock()
	granted := make([]netboot.Granted, len(asks))
	for i, ask := range asks {
		lease, err := l.grant(ctx, ask)
		if err != nil && !refused(err) {
			return nil, err
		}
		granted[i] = netboot.Granted{Lease: lease, Err: err}
	}
	return granted, nil
}

// save writes what was granted.
func (l *lessor) save(ctx context.Context) error {
	if len(l.put) == 0 {
		return nil
	}
	return l.tx.PutLeases(ctx, l.on.Name, slices.Collect(maps.Values(l.put)), l.moved)
}

// grant answers one wish.
func (l *lessor) grant(ctx context.Context, ask netboot.Ask) (netboot.Lease, error) {
	mac := ask.MAC.String()
	if ask.Decline {
		return netboot.Lease{}, l.decline(ctx, mac, ask)
	}
	lease := netboot.Lease{MAC: ask.MAC, Known: l.owners[mac] != "", Until: time.Now().Add(ask.For)}
	if !lease.Known && l.on.Unknown != inventory.UnknownEnrol {
		return lease, netboot.ErrUnknown
	}
	var err error
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
	given := store.Lease{Network: l.on.Name, Address: lease.Address, MAC: mac}
	if !lease.Known {
		given.Expires = l.now.Add(ask.For)
	}
	l.give(given)
	return lease, nil
}

// give notes a lease as given. An enrolled machine's own, which is for ever, need not be written again.
func (l *lessor) give(lease store.Lease) {
	old, had := l.of[lease.MAC]
	if had && old == lease && lease.Expires.IsZero() {
		return
	}
	if had && old.Address != lease.Address {
		l.moved = append(l.moved, lease.MAC)
	}
	l.of[lease.MAC], l.at[lease.Address], l.put[lease.Address] = lease, lease, lease
}

// address finds a MAC's address: the one it has, the one it wants if that is free, or another.
func (l *lessor) address(ctx context.Context, mac string, want netip.Addr) (netip.Addr, error) {
	if old, has := l.of[mac]; has && l.inRange(old.Address) {
		return old.Address, nil
	}
	if want.IsValid() && l.inRange(want) && want != l.on.Address.Addr() && l.free(want) && l.offers.open(l.on.Name, want, mac) {
		return want, nil
	}
	return l.fresh(ctx, mac)
}

func (l *lessor) inRange(a netip.Addr) bool {
	return a.Compare(l.on.First) >= 0 && a.Compare(l.on.Last) <= 0
}

// free says of an address that was looked up that nobody has it, or no longer.
func (l *lessor) free(a netip.Addr) bool {
	lease, leased := l.at[a]
	return !leased || !lease.Expires.IsZero() && !lease.Expires.After(l.now)
}

// fresh takes the next address that was never given, and when there is none, one whose lease is over.
func (l *lessor) fresh(ctx context.Context, mac string) (netip.Addr, error) {
	if !l.next.IsValid() {
		highest, err := l.tx.HighestLease(ctx, l.on.Name)
		if err != nil {
			return netip.Addr{}, err
		}
		l.next = l.on.First
		if highest.IsValid() && l.inRange(highest) {
			l.next = highest.Next()
		}
	}
	for ; l.inRange(l.next); l.next = l.next.Next() {
		if a := l.next; a != l.on.Address.Addr() && l.free(a) && l.offers.open(l.on.Name, a, mac) {
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
		if l.inRange(a) && l.free(a) && l.offers.open(l.on.Name, a, mac) {
			return a, nil
		}
	}
	return netip.Addr{}, netboot.ErrFull
}

// decline keeps an address that somebody else was found to have from being given for a while.
func (l *lessor) decline(ctx context.Context, mac string, ask netboot.Ask) error {
	held, leased := l.at[ask.Want]
	if !leased || held.MAC != mac {
		return nil // not its to decline
	}
	delete(l.of, mac)
	delete(l.put, ask.Want)
	l.at[ask.Want] = store.Lease{Address: ask.Want, Expires: l.now.Add(ask.For)}
	return l.tx.SetLeaseAside(ctx, l.on.Name, mac, ask.Want, ask.For)
}
