// Package network keeps networks that machines boot in: their leases, and who was seen there and is unknown.
//
// What enters: networks from operators, leases and unknown machines from the boot services. What leaves: rows.
package network

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// Put adds a network or changes it.
func Put(ctx context.Context, tx *core.Tx, n inventory.Network) error {
	_, err := tx.Exec(ctx, `INSERT INTO network (name, description) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET
		description = excluded.description`, n.Name, core.JSON(n))
	return wrap.Errorf(err, "put network %s", n.Name)
}

func scan(r core.Scanner) (n inventory.Network, err error) {
	err = r.Scan(core.JSON(&n))
	return n, err
}

// List lists all networks by name.
func List(ctx context.Context, tx *core.Tx) ([]inventory.Network, error) {
	networks, err := core.List(ctx, tx, scan, `SELECT description FROM network ORDER BY name`)
	return networks, wrap.Errorf(err, "list networks")
}

// Get finds a network.
func Get(ctx context.Context, tx *core.Tx, name string) (inventory.Network, error) {
	n, err := core.One(ctx, tx, scan, `SELECT description FROM network WHERE name = $1`, name)
	return n, wrap.Errorf(err, "network %s", name)
}

// Of lists the networks of the machines that a cluster's nodes are on, as whole ones or as guests.
func Of(ctx context.Context, tx *core.Tx, cluster string) ([]inventory.Network, error) {
	networks, err := core.List(ctx, tx, scan, `SELECT description FROM network WHERE name IN (
			SELECT m.network FROM node n JOIN machine m ON m.id = COALESCE(n.host_id, n.machine_id) WHERE n.cluster_id = $1
			AND n.machine_id IS NOT NULL)
		ORDER BY name`, cluster)
	return networks, wrap.Errorf(err, "list networks of cluster %s", cluster)
}

// Presence is how a cluster is on a network of machines.
type Presence struct {
	Network string
	Wholes  bool // nodes that are whole machines there
	Guests  bool // nodes that are guests of machines there
}

// PresencesOf lists how a cluster is on networks of machines, by the network's name.
func PresencesOf(ctx context.Context, tx *core.Tx, cluster string) ([]Presence, error) {
	scan := core.Fields(func(p *Presence) []any { return []any{&p.Network, &p.Wholes, &p.Guests} })
	all, err := core.List(ctx, tx, scan, `SELECT m.network, MAX(CASE WHEN n.host_id IS NULL THEN 1 ELSE 0 END) = 1, MAX(CASE
		WHEN n.host_id IS NULL THEN 0 ELSE 1 END) = 1
		FROM node n JOIN machine m ON m.id = COALESCE(n.host_id, n.machine_id)
		WHERE n.cluster_id = $1 AND n.machine_id IS NOT NULL AND m.network <> '' GROUP BY m.network ORDER BY m.network`, cluster)
	return all, wrap.Errorf(err, "find where cluster %s is", cluster)
}

// Remove deletes a network, its leases, and the unknown machines seen on it. It must have no machines. core.ErrNotFound if
// there is none.
func Remove(ctx context.Context, tx *core.Tx, name string) error {
	n, err := tx.Exec(ctx, `DELETE FROM network WHERE name = $1`, name)
	if err == nil && n == 0 {
		err = core.ErrNotFound
	}
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM lease WHERE network = $1`, name)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM unknown_machine WHERE network = $1`, name)
	}
	return wrap.Errorf(err, "remove network %s", name)
}

// Lease is an address that a MAC has on a network.
type Lease struct {
	Network string
	Address netip.Addr
	MAC     string
	Expires time.Time // zero: never
}

func number(a netip.Addr) int64 {
	b := a.As4()
	return int64(b[0])<<24 | int64(b[1])<<16 | int64(b[2])<<8 | int64(b[3])
}

func addressOf(n int64) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

const leaseColumns = `network, address, mac, expires`

func scanLease(r core.Scanner) (l Lease, err error) {
	var address int64
	err = r.Scan(&l.Network, &address, &l.MAC, core.Time(&l.Expires))
	l.Address = addressOf(address)
	return l, err
}

// LeaseOf finds the lease of a MAC, over or not.
func LeaseOf(ctx context.Context, tx *core.Tx, network, mac string) (Lease, error) {
	return core.One(ctx, tx, scanLease, `SELECT `+leaseColumns+` FROM lease WHERE network = $1 AND mac = $2`, network, mac)
}

// LeaseAt finds the lease of an address, over or not.
func LeaseAt(ctx context.Context, tx *core.Tx, network string, address netip.Addr) (Lease, error) {
	return core.One(ctx, tx, scanLease, `SELECT `+leaseColumns+` FROM lease WHERE network = $1 AND address = $2`, network,
		number(address))
}

// Leases lists those of a network, over or not.
func Leases(ctx context.Context, tx *core.Tx, network string) ([]Lease, error) {
	leases, err := core.List(ctx, tx, scanLease, `SELECT `+leaseColumns+` FROM lease WHERE network = $1`, network)
	return leases, wrap.Errorf(err, "list the leases of network %s", network)
}

// HighestLease is the highest address ever given on a network; the zero Addr if none was.
func HighestLease(ctx context.Context, tx *core.Tx, network string) (netip.Addr, error) {
	var highest int64
	err := tx.Row(ctx, `SELECT COALESCE(MAX(address), 0) FROM lease WHERE network = $1`, network).Scan(&highest)
	if err != nil || highest == 0 {
		return netip.Addr{}, err
	}
	return addressOf(highest), nil
}

// ExpiredLeases lists addresses whose leases are over, the longest so first.
func ExpiredLeases(ctx context.Context, tx *core.Tx, network string, limit int) ([]netip.Addr, error) {
	scan := func(r core.Scanner) (netip.Addr, error) {
		var n int64
		err := r.Scan(&n)
		return addressOf(n), err
	}
	return core.List(ctx, tx, scan,
		`SELECT address FROM lease WHERE network = $1 AND expires > 0 AND expires < now_ms() ORDER BY expires LIMIT $2`, network,
		limit)
}

// HeldLease is a lease of an enrolled machine.
type HeldLease struct {
	Lease
	Step protocol.BootStep // of the machine's boot; "" if it has none, or has just begun
}

// HeldLeases lists those of a network that are not over.
func HeldLeases(ctx context.Context, tx *core.Tx, network string) ([]HeldLease, error) {
	scan := func(r core.Scanner) (HeldLease, error) {
		var l HeldLease
		var address int64
		err := r.Scan(&address, &l.MAC, &l.Step)
		l.Network, l.Address = network, addressOf(address)
		return l, err
	}
	held, err := core.List(ctx, tx, scan, `SELECT l.address, l.mac, COALESCE(b.step, '') FROM lease l JOIN nic ON nic.mac = l.mac
		JOIN machine m ON m.id = nic.machine_id AND m.network = l.network LEFT JOIN boot b ON b.machine_id = m.id
		WHERE l.network = $1 AND (l.expires = 0 OR l.expires > now_ms()) ORDER BY l.address`, network)
	return held, wrap.Errorf(err, "list the leases of machines on network %s", network)
}

// Owners are the machines that have MACs on a network: IDs by MAC. MACs of no machine are left out.
func Owners(ctx context.Context, tx *core.Tx, network string, macs []string) (map[string]string, error) {
	args := []any{network}
	owners, err := core.Pairs[string, string](ctx, tx, `SELECT nic.mac, m.id FROM nic JOIN machine m ON m.id = nic.machine_id
		WHERE m.network = $1 AND nic.mac IN (`+places(&args, macs)+`)`, args...)
	return owners, wrap.Errorf(err, "find the owners of MACs")
}

// LeasesOf lists the leases of MACs, and those of addresses, over or not. One may be listed twice.
func LeasesOf(ctx context.Context, tx *core.Tx, network string, macs []string, addresses []netip.Addr) ([]Lease, error) {
	numbers := make([]int64, len(addresses))
	for i, a := range addresses {
		numbers[i] = number(a)
	}
	byMAC, err := leasesWith(ctx, tx, network, "mac", macs)
	if err != nil {
		return nil, err
	}
	byAddress, err := leasesWith(ctx, tx, network, "address", numbers)
	return append(byMAC, byAddress...), err
}

func leasesWith[T any](ctx context.Context, tx *core.Tx, network, column string, values []T) ([]Lease, error) {
	if len(values) == 0 {
		return nil, nil
	}
	args := []any{network}
	all, err := core.List(ctx, tx, scanLease, `SELECT `+leaseColumns+` FROM lease WHERE network = $1 AND `+column+` IN (`+
		places(&args, values)+`)`, args...)
	return all, wrap.Errorf(err, "find leases")
}

// places adds values to a statement's arguments, and names their places: "$2, $3".
func places[T any](args *[]any, values []T) string {
	var b strings.Builder
	for _, v := range values {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		*args = append(*args, v)
		b.WriteString("$" + strconv.Itoa(len(*args)))
	}
	return b.String()
}

// PutLeases gives addresses to MACs; moved are the MACs among them that had other ones before. Every MAC and every address
// is there once. core.ErrExists if an address has become another MAC's since the caller looked.
func PutLeases(ctx context.Context, tx *core.Tx, network string, leases []Lease, moved []string) error {
	if len(moved) > 0 {
		args := []any{network}
		if _, err := tx.Exec(ctx, `DELETE FROM lease WHERE network = $1 AND mac IN (`+places(&args, moved)+`)`,
			args...); err != nil {
			return fmt.Errorf("move leases: %w", err)
		}
	}
	rows, args := make([]string, len(leases)), []any{network}
	for i, l := range leases {
		expires := int64(0)
		if !l.Expires.IsZero() {
			expires = l.Expires.UnixMilli()
		}
		rows[i] = "($1, " + places(&args, []any{number(l.Address), l.MAC, expires}) + ")"
	}
	n, err := tx.Exec(ctx, `INSERT INTO lease (network, address, mac, expires) VALUES `+strings.Join(rows, ", ")+`
		ON CONFLICT (network, address) DO UPDATE SET mac = excluded.mac, expires = excluded.expires
		WHERE lease.mac = excluded.mac OR lease.expires > 0 AND lease.expires <= now_ms()`, args...)
	if core.Taken(err) || err == nil && int(n) < len(leases) {
		return fmt.Errorf("an address on network %s: %w", network, core.ErrExists)
	}
	return wrap.Errorf(err, "lease addresses on network %s", network)
}

// LearnLease notes the address that another DHCP server gave to a MAC; that server knows best whose it is now.
func LearnLease(ctx context.Context, tx *core.Tx, network, mac string, address netip.Addr) error {
	_, err := tx.Exec(ctx, `DELETE FROM lease WHERE network = $1 AND (mac = $2 OR address = $3)`, network, mac, number(address))
	if err == nil {
		_, err = tx.Exec(ctx, `INSERT INTO lease (network, address, mac, expires) VALUES ($1, $2, $3, 0)`, network,
			number(address), mac)
	}
	return wrap.Errorf(err, "note that %s has %s", mac, address)
}

// ProveLease lets a lease that was given for a time last that long from now, if that is longer.
func ProveLease(ctx context.Context, tx *core.Tx, network, mac string, length time.Duration) error {
	_, err := tx.Exec(ctx, `UPDATE lease SET expires = now_ms() + $3 WHERE network = $1 AND mac = $2 AND expires > 0 AND
		expires < now_ms() + $3`,
		network, mac, length.Milliseconds())
	return wrap.Errorf(err, "prolong the lease of %s", mac)
}

// Passing lists the leases that were given for a time and are not over, those that end first.
func Passing(ctx context.Context, tx *core.Tx, network string) ([]Lease, error) {
	leases, err := core.List(ctx, tx, scanLease,
		`SELECT `+leaseColumns+` FROM lease WHERE network = $1 AND expires > now_ms() ORDER BY expires`, network)
	return leases, wrap.Errorf(err, "list the leases of unknown machines on network %s", network)
}

// SetLeaseAside takes an address from a MAC and gives it to no other for a time. It does nothing if the MAC has it not.
func SetLeaseAside(ctx context.Context, tx *core.Tx, network, mac string, address netip.Addr, length time.Duration) error {
	_, err := tx.Exec(ctx, `UPDATE lease SET mac = $4, expires = now_ms() + $5 WHERE network = $1 AND mac = $2 AND address = $3`,
		network, mac, number(address), "declined "+address.String(), length.Milliseconds())
	return wrap.Errorf(err, "set %s aside", address)
}

// DropLease ends a lease that was given for a time; an enrolled machine's stays.
func DropLease(ctx context.Context, tx *core.Tx, network, mac string, address netip.Addr) error {
	_, err := tx.Exec(ctx, `DELETE FROM lease WHERE network = $1 AND mac = $2 AND address = $3 AND expires > 0`, network, mac,
		number(address))
	return wrap.Errorf(err, "drop the lease of %s", mac)
}

// DiscoveredMachine is a machine that asked to boot and is not enrolled.
type DiscoveredMachine struct {
	MAC       string
	Network   string
	MACs      []string
	Facts     inventory.Facts
	FirstSeen time.Time
	LastSeen  time.Time
}

// strangers is how many are remembered; the ones seen longest ago make room.
const strangers = 1000

// SeeDiscovered notes that an unknown machine asked for something. If it was not seen before, it reports how many of the network
// are new within an hour; else 0.
func SeeDiscovered(ctx context.Context, tx *core.Tx, network, mac string) (fresh int, err error) {
	n, err := tx.Exec(ctx, `UPDATE unknown_machine SET last_seen = now_ms(), network = $2 WHERE mac = $1`, mac, network)
	if err == nil && n == 0 {
		_, err = tx.Exec(ctx, `INSERT INTO unknown_machine (mac, network, first_seen, last_seen) VALUES ($1, $2, now_ms(), now_ms())`,
			mac, network)
		if err == nil {
			_, err = tx.Exec(ctx, `DELETE FROM unknown_machine WHERE mac NOT IN (SELECT mac FROM unknown_machine ORDER BY last_seen DESC
				LIMIT $1)`, strangers)
		}
	}
	if err == nil && n == 0 {
		err = tx.Row(ctx, `SELECT COUNT(*) FROM unknown_machine WHERE network = $1 AND first_seen > now_ms() - 3600000`,
			network).Scan(&fresh)
	}
	return fresh, wrap.Errorf(err, "note unknown machine %s", mac)
}

// DescribeDiscovered notes what an unknown machine says of itself.
func DescribeDiscovered(ctx context.Context, tx *core.Tx, mac string, macs []string, facts inventory.Facts) error {
	_, err := tx.Exec(ctx, `UPDATE unknown_machine SET macs = $1, facts = $2, last_seen = now_ms() WHERE mac = $3`,
		core.JSON(macs), core.JSON(facts), mac)
	return wrap.Errorf(err, "note unknown machine %s", mac)
}

// DiscoveredMachines lists the unknown machines by MAC.
func DiscoveredMachines(ctx context.Context, tx *core.Tx) ([]DiscoveredMachine, error) {
	scan := core.Fields(func(s *DiscoveredMachine) []any {
		return []any{&s.MAC, &s.Network, core.JSON(&s.MACs), core.JSON(&s.Facts), core.Time(&s.FirstSeen), core.Time(&s.LastSeen)}
	})
	all, err := core.List(ctx, tx, scan, `SELECT mac, network, macs, facts, first_seen, last_seen FROM unknown_machine ORDER BY mac`)
	return all, wrap.Errorf(err, "list unknown machines")
}

// ForgetDiscovered is for one that was enrolled.
func ForgetDiscovered(ctx context.Context, tx *core.Tx, mac string) error {
	_, err := tx.Exec(ctx, `DELETE FROM unknown_machine WHERE mac = $1`, mac)
	return wrap.Errorf(err, "forget unknown machine %s", mac)
}
