package control

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/network"
	"muster/internal/kit/lists"
	"muster/internal/netboot"
)

// offers are addresses that were offered and not yet asked for. They are remembered so that two machines are not offered
// the same one, and so that the machine that takes its offer needs no second look at leases: whether the address is still
// free is decided when it is leased, by the database's constraints.
type offers struct {
	mu   sync.Mutex
	at   map[offerAt]offer
	last map[string]netip.Addr // the highest that was offered, by network: the search for the next one begins there
}

type offerAt struct {
	network string
	address netip.Addr
}

type offer struct {
	mac   string
	known bool // it is an enrolled machine's
	until time.Time
	old   network.Lease // that the MAC had; its MAC is "" if there was none
}

const (
	offerLasts = 30 * time.Second
	offerLimit = 10000
)

// open says that an address is not offered to another MAC. Of those who ask, an enrolled machine goes before unknown ones.
func (o *offers) open(at offerAt, mac string, known bool, now time.Time) bool {
	made, offered := o.at[at]
	return !offered || made.mac == mac || now.After(made.until) || known && !made.known
}

func (o *offers) make(at offerAt, made offer) {
	if o.at == nil || len(o.at) >= offerLimit {
		o.at, o.last = map[offerAt]offer{}, map[string]netip.Addr{}
	}
	o.at[at] = made
	if o.last[at.network].Less(at.address) {
		o.last[at.network] = at.address
	}
}

// taken finds the offer that a MAC comes back to.
func (o *offers) taken(at offerAt, mac string, now time.Time) (offer, bool) {
	made, offered := o.at[at]
	return made, offered && made.mac == mac && now.Before(made.until)
}

// leaseTries is how often a batch is answered again because another controller gave one of its addresses meanwhile.
const leaseTries = 5

// Leases answers a batch of requests in one transaction, with a few statements for all: how many machines a second get
// their addresses hangs on it.
func (c *Controller) Leases(ctx context.Context, networkName string, asks []netboot.Ask) ([]netboot.Granted, error) {
	transaction := c.DB.View
	for _, ask := range asks {
		if ask.Commit || ask.Decline {
			transaction = c.DB.Quietly
		}
	}
	var granted []netboot.Granted
	var err error
	for try := range leaseTries {
		err = transaction(ctx, func(tx *core.Tx) error {
			l := &lessor{tx: tx, offers: &c.offers, asked: time.Now(), put: map[netip.Addr]network.Lease{},
				full: map[bool]bool{}}
			if err := l.load(ctx, networkName, asks, try == 0); err != nil {
				return err
			}
			if granted, err = l.answer(ctx, asks); err != nil {
				return err
			}
			return l.save(ctx)
		})
		if !errors.Is(err, core.ErrExists) {
			break
		}
	}
	return granted, err
}

func refused(err error) bool {
	return errors.Is(err, netboot.ErrUnknown) || errors.Is(err, netboot.ErrTaken) || errors.Is(err, netboot.ErrFull) ||
		errors.Is(err, netboot.ErrKept)
}

// lessor gives addresses within one transaction.
type lessor struct {
	tx      *core.Tx
	offers  *offers
	on      inventory.Network
	now     time.Time                    // the database's
	asked   time.Time                    // ours
	owners  map[string]string            // machines by MAC
	of      map[string]network.Lease     // by MAC; what the batch changes too
	at      map[netip.Addr]network.Lease // by address, as far as somebody has asked; what the batch changes too
	put     map[netip.Addr]network.Lease // what is to be written
	moved   []string                     // MACs whose old lease goes
	lowest  netip.Addr                   // where searches begin, once looked up: above all leases, once whole at the first
	next    netip.Addr                   // where the search for one goes on
	over    []netip.Addr                 // of leases that are over, once looked up
	passing []network.Lease              // unknown machines' that are not over, those that end first; once looked up
	looked  bool
	whole   bool          // all leases of the network are in at
	full    map[bool]bool // nothing is free for machines that are known, or not, and within a batch nothing becomes so
	crowded bool          // and nothing is offered to unknown ones that another could be offered, too
}

// load reads what the answers to a batch hang on. Of machines that take what they were offered, it trusts what was read then.
func (l *lessor) load(ctx context.Context, networkName string, asks []netboot.Ask, trust bool) (err error) {
	if l.on, err = network.Get(ctx, l.tx, networkName); err != nil {
		return err
	}
	if l.now, err = l.tx.Now(ctx); err != nil {
		return err
	}
	macs := lists.Map(asks, func(ask netboot.Ask) string { return ask.MAC.String() })
	if l.owners, err = network.Owners(ctx, l.tx, networkName, macs); err != nil {
		return err
	}
	var unread []string
	var wanted []netip.Addr
	l.of, l.at = make(map[string]network.Lease, len(asks)), make(map[netip.Addr]network.Lease, len(asks))
	l.offers.mu.Lock()
	for i, ask := range asks {
		if made, taken := l.offers.taken(offerAt{networkName, ask.Want}, macs[i], l.asked); taken && trust && ask.Commit {
			l.know(made.old)
			continue
		}
		unread = append(unread, macs[i])
		if ask.Want.IsValid() {
			wanted = append(wanted, ask.Want)
		}
	}
	l.offers.mu.Unlock()
	leases, err := network.LeasesOf(ctx, l.tx, networkName, unread, wanted)
	for _, lease := range leases {
		l.know(lease)
	}
	return err
}

func (l *lessor) know(lease network.Lease) {
	if lease.MAC != "" {
		l.of[lease.MAC], l.at[lease.Address] = lease, lease
	}
}

// answer answers request after request. What was offered is looked at only here, so that no other batch waits for our disk.
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
	return network.PutLeases(ctx, l.tx, l.on.Name, slices.Collect(maps.Values(l.put)), l.moved)
}

// grant answers one request.
func (l *lessor) grant(ctx context.Context, ask netboot.Ask) (netboot.Lease, error) {
	mac := ask.MAC.String()
	if ask.Decline {
		return netboot.Lease{}, l.decline(ctx, mac, ask)
	}
	lease := netboot.Lease{MAC: ask.MAC, Known: l.owners[mac] != "", Until: l.asked.Add(ask.For)}
	if !lease.Known && l.on.Unknown != inventory.UnknownEnrol {
		return lease, netboot.ErrUnknown
	}
	if !lease.Known {
		lease.Until = l.asked.Add(min(ask.For, unprovenFor))
	}
	var err error
	if lease.Address, err = l.address(ctx, mac, ask.Want, lease.Known); err != nil {
		return lease, err
	}
	if ask.Commit && ask.Want.IsValid() && ask.Want != lease.Address {
		return lease, netboot.ErrTaken
	}
	if !ask.Commit {
		l.offers.make(offerAt{l.on.Name, lease.Address}, offer{mac, lease.Known, l.asked.Add(offerLasts), l.of[mac]})
		return lease, nil
	}
	delete(l.offers.at, offerAt{l.on.Name, lease.Address})
	given := network.Lease{Network: l.on.Name, Address: lease.Address, MAC: mac}
	if !lease.Known {
		given.Expires = l.now.Add(min(ask.For, unprovenFor))
		if old, had := l.of[mac]; had && old.Address == given.Address && old.Expires.After(given.Expires) {
			given.Expires = old.Expires // it was proved
		}
	}
	l.give(given)
	return lease, nil
}

// give notes a lease as given. An enrolled machine's own, which is for ever, need not be written again. Whose place it
// takes has none.
func (l *lessor) give(lease network.Lease) {
	old, had := l.of[lease.MAC]
	if had && old == lease && lease.Expires.IsZero() {
		return
	}
	if had && old.Address != lease.Address {
		l.moved = append(l.moved, lease.MAC)
	}
	if other, held := l.at[lease.Address]; held && other.MAC != lease.MAC && other.MAC != "" && other.Expires.After(l.now) {
		l.moved = append(l.moved, other.MAC)
		delete(l.of, other.MAC)
	}
	l.of[lease.MAC], l.at[lease.Address], l.put[lease.Address] = lease, lease, lease
}

// address finds a MAC's address: the one it has, the one it wants if that is free, or another.
func (l *lessor) address(ctx context.Context, mac string, want netip.Addr, known bool) (netip.Addr, error) {
	if old, has := l.of[mac]; has && l.inRange(old.Address) {
		return old.Address, nil
	}
	if want.IsValid() && l.inRange(want) && want != l.on.Address.Addr() && l.free(want) && l.open(want, mac, known) {
		return want, nil
	}
	a, err := l.fresh(ctx, mac, known)
	if errors.Is(err, netboot.ErrFull) {
		a, err = l.instead(ctx, mac, want, known)
	}
	if errors.Is(err, netboot.ErrFull) && !known && !l.crowded {
		l.next = l.lowest
		if contended, found := l.search(mac, true); found { // the first to ask for it has it
			return contended, nil
		}
		l.crowded = true
	}
	return a, err
}

// Unknown machines have their addresses for a short time, until they show by asking for their script from there that they are
// machines. Then they have as long as any other.
const (
	unprovenFor = 5 * time.Minute
	provenFor   = 24 * time.Hour
	// unprovenLeast is how long they have them even where others wait for one: firmware loads iPXE meanwhile.
	unprovenLeast = time.Minute
)

func (l *lessor) lookPassing(ctx context.Context) (err error) {
	if !l.looked {
		l.passing, err = network.Passing(ctx, l.tx, l.on.Name)
		l.looked = err == nil
	}
	return err
}

// instead finds, where no address is free, that of an unknown machine that makes room: of those that have proved nothing
// for a while, the one that was heard longest ago, or the one whose address is wanted. For an enrolled machine any unknown
// one does.
func (l *lessor) instead(ctx context.Context, mac string, want netip.Addr, known bool) (netip.Addr, error) {
	if err := l.lookPassing(ctx); err != nil {
		return netip.Addr{}, err
	}
	var found network.Lease
	for _, p := range l.passing {
		_, changed := l.put[p.Address]
		if changed || !l.inRange(p.Address) || p.Expires.After(l.now.Add(unprovenFor-unprovenLeast)) && !known ||
			strings.HasPrefix(p.MAC, declined) || !l.open(p.Address, mac, known) {
			continue
		}
		if p.Address == want {
			found = p
			break
		}
		if found.MAC == "" {
			found = p
		}
	}
	if found.MAC == "" {
		return netip.Addr{}, netboot.ErrFull
	}
	l.at[found.Address] = found
	return found.Address, nil
}

func (l *lessor) inRange(a netip.Addr) bool {
	return a.Compare(l.on.First) >= 0 && a.Compare(l.on.Last) <= 0
}

// free says of an address that was looked up that no machine has it, or that its lease is over.
func (l *lessor) free(a netip.Addr) bool {
	lease, leased := l.at[a]
	return !leased || !lease.Expires.IsZero() && !lease.Expires.After(l.now)
}

// open says that an address is not offered to another MAC.
func (l *lessor) open(a netip.Addr, mac string, known bool) bool {
	return l.offers.open(offerAt{l.on.Name, a}, mac, known, l.asked)
}

// fresh takes the next address above all that were ever given. When there is none, it takes one whose lease is over, and when
// there is none of those either, one that was passed over.
func (l *lessor) fresh(ctx context.Context, mac string, known bool) (netip.Addr, error) {
	if !l.next.IsValid() {
		highest, err := network.HighestLease(ctx, l.tx, l.on.Name)
		if err != nil {
			return netip.Addr{}, err
		}
		if l.lowest = l.on.First; highest.IsValid() && l.inRange(highest) {
			l.lowest = highest.Next()
		}
		if l.next = l.lowest; !l.offers.last[l.on.Name].Less(l.next) {
			l.next = l.offers.last[l.on.Name].Next()
		}
	}
	if a, found := l.search(mac, known); found {
		return a, nil
	}
	if l.full[known] {
		return netip.Addr{}, netboot.ErrFull
	}
	// Of what was passed over because it was offered, some may be open again.
	l.next = l.lowest
	if a, found := l.search(mac, known); found {
		return a, nil
	}
	if l.over == nil {
		over, err := network.ExpiredLeases(ctx, l.tx, l.on.Name, 1000)
		if err != nil {
			return netip.Addr{}, err
		}
		l.over = append([]netip.Addr{}, over...)
	}
	for len(l.over) > 0 {
		a := l.over[0]
		l.over = l.over[1:]
		if l.inRange(a) && l.free(a) && l.open(a, mac, known) {
			return a, nil
		}
	}
	// One who asks for the last address of the range has all others passed over; they are looked for now.
	if !l.whole {
		all, err := network.Leases(ctx, l.tx, l.on.Name)
		if err != nil {
			return netip.Addr{}, err
		}
		for _, lease := range all {
			if _, read := l.at[lease.Address]; !read {
				l.at[lease.Address] = lease
			}
		}
		l.whole, l.lowest, l.next = true, l.on.First, l.on.First
		if a, found := l.search(mac, known); found {
			return a, nil
		}
	}
	l.full[known] = true
	return netip.Addr{}, netboot.ErrFull
}

// search goes up from next to an address that was never given and is not offered to another.
func (l *lessor) search(mac string, known bool) (netip.Addr, bool) {
	for ; l.inRange(l.next); l.next = l.next.Next() {
		if a := l.next; a != l.on.Address.Addr() && l.free(a) && l.open(a, mac, known) {
			l.next = a.Next()
			return a, true
		}
	}
	return netip.Addr{}, false
}

// declined begins what stands for a MAC in the lease of an address that is set aside.
const declined = "declined"

// decline keeps an address that somebody else was found to have from being given for a while.
func (l *lessor) decline(ctx context.Context, mac string, ask netboot.Ask) error {
	if l.owners[mac] != "" {
		return netboot.ErrKept
	}
	held, leased := l.at[ask.Want]
	if !leased || held.MAC != mac {
		return nil // not its to decline
	}
	delete(l.of, mac)
	delete(l.put, ask.Want)
	l.at[ask.Want] = network.Lease{Address: ask.Want, Expires: l.now.Add(ask.For)}
	return network.SetLeaseAside(ctx, l.tx, l.on.Name, mac, ask.Want, ask.For)
}
