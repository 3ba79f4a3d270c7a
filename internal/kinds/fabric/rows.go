// Package fabric keeps the fabrics that are managed: their ports, who is to be in which partition, and what was read back.
//
// What enters: fabrics from operators, members from admission, tables from fabrics' drivers. What leaves: rows and intent.
package fabric

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/fabric"
	"muster/internal/kit/lists"
	"muster/internal/kit/wrap"
)

// Fabric is an InfiniBand fabric whose partitions Muster keeps. Revision is intent, Applied and Seen are observation.
type Fabric struct {
	core.Life
	ID        string
	Name      string
	Driver    string
	Config    map[string]string // what the driver is told
	Managers  []fabric.GUID     // ports of the subnet managers
	Desired   core.Desired
	Revision  int64 // of what its ports are to hold
	Applied   int64 // the revision that its manager took last
	AppliedAt time.Time
	Seen      int64 // the revision that its manager had when all ports were read last
	SeenAt    time.Time
	CreatedAt time.Time
	CreatedBy string
}

// Intent is what the fabric is to be, by its partitions. Every port of a cluster is a limited member of the site's open ones.
func (f Fabric) Intent(partitions []Partition) fabric.Intent {
	i := fabric.Intent{Managers: f.Managers}
	tenants := map[fabric.GUID]bool{}
	for _, p := range partitions {
		for _, m := range p.Members {
			tenants[m.GUID] = tenants[m.GUID] || m.Wanted && p.ClusterID != ""
		}
	}
	for _, p := range partitions {
		to := fabric.Partition{Key: p.Key, Members: map[fabric.GUID]fabric.Membership{}}
		for guid, is := range tenants {
			if p.Open && is {
				to.Members[guid] = fabric.Limited
			}
		}
		for _, m := range p.Members {
			if m.Wanted {
				to.Members[m.GUID] = m.Membership
			}
		}
		if len(to.Members) > 0 {
			i.Partitions = append(i.Partitions, to)
		}
	}
	return i
}

// Port is a port of an adapter on a fabric.
type Port struct {
	GUID      fabric.GUID
	Fabric    string // ID
	Adapter   fabric.GUID
	Number    int    // which of its host's ports
	Name      string // as its host calls itself; not verified
	MachineID string // "" while it is not known
	Machine   string
	Assigned  bool // an operator said whose it is
}

// PortSeen is what was read from a port, the last time that it answered.
type PortSeen struct {
	GUID     fabric.GUID
	Entries  []fabric.Entry
	Capacity int            // slots of the table; 0: not known
	Answered bool           // in the last reading
	Surplus  []fabric.Entry // that it holds and must not
	Missing  []fabric.Entry // that it should hold
	SeenAt   time.Time      // when this was so first
	OddAt    time.Time      // since when it holds what it must not, as far as seen; zero: it does not
}

// ErrInUse is returned for what cannot go because something else needs it; the error's text says what.
var ErrInUse = errors.New("in use")

const columns = `id, name, driver, config, managers, desired, revision, applied, applied_at, seen, seen_at, created_at, created_by, ` + core.LifeColumns

func scan(r core.Scanner) (f Fabric, err error) {
	fields := []any{&f.ID, &f.Name, &f.Driver, core.JSON(&f.Config), core.JSON(&f.Managers), &f.Desired, &f.Revision, &f.Applied,
		core.Time(&f.AppliedAt), &f.Seen, core.Time(&f.SeenAt), core.Time(&f.CreatedAt), &f.CreatedBy}
	err = r.Scan(append(fields, f.Fields()...)...)
	return f, wrap.Errorf(err, "row of fabric %s", f.Name)
}

// Add stores a fabric to be kept. core.ErrExists if the name is taken.
func Add(ctx context.Context, tx *core.Tx, f Fabric) error {
	_, err := tx.Exec(ctx, `INSERT INTO fabric (id, name, driver, config, managers, desired, created_at, created_by, phase,
		phase_at, wake_at)
		VALUES ($1, $2, $3, $4, $5, $6, now_ms(), $7, $8, now_ms(), now_ms())`,
		f.ID, f.Name, f.Driver, core.JSON(f.Config), core.JSON(f.Managers), string(core.Present), f.CreatedBy,
		string(core.Pending))
	if core.Taken(err) {
		err = core.ErrExists
	}
	return wrap.Errorf(err, "add fabric %s", f.Name)
}

// List lists those that are not deleted, by name.
func List(ctx context.Context, tx *core.Tx) ([]Fabric, error) {
	all, err := core.List(ctx, tx, scan, `SELECT `+columns+` FROM fabric WHERE phase <> 'deleted' ORDER BY name`)
	return all, wrap.Errorf(err, "list fabrics")
}

// Get finds one that is not deleted by name or ID.
func Get(ctx context.Context, tx *core.Tx, ref string) (Fabric, error) {
	f, err := core.One(ctx, tx, scan, `SELECT `+columns+` FROM fabric WHERE (name = $1 OR id = $1) AND phase <> 'deleted'`, ref)
	return f, wrap.Errorf(err, "fabric %s", ref)
}

// Any says whether there is any; most sites have none, and pay no more than this question.
func Any(ctx context.Context, tx *core.Tx) (has bool, err error) {
	err = tx.Row(ctx, `SELECT EXISTS (SELECT 1 FROM fabric WHERE phase <> 'deleted')`).Scan(&has)
	return has, wrap.Errorf(err, "look for fabrics")
}

// WantDeleted asks for the end of a fabric that no cluster is on; what is the site's own goes with it. ErrInUse says who is on
// it.
func WantDeleted(ctx context.Context, tx *core.Tx, f Fabric) error {
	partitions, err := Partitions(ctx, tx, f.ID)
	if err != nil {
		return err
	}
	for _, p := range partitions {
		if p.ClusterID != "" {
			return fmt.Errorf("fabric %s is %w: key %s of %s was not yet seen gone from all its ports; delete the cluster, "+
				"and try again when `muster fabric get %s` no longer shows the key",
				f.Name, ErrInUse, p.Key, p.Words(), f.Name)
		}
	}
	for _, statement := range []string{
		`DELETE FROM partition_member WHERE fabric_id = $1`,
		`DELETE FROM partition WHERE fabric_id = $1`,
		`DELETE FROM port_seen WHERE fabric_id = $1`,
		`DELETE FROM fabric_port WHERE fabric_id = $1`,
		`DELETE FROM fabric_snapshot WHERE fabric_id = $1`,
		`UPDATE fabric SET desired = 'deleted', ` + core.Woken + ` WHERE id = $1`,
	} {
		if _, err := tx.Exec(ctx, statement, f.ID); err != nil {
			return fmt.Errorf("remove fabric %s: %w", f.Name, err)
		}
	}
	return DropTopology(ctx, tx, f.Name)
}

// change gives what a fabric's ports are to hold a new revision, and has its handler run.
func change(ctx context.Context, tx *core.Tx, id string) (revision int64, err error) {
	err = tx.Row(ctx, `UPDATE fabric SET revision = revision + 1, `+core.Woken+` WHERE id = $1 RETURNING revision`, id).
		Scan(&revision)
	return revision, wrap.Errorf(err, "change what fabric %s is to be", id)
}

// SaveApplied notes that a fabric's manager has taken a revision.
func SaveApplied(ctx context.Context, tx *core.Tx, id string, revision int64) error {
	_, err := tx.Exec(ctx, `UPDATE fabric SET applied = $2, applied_at = now_ms() WHERE id = $1`, id, revision)
	return wrap.Errorf(err, "note what the manager of fabric %s has taken", id)
}

// SaveSeen writes what was read from the ports of a fabric whose manager had a revision: those whose rows differ from before.
func SaveSeen(ctx context.Context, tx *core.Tx, id string, revision int64, changed []PortSeen) error {
	_, err := tx.Exec(ctx, `UPDATE fabric SET seen = $2, seen_at = now_ms() WHERE id = $1`, id, revision)
	for _, p := range changed {
		if err != nil {
			break
		}
		_, err = tx.Exec(ctx, `INSERT INTO port_seen (guid, fabric_id, entries, capacity, answered, surplus, missing, seen_at,
			odd_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, now_ms(), now_ms() * CAST($8 AS BIGINT))
			ON CONFLICT (guid) DO UPDATE SET fabric_id = excluded.fabric_id, entries = excluded.entries,
			capacity = excluded.capacity,
				answered = excluded.answered, surplus = excluded.surplus, missing = excluded.missing, seen_at = excluded.seen_at,
				odd_at = CASE WHEN excluded.odd_at > 0 AND port_seen.odd_at > 0 THEN port_seen.odd_at ELSE excluded.odd_at END`,
			p.GUID.String(), id, core.JSON(p.Entries), p.Capacity, core.Flag(p.Answered), core.JSON(p.Surplus),
			core.JSON(p.Missing), core.Flag(len(p.Surplus) > 0))
	}
	return wrap.Errorf(err, "write what was read from the ports of fabric %s", id)
}

func scanSeen(r core.Scanner) (PortSeen, error) {
	var p PortSeen
	return p, readSeen(r, &p)
}

const seenColumns = `s.guid, s.entries, s.capacity, s.answered, s.surplus, s.missing, s.seen_at, s.odd_at`

// readSeen scans seenColumns, behind the columns given.
func readSeen(r core.Scanner, p *PortSeen, before ...any) error {
	var guid string
	err := r.Scan(append(before, &guid, core.JSON(&p.Entries), &p.Capacity, &p.Answered, core.JSON(&p.Surplus),
		core.JSON(&p.Missing), core.Time(&p.SeenAt), core.Time(&p.OddAt))...)
	if err == nil && guid != "" { // "": of a port that was never read
		err = p.GUID.UnmarshalText([]byte(guid))
	}
	return wrap.Errorf(err, "row of port %s", guid)
}

// PortsSeen are the ports of a fabric that were ever read, by GUID.
func PortsSeen(ctx context.Context, tx *core.Tx, id string) (map[fabric.GUID]PortSeen, error) {
	return seenWhere(ctx, tx, `s.fabric_id = $1`, id)
}

// MachinePortsSeen are the ports of a machine that were ever read, whichever fabric they are on, by GUID.
func MachinePortsSeen(ctx context.Context, tx *core.Tx, machine string) (map[fabric.GUID]PortSeen, error) {
	return seenWhere(ctx, tx, `s.guid IN (SELECT guid FROM fabric_port WHERE machine_id = $1)`, machine)
}

func seenWhere(ctx context.Context, tx *core.Tx, condition, value string) (map[fabric.GUID]PortSeen, error) {
	all, err := core.List(ctx, tx, scanSeen, `SELECT `+seenColumns+` FROM port_seen s WHERE `+condition, value)
	if err != nil {
		return nil, fmt.Errorf("list what was read from ports: %w", err)
	}
	return lists.By(all, func(p PortSeen) fabric.GUID { return p.GUID }), nil
}

const portColumns = `p.guid, p.fabric_id, p.adapter, p.number, p.name, COALESCE(p.machine_id, ''), COALESCE(m.name, ''),
	p.assigned FROM fabric_port p LEFT JOIN machine m ON m.id = p.machine_id `

func scanPort(r core.Scanner) (Port, error) {
	var p Port
	var guid, adapter string
	if err := r.Scan(&guid, &p.Fabric, &adapter, &p.Number, &p.Name, &p.MachineID, &p.Machine, &p.Assigned); err != nil {
		return p, err
	}
	return p, errors.Join(p.GUID.UnmarshalText([]byte(guid)), p.Adapter.UnmarshalText([]byte(adapter)))
}

// Ports lists a fabric's ports by GUID; those of all fabrics with "".
func Ports(ctx context.Context, tx *core.Tx, id string) ([]Port, error) {
	return portsWhere(ctx, tx, ofFabric("p.fabric_id", id), id)
}

// ofFabric is the condition that a row is a fabric's, or any's with ""; $1 is the fabric. It is one that an index answers.
func ofFabric(column, id string) string {
	if id == "" {
		return `$1 = ''`
	}
	return column + ` = $1`
}

// Home is a port that was found to be a machine's.
type Home struct {
	Port    fabric.GUID
	Machine string // ID
}

// homesQuery reads the ports of one fabric, and the owners of their adapters; no machine.
const homesQuery = `SELECT p.guid, a.machine_id FROM fabric_port p JOIN adapter a ON a.guid = p.adapter
	WHERE p.fabric_id = $1 AND p.assigned = 0 AND COALESCE(p.machine_id, '') <> a.machine_id ORDER BY p.guid`

// Homes finds the machines of a fabric's ports by the GUIDs of the adapters that inspections have found in them: of ports that
// are not said to be those machines' yet, and whose machine no operator has said.
func Homes(ctx context.Context, tx *core.Tx, id string) ([]Home, error) {
	scan := func(r core.Scanner) (h Home, err error) {
		var guid string
		if err := r.Scan(&guid, &h.Machine); err != nil {
			return h, err
		}
		return h, h.Port.UnmarshalText([]byte(guid))
	}
	homes, err := core.List(ctx, tx, scan, homesQuery, id)
	return homes, wrap.Errorf(err, "find the machines at the ports of fabric %s", id)
}

// MachinePorts lists the ports of a machine by GUID, whichever fabric they are on.
func MachinePorts(ctx context.Context, tx *core.Tx, machine string) ([]Port, error) {
	return portsWhere(ctx, tx, `p.machine_id = $1`, machine)
}

// FabricOf is the ID of the fabric that a port is on, "" if it is on none.
func FabricOf(ctx context.Context, tx *core.Tx, port fabric.GUID) (string, error) {
	return core.Maybe(ctx, tx, core.Value[string], `SELECT fabric_id FROM fabric_port WHERE guid = $1`, port.String())
}

func portsWhere(ctx context.Context, tx *core.Tx, condition, value string) ([]Port, error) {
	all, err := core.List(ctx, tx, scanPort, `SELECT `+portColumns+`WHERE `+condition+` ORDER BY p.guid`, value)
	return all, wrap.Errorf(err, "list ports of fabrics")
}

// PutPorts adds ports to a fabric, or changes what is said of them, and keeps the snapshot that they were read from. Ports that
// are not in it stay: a machine that is off is in no snapshot. ErrInUse if one is another fabric's.
func PutPorts(ctx context.Context, tx *core.Tx, id string, ports []Port, snapshot string) error {
	for _, p := range ports {
		n, err := tx.Exec(ctx, `INSERT INTO fabric_port (guid, fabric_id, adapter, number, name) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (guid) DO UPDATE SET adapter = excluded.adapter, number = excluded.number, name = excluded.name
			WHERE fabric_port.fabric_id = excluded.fabric_id`,
			p.GUID.String(), id, p.Adapter.String(), p.Number, p.Name)
		if err == nil && n == 0 {
			err = ErrInUse
		}
		if err != nil {
			return fmt.Errorf("port %s is of another fabric: %w", p.GUID, err)
		}
	}
	_, err := tx.Exec(ctx, `INSERT INTO fabric_snapshot (fabric_id, taken_at, text) VALUES ($1, now_ms(), $2)
		ON CONFLICT (fabric_id) DO UPDATE SET taken_at = excluded.taken_at, text = excluded.text`, id, snapshot)
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE fabric SET `+core.Woken+` WHERE id = $1`, id)
	}
	return wrap.Errorf(err, "keep the snapshot of fabric %s", id)
}

// Snapshot is the fabric as ibnetdiscover printed it last; core.ErrNotFound before the first.
func Snapshot(ctx context.Context, tx *core.Tx, id string) (text string, at time.Time, err error) {
	scan := func(r core.Scanner) (text string, err error) {
		err = r.Scan(&text, core.Time(&at))
		return text, err
	}
	text, err = core.One(ctx, tx, scan, `SELECT text, taken_at FROM fabric_snapshot WHERE fabric_id = $1`, id)
	return text, at, wrap.Errorf(err, "snapshot of fabric %s", id)
}

// GivePort says which machine a port belongs to, "" for none; assigned, that an operator says so. ErrInUse while a cluster has
// it.
func GivePort(ctx context.Context, tx *core.Tx, guid fabric.GUID, machine string, assigned bool) error {
	n, err := tx.Exec(ctx, `UPDATE fabric_port SET machine_id = CASE WHEN $2 = '' THEN NULL ELSE $2 END, assigned = $3
		WHERE guid = $1 AND NOT EXISTS (SELECT 1 FROM partition_member m WHERE m.guid = fabric_port.guid
		AND m.kind <> 'site')`, guid.String(), machine, core.Flag(assigned))
	if err == nil && n == 0 {
		return usedPort(ctx, tx, guid)
	}
	return wrap.Errorf(err, "say whose port %s is", guid)
}

// usedPort is an ErrInUse that says in which partition a port is, or may still be.
func usedPort(ctx context.Context, tx *core.Tx, guid fabric.GUID) error {
	all, err := Partitions(ctx, tx, "")
	if err != nil {
		return err
	}
	for _, p := range all {
		for _, m := range p.Members {
			switch {
			case m.GUID != guid:
			case p.ClusterID == "":
				return fmt.Errorf("port %s is %w by the site's own %s; take it out of that first", guid, ErrInUse, p.Words())
			case m.Wanted:
				return fmt.Errorf("port %s is %w by %s; it can be done when the cluster has left its machine", guid, ErrInUse,
					p.Words())
			default:
				return fmt.Errorf("port %s is %w: it was not yet seen without the key of %s", guid, ErrInUse, p.Words())
			}
		}
	}
	return fmt.Errorf("port %s is %w", guid, ErrInUse)
}

// ForgetPort takes a port out of its fabric that is there no more, with what is left of its memberships. ErrInUse while it is
// to be a member.
func ForgetPort(ctx context.Context, tx *core.Tx, guid fabric.GUID) error {
	n, err := tx.Exec(ctx, `DELETE FROM fabric_port WHERE guid = $1 AND NOT EXISTS (SELECT 1 FROM partition_member m WHERE
		m.guid = fabric_port.guid AND m.wanted = 1)`, guid.String())
	if err == nil && n == 0 {
		return usedPort(ctx, tx, guid)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM partition_member WHERE guid = $1`, guid.String())
	}
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM port_seen WHERE guid = $1`, guid.String())
	}
	return wrap.Errorf(err, "forget port %s", guid)
}

// ClusterKey is a cluster's partition on a fabric.
type ClusterKey struct {
	Fabric string     `json:"fabric"`
	Key    fabric.Key `json:"key"`
	Ports  int        `json:"ports"` // that are to be in it
}

// KeysOf lists a cluster's partitions by fabric.
func KeysOf(ctx context.Context, tx *core.Tx, cluster string) ([]ClusterKey, error) {
	scan := core.Fields(func(k *ClusterKey) []any { return []any{&k.Fabric, &k.Key, &k.Ports} })
	keys, err := core.List(ctx, tx, scan, `SELECT f.name, p.pkey, (SELECT COUNT(DISTINCT m.guid) FROM partition_member m
		WHERE m.partition_id = p.id AND m.wanted = 1)
		FROM partition p JOIN fabric f ON f.id = p.fabric_id WHERE p.cluster_id = $1 ORDER BY f.name`, cluster)
	return keys, wrap.Errorf(err, "list keys of cluster %s", cluster)
}
