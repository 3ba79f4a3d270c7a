package fabric

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"muster/internal/core"
	"muster/internal/fabric"
	"muster/internal/inventory"
	"muster/internal/kinds/machine"
	"muster/internal/kit/lists"
	"muster/internal/kit/wrap"
)

// Keys of clusters are below FirstSiteKey, those of the site's own partitions from there on.
const FirstSiteKey fabric.Key = 0x7000

// PortKind is how a member has its port.
type PortKind string

const (
	WholePort    PortKind = "port"     // its machine has the port to itself
	SharedPort   PortKind = "shared"   // guests of several clusters are behind one port; their host keeps them apart
	FunctionPort PortKind = "function" // it is that of a virtual function, and goes with it
	SitePort     PortKind = "site"     // it is in a partition of the site's own
)

// Partition is a cluster's on one fabric, or one of the site's own.
type Partition struct {
	ID        string
	Fabric    string // ID
	Key       fabric.Key
	ClusterID string
	Cluster   string // its name; "" of the site's own
	Name      string // of one of the site's own
	Open      bool   // all clusters' ports are limited members
	Wanted    bool
	Members   []Member
}

// Words names it: "cluster cfd", "partition storage".
func (p Partition) Words() string {
	if p.ClusterID != "" {
		return "cluster " + p.Cluster
	}
	return "partition " + p.Name
}

// Member is a port in a partition. One that is not wanted any more is there until it was seen without the key.
type Member struct {
	Partition  string // ID
	GUID       fabric.GUID
	Kind       PortKind
	NodeID     string // "" of the site's own
	Membership fabric.Membership
	Wanted     bool
	Since      int64 // the fabric's revision from which on it is, or is not, wanted
}

// NodePort is a port by which a node is in its cluster's partition, or was, and what was last seen of it.
type NodePort struct {
	Member
	FabricID string
	Fabric   string // name
	Key      fabric.Key
	Applied  int64 // revisions of the fabric
	Read     int64
	Seen     PortSeen // without a GUID: it was never read
}

// Told says that the fabric's manager knows what is wanted of the port, and that the ports were read since.
func (p NodePort) Told() bool { return p.Applied >= p.Since && p.Read >= p.Since }

// Silent says that the port did not answer when it was last looked for.
func (p NodePort) Silent() bool { return !p.Seen.Answered }

// Has says that the port was seen with the key, as the kind of member that it is to be, and with nothing that it must not have.
func (p NodePort) Has() bool {
	return p.Told() && p.Seen.Answered && len(p.Seen.Surplus) == 0 && slices.Contains(p.Seen.Entries, p.Key.In(p.Membership))
}

// TableFull says that a port has no room for another key.
type TableFull struct {
	Fabric   string
	Whose    string // "machine r1n1", or, of one that is no machine's, "port 0x…"
	Used, Of int    // partitions beside the default one
}

func (e *TableFull) Error() string {
	return fmt.Sprintf("fabric %s: partition table of %s is full (%d of %d)", e.Fabric, e.Whose, e.Used, e.Of)
}

// KeysUsed says that a fabric has no key left.
type KeysUsed struct{ Fabric string }

func (e *KeysUsed) Error() string {
	return fmt.Sprintf("fabric %s: all keys are taken, or were not yet seen gone from all ports", e.Fabric)
}

// joint is a port that a node is to join by.
type joint struct {
	Port
	kind PortKind
}

// joints are the ports by which a node is on fabrics: those of its machine, or of the devices that it holds of its host.
func joints(ctx context.Context, tx *core.Tx, node string, m inventory.Machine, held []string) ([]joint, error) {
	var found []joint
	if !m.IsGuest() {
		ports, err := MachinePorts(ctx, tx, m.ID)
		for _, p := range ports {
			found = append(found, joint{p, WholePort})
		}
		return found, err
	}
	host, err := machine.Get(ctx, tx, m.Host)
	if err != nil {
		return nil, err
	}
	functions := 0
	for _, pci := range held {
		d := device(host.Facts, pci)
		if d.Kind != "hca" {
			continue
		}
		own := fabric.GuestPort(node, functions)
		whole := d
		if d.Parent != "" {
			whole = device(host.Facts, d.Parent)
			functions++
		}
		adapter, err := fabric.ParseGUID(whole.GUID)
		if err != nil {
			continue // it is not known where its ports are
		}
		ports, err := portsWhere(ctx, tx, `p.adapter = $1`, adapter.String())
		if err != nil {
			return nil, err
		}
		for _, p := range ports {
			j := joint{p, SharedPort}
			switch {
			case d.Parent == "":
				j.kind = WholePort
			case inventory.DriverOf(whole) != sharesPorts:
				j.kind, j.GUID = FunctionPort, own
			}
			found = append(found, j)
			if j.kind == FunctionPort {
				break // a function has one port
			}
		}
	}
	return found, nil
}

// sharesPorts is the driver of adapters whose virtual functions are behind the adapter's own ports, with one table for all;
// the last entry of that is the adapter's.
const sharesPorts = "mlx4"

// device is one of a machine's, by its PCI address.
func device(f inventory.Facts, pci string) inventory.Device {
	for _, d := range f.Devices {
		if d.PCI == pci {
			return d
		}
	}
	return inventory.Device{}
}

// Join makes a node's ports members of its cluster's partitions, one a fabric, made where there is none yet. held are the PCI
// addresses of what a guest has of its host, in that order. It belongs into the transaction that places the node, or gives it
// other devices. The error is a *TableFull, a *KeysUsed, or the database's.
func Join(ctx context.Context, tx *core.Tx, node, cluster string, m inventory.Machine, held []string) error {
	joints, err := joints(ctx, tx, node, m, held)
	if err != nil || len(joints) == 0 {
		return err
	}
	revisions := map[string]int64{}
	for _, j := range joints {
		f, err := Get(ctx, tx, j.Fabric)
		if err != nil {
			return err
		}
		partition, err := partitionOf(ctx, tx, f, cluster)
		if err != nil {
			return err
		}
		if err := fits(ctx, tx, f.Name, m.Name, partition, j); err != nil {
			return err
		}
		if revisions[f.ID] == 0 {
			if revisions[f.ID], err = change(ctx, tx, f.ID); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, `INSERT INTO partition_member (partition_id, fabric_id, guid, kind, node_id, full_member, since)
			VALUES ($1, $2, $3, $4, $5, 1, $6)
			ON CONFLICT (partition_id, guid, COALESCE(node_id, '')) DO UPDATE SET wanted = 1, since = excluded.since`,
			partition, f.ID, j.GUID.String(), string(j.kind), node, revisions[f.ID])
		if err != nil {
			return fmt.Errorf("make port %s a member of its cluster's partition of fabric %s: %w", j.GUID, f.Name, err)
		}
	}
	return nil
}

// Rejoin is Join for a node that has other devices than before.
func Rejoin(ctx context.Context, tx *core.Tx, node, cluster string, m inventory.Machine, held []string) error {
	if err := Leave(ctx, tx, node); err != nil {
		return err
	}
	return Join(ctx, tx, node, cluster, m, held)
}

// partitionOf is the ID of a cluster's partition on a fabric. A new one gets the next free key, so that one that was given back
// stays unused for as long as possible.
func partitionOf(ctx context.Context, tx *core.Tx, f Fabric, cluster string) (string, error) {
	id, err := core.One(ctx, tx, core.Value[string], `SELECT id FROM partition WHERE fabric_id = $1 AND cluster_id = $2`, f.ID, cluster)
	if err == nil || !errors.Is(err, core.ErrNotFound) {
		return id, err
	}
	var last fabric.Key
	if err := tx.Row(ctx, `UPDATE fabric SET last_key = last_key WHERE id = $1 RETURNING last_key`, f.ID).
		Scan(&last); err != nil {
		return "", fmt.Errorf("find a key of fabric %s: %w", f.Name, err)
	}
	key, err := freeKey(ctx, tx, f, last, fabric.FirstKey, FirstSiteKey-1)
	if err != nil {
		return "", err
	}
	if _, err := tx.Exec(ctx, `UPDATE fabric SET last_key = $2 WHERE id = $1`, f.ID, int(key)); err != nil {
		return "", fmt.Errorf("take a key of fabric %s: %w", f.Name, err)
	}
	id = f.ID + "-" + key.String() + "-" + cluster
	if _, err := tx.Exec(ctx, `INSERT INTO partition (id, fabric_id, pkey, cluster_id, name) VALUES ($1, $2, $3, $4, '')`, id,
		f.ID, int(key), cluster); err != nil {
		return "", fmt.Errorf("take key %s of fabric %s: %w", key, f.Name, err)
	}
	return id, nil
}

// freeKey is the first free one behind the last, and then from the first on.
func freeKey(ctx context.Context, tx *core.Tx, f Fabric, last, first, limit fabric.Key) (fabric.Key, error) {
	taken, err := core.List(ctx, tx, core.Value[fabric.Key], `SELECT pkey FROM partition WHERE fabric_id = $1`, f.ID)
	if err != nil {
		return 0, fmt.Errorf("list the keys of fabric %s: %w", f.Name, err)
	}
	used := lists.Set(taken)
	last = max(last, first-1)
	for i := range int(limit-first) + 1 {
		key := first + fabric.Key((int(last-first+1)+i)%(int(limit-first)+1))
		if !used[key] {
			return key, nil
		}
	}
	return 0, &KeysUsed{f.Name}
}

// fits says whether a port's table has room for a partition's key.
func fits(ctx context.Context, tx *core.Tx, fabricName, machine, partition string, j joint) error {
	var capacity, used int
	err := tx.Row(ctx, `SELECT COALESCE((SELECT capacity FROM port_seen WHERE guid = $1), 0),
			(SELECT COUNT(*) FROM partition p WHERE p.fabric_id = $2 AND p.id <> $3
			    AND (p.open = 1 AND p.wanted = 1 OR EXISTS (SELECT 1 FROM partition_member m WHERE m.partition_id = p.id
			AND m.guid = $1)))`,
		j.GUID.String(), j.Fabric, partition).Scan(&capacity, &used)
	if err != nil {
		return fmt.Errorf("count the keys of port %s: %w", j.GUID, err)
	}
	if full := (table{capacity, used}).full(fabricName, "machine "+machine); full != nil {
		return full
	}
	return nil
}

// table is how many keys a port's table takes, 0 if it was never read, and how many partitions it is, or was, in.
type table struct{ capacity, used int }

// spare are the entries of a table that are no cluster's: that of the default partition, and one that stays free, since the
// last one stands for "none" on some adapters. The driver for OpenSM refuses all changes of a fabric on which a port is to have
// more.
const spare = 2

// full is nil if the table has room for another key.
func (t table) full(fabricName, whose string) *TableFull {
	if of := t.capacity - spare; t.capacity > 0 && t.used >= of {
		return &TableFull{fabricName, whose, t.used, of}
	}
	return nil
}

// tables are those of all fabrics' ports, and which of the ports are members of clusters' partitions, or were not yet seen
// without their keys.
func tables(ctx context.Context, tx *core.Tx) (tables map[fabric.GUID]table, held map[fabric.GUID]bool, err error) {
	tables, held = map[fabric.GUID]table{}, map[fabric.GUID]bool{}
	scan := func(r core.Scanner) (struct{}, error) {
		var text string
		var t table
		var member bool
		if err := r.Scan(&text, &t.capacity, &t.used, &member); err != nil {
			return struct{}{}, err
		}
		guid, err := fabric.ParseGUID(text)
		tables[guid], held[guid] = t, member
		return struct{}{}, err
	}
	_, err = core.List(ctx, tx, scan, `SELECT f.guid, COALESCE(s.capacity, 0),
			(SELECT COUNT(*) FROM partition p WHERE p.fabric_id = f.fabric_id AND p.open = 1 AND p.wanted = 1)
			    + (SELECT COUNT(DISTINCT p.id) FROM partition_member m JOIN partition p ON p.id = m.partition_id
			WHERE m.guid = f.guid AND NOT (p.open = 1 AND p.wanted = 1)),
			CASE WHEN EXISTS (SELECT 1 FROM partition_member m WHERE m.guid = f.guid AND m.kind IN ('port', 'shared')) THEN 1
			ELSE 0 END
		FROM fabric_port f LEFT JOIN port_seen s ON s.guid = f.guid`)
	return tables, held, wrap.Errorf(err, "count the keys of all ports")
}

// Unfit says of machines why no node can come to them for their ports' sake, by ID: a table is full, or a port was not yet seen
// without what its last cluster had.
func Unfit(ctx context.Context, tx *core.Tx, machines []machine.Machine) (map[string]string, error) {
	ports, err := Ports(ctx, tx, "")
	if err != nil || len(ports) == 0 {
		return nil, err
	}
	fabrics, err := List(ctx, tx)
	if err != nil {
		return nil, err
	}
	tables, held, err := tables(ctx, tx)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, f := range fabrics {
		names[f.ID] = f.Name
	}
	of := lists.By(machines, func(m machine.Machine) string { return m.ID })
	unfit := map[string]string{}
	for _, p := range ports {
		m, known := of[p.MachineID]
		if !known || !m.Free() {
			continue
		}
		if held[p.GUID] {
			unfit[m.ID] = fmt.Sprintf("fabric %s: port %s of machine %s was not yet seen without the key of its last cluster",
				names[p.Fabric], p.GUID, m.Name)
		} else if full := tables[p.GUID].full(names[p.Fabric], "machine "+m.Name); full != nil {
			unfit[m.ID] = full.Error()
		}
	}
	return unfit, nil
}

// Leave ends a node's memberships: its ports are to lose their keys. It may be repeated.
func Leave(ctx context.Context, tx *core.Tx, node string) error {
	on, err := core.List(ctx, tx, core.Value[string],
		`SELECT DISTINCT fabric_id FROM partition_member WHERE node_id = $1 AND wanted = 1 ORDER BY fabric_id`, node)
	for _, id := range on {
		var revision int64
		if err == nil {
			revision, err = change(ctx, tx, id)
		}
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE partition_member SET wanted = 0, since = $3 WHERE node_id = $1 AND fabric_id = $2
				AND wanted = 1`, node, id, revision)
		}
	}
	return wrap.Errorf(err, "take node %s off its fabrics", node)
}

const nodePortColumns = `m.partition_id, m.guid, m.kind, COALESCE(m.node_id, ''), m.full_member, m.wanted, m.since, f.id, f.name,
	p.pkey, f.applied, f.seen,
	COALESCE(s.guid, ''), COALESCE(s.entries, ''), COALESCE(s.capacity, 0), COALESCE(s.answered, 0), COALESCE(s.surplus, ''),
	COALESCE(s.missing, ''),
	COALESCE(s.seen_at, 0), COALESCE(s.odd_at, 0)
	FROM partition_member m JOIN partition p ON p.id = m.partition_id JOIN fabric f ON f.id = m.fabric_id
	LEFT JOIN port_seen s ON s.guid = m.guid `

func scanNodePort(r core.Scanner) (NodePort, error) {
	var p NodePort
	var guid string
	var full bool
	err := readSeen(r, &p.Seen, &p.Partition, &guid, &p.Kind, &p.NodeID, &full, &p.Wanted, &p.Since, &p.FabricID, &p.Fabric,
		&p.Key, &p.Applied, &p.Read)
	if err != nil {
		return p, err
	}
	p.Membership = membership(full)
	return p, p.GUID.UnmarshalText([]byte(guid))
}

func membership(full bool) fabric.Membership {
	if full {
		return fabric.Full
	}
	return fabric.Limited
}

// NodePorts lists the ports by which a node is on fabrics, and those that were not yet seen without its keys.
func NodePorts(ctx context.Context, tx *core.Tx, node string) ([]NodePort, error) {
	all, err := core.List(ctx, tx, scanNodePort, `SELECT `+nodePortColumns+`WHERE m.node_id = $1 ORDER BY f.name, m.guid`, node)
	return all, wrap.Errorf(err, "list ports of node %s", node)
}

// GuestKeys are the keys that a cluster's guests on a host may speak by, by the host's ports; nil where there are none.
func GuestKeys(ctx context.Context, tx *core.Tx, cluster, host string) (map[fabric.GUID]fabric.Key, error) {
	var keys map[fabric.GUID]fabric.Key
	scan := func(r core.Scanner) (guid string, err error) {
		var key fabric.Key
		var port fabric.GUID
		if err = r.Scan(&guid, &key); err == nil {
			err = port.UnmarshalText([]byte(guid))
		}
		if keys == nil {
			keys = map[fabric.GUID]fabric.Key{}
		}
		keys[port] = key
		return guid, err
	}
	_, err := core.List(ctx, tx, scan,
		`SELECT p.guid, q.pkey FROM fabric_port p JOIN partition q ON q.fabric_id = p.fabric_id WHERE q.cluster_id = $1 AND
			p.machine_id = $2`, cluster, host)
	return keys, wrap.Errorf(err, "list keys of guests on host %s", host)
}

// Unclean lists the ports of a machine that were not yet seen without the keys of nodes that have gone.
func Unclean(ctx context.Context, tx *core.Tx, machine string) ([]NodePort, error) {
	all, err := core.List(ctx, tx, scanNodePort, `SELECT `+nodePortColumns+`WHERE m.wanted = 0 AND m.kind <> 'site'
		AND m.guid IN (SELECT guid FROM fabric_port WHERE machine_id = $1) ORDER BY f.name, m.guid`, machine)
	return all, wrap.Errorf(err, "list ports of machine %s that hold keys", machine)
}

// Waiting lists the nodes on a fabric that wait for what is seen of their ports, and the machines of ports that are to be seen
// clean.
func Waiting(ctx context.Context, tx *core.Tx, fabricID string) (nodes, machines []string, err error) {
	nodes, err = core.List(ctx, tx, core.Value[string], `SELECT DISTINCT n.id FROM partition_member m JOIN node n ON n.id = m.node_id
		WHERE m.fabric_id = $1 AND n.phase IN ('attaching', 'joining', 'releasing', 'failed')`, fabricID)
	if err == nil {
		machines, err = core.List(ctx, tx, core.Value[string], `SELECT DISTINCT p.machine_id FROM partition_member m
			JOIN fabric_port p ON p.guid = m.guid
			JOIN machine h ON h.id = p.machine_id WHERE m.fabric_id = $1 AND m.wanted = 0 AND h.phase = 'inspecting'`, fabricID)
	}
	return nodes, machines, wrap.Errorf(err, "list who waits for fabric %s", fabricID)
}

// Partitions lists a fabric's partitions by key, with their members; those of all fabrics with "".
func Partitions(ctx context.Context, tx *core.Tx, fabricID string) ([]Partition, error) {
	scan := core.Fields(func(p *Partition) []any {
		return []any{&p.ID, &p.Fabric, &p.Key, &p.ClusterID, &p.Cluster, &p.Name, &p.Open, &p.Wanted}
	})
	all, err := core.List(ctx, tx, scan, `SELECT p.id, p.fabric_id, p.pkey, COALESCE(p.cluster_id, ''), COALESCE(c.name, ''),
		p.name, p.open, p.wanted
		FROM partition p LEFT JOIN cluster c ON c.id = p.cluster_id
		WHERE `+ofFabric("p.fabric_id", fabricID)+` ORDER BY p.fabric_id, p.pkey`, fabricID)
	if err != nil || len(all) == 0 {
		return all, err
	}
	scanMember := func(r core.Scanner) (m Member, err error) {
		var guid string
		var full bool
		if err := r.Scan(&m.Partition, &guid, &m.Kind, &m.NodeID, &full, &m.Wanted, &m.Since); err != nil {
			return m, err
		}
		m.Membership = membership(full)
		return m, m.GUID.UnmarshalText([]byte(guid))
	}
	members, err := core.List(ctx, tx, scanMember, `SELECT partition_id, guid, kind, COALESCE(node_id, ''), full_member, wanted,
		since
		FROM partition_member WHERE `+ofFabric("fabric_id", fabricID)+` ORDER BY guid`, fabricID)
	if err != nil {
		return nil, fmt.Errorf("list members of fabric %s: %w", fabricID, err)
	}
	at := map[string]*Partition{}
	for i := range all {
		at[all[i].ID] = &all[i]
	}
	for _, m := range members {
		at[m.Partition].Members = append(at[m.Partition].Members, m)
	}
	return all, nil
}

// DropMembers forgets memberships that have ended and were seen to have. One that is wanted again meanwhile stays.
func DropMembers(ctx context.Context, tx *core.Tx, members []Member) error {
	for _, m := range members {
		_, err := tx.Exec(ctx, `DELETE FROM partition_member WHERE partition_id = $1 AND guid = $2 AND COALESCE(node_id, '')
			= $3 AND wanted = 0 AND since = $4`,
			m.Partition, m.GUID.String(), m.NodeID, m.Since)
		if err != nil {
			return fmt.Errorf("forget that port %s was a member: %w", m.GUID, err)
		}
	}
	return nil
}

// FreeKeys frees the keys of partitions that are not wanted any more, whose members were all seen without them, but for those
// that some port holds all the same.
func FreeKeys(ctx context.Context, tx *core.Tx, fabricID string, held map[fabric.Key]bool) error {
	over, err := core.Pairs[string, fabric.Key](ctx, tx, `SELECT p.id, p.pkey FROM partition p LEFT JOIN cluster c ON c.id = p.cluster_id
		WHERE p.fabric_id = $1 AND (p.wanted = 0 OR c.phase = 'deleted') AND NOT EXISTS (SELECT 1 FROM partition_member m
		WHERE m.partition_id = p.id)`, fabricID)
	for id, key := range over {
		if err == nil && !held[key] {
			_, err = tx.Exec(ctx, `DELETE FROM partition WHERE id = $1`, id)
		}
	}
	return wrap.Errorf(err, "free keys of fabric %s", fabricID)
}
