// Package machine keeps the inventory's machines, guests among them, and what they boot.
//
// What enters: facts and intent from the API, phases from the engine, what machines say while they boot. What leaves: rows.
package machine

import (
	"context"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/fabric"
	"muster/internal/inventory"
	"muster/internal/kit/lists"
	"muster/internal/kit/printable"
	"muster/internal/kit/wrap"
	"muster/internal/place"
	"muster/internal/protocol"
)

// Machine is one row of the inventory with its life.
type Machine struct {
	inventory.Machine
	core.Life
	Desired          core.Desired
	ToInspect        bool   // an inspection was asked for and not yet answered
	Inspections      int64  // asked for so far
	Holder           string // ID of the node that has it; "" if none
	HolderName       string // "cluster/node", for people
	HolderBoot       int64  // boots that the holder has begun
	QuarantineReason string // why the last node on it failed, or an operator set it apart; "" once an inspection has passed
	Boot             int64  // number of its last boot for an inspection
	BootAt           time.Time
	Tries            int  // boots of the inspection that goes on
	Failures         int  // inspections failed in a row
	Dirty            bool // its disks may hold a tenant's data
	Release          *Release
	HostName         string            // of a guest
	Allocation       *place.Allocation // what a guest has of its host; nil of others, and once it has left
	Moves            *Move             // of a guest that is on its way to another host
	Undisturbed      time.Time         // since when a guest is not on its way to another host; now, if it is
	Drains           bool              // of a hypervisor: its guests are to go elsewhere, so that it can leave service
}

// Release is the receipt of the last time that a machine was given back.
type Release struct {
	From  string            `json:"from,omitempty"` // cluster/node that had it
	At    time.Time         `json:"at"`             // when it was proved
	Power string            `json:"power"`          // how the memory was cleared
	Disks []protocol.Erased `json:"disks"`          // one a disk
	Clean bool              `json:"clean"`          // every disk was erased and read back
	Boot  int64             `json:"boot,omitempty"` // number of the machine's boot that proved it
	Key   string            `json:"key,omitempty"`  // SHA-256 of the public key that the machine told the proof with
}

// Free says that the machine can be given away whole now.
func (m Machine) Free() bool { return m.Well() && m.Holder == "" && !m.Hosts && !m.IsGuest() }

// Well says that nothing speaks against giving the machine, or of a hypervisor a part of it. One that is a machine of its own
// is in use, or about to be, while it has guests.
func (m Machine) Well() bool {
	fit := m.Phase == Available || m.HostsOnDemand() && (m.Phase == Reserved || m.Phase == InUse)
	return fit && m.Desired == ForService && m.QuarantineReason == ""
}

// CanHost says that the machine becomes a hypervisor if guests are placed on it.
func (m Machine) CanHost() bool { return m.Free() && m.BootsFromNetwork() }

// HostsOnDemand says that the machine is a hypervisor now, and a whole machine at other times.
func (m Machine) HostsOnDemand() bool { return m.Hosts && m.BootsFromNetwork() }

const Columns = names + `m.facts, m.release, ` + rest

// listed are Columns without what takes long to read: the facts of all but hypervisors, which say what guests can have, and
// receipts. A summary comes after them.
const listed = names + `CASE WHEN m.hosts = 1 THEN m.facts ELSE '{}' END, '', ` + rest + `, m.summary`

const names = `m.id, m.name, `

const rest = `m.substrate, m.desired, m.inspections_asked, m.inspections_answered, m.quarantine_reason,
	m.network, m.macs, m.ports, m.power, m.boot, m.boot_at, m.tries, m.failures, m.dirty,
	m.hosts, COALESCE(m.host_id, ''), COALESCE(h.name, ''), m.allocation, COALESCE(m.to_host_id, ''), COALESCE(t.name, ''),
	m.to_allocation, m.moves_at, ` + Undisturbed + `, m.drains, m.rack, m.unit, m.height, m.slot,
	m.phase, m.reason, m.phase_at, m.attempts, m.fence, COALESCE(n.id, ''), COALESCE(c.name || '/' || n.name, ''),
	COALESCE(n.boot, 0)`

// Undisturbed is since when a guest's host does not slow it down for the sake of a move.
const Undisturbed = `CASE WHEN m.to_host_id IS NULL THEN m.moves_at ELSE now_ms() END`

const Tables = ` FROM machine m LEFT JOIN node n ON n.machine_id = m.id LEFT JOIN cluster c ON c.id = n.cluster_id
	LEFT JOIN machine h ON h.id = m.host_id LEFT JOIN machine t ON t.id = m.to_host_id `

func Scan(r core.Scanner) (Machine, error) { return scan(r) }

// scan reads a row of Columns, and what comes after them.
func scan(r core.Scanner, after ...any) (m Machine, err error) {
	var moves Move
	var inspected int64
	fields := []any{&m.ID, &m.Name, core.JSON(&m.Facts), core.JSON(&m.Release), &m.Substrate, &m.Desired, &m.Inspections,
		&inspected, &m.QuarantineReason, &m.Network, core.JSON(&m.MACs), core.JSON(&m.Ports), core.JSON(&m.Power), &m.Boot,
		core.Time(&m.BootAt), &m.Tries, &m.Failures, &m.Dirty, &m.Hosts, &m.Host, &m.HostName, core.JSON(&m.Allocation),
		&moves.Host, &moves.HostName, core.JSON(&moves.Allocation), core.Time(&moves.Since), core.Time(&m.Undisturbed), &m.Drains,
		&m.Location.Rack, &m.Location.Unit, &m.Location.Height, &m.Location.Slot}
	fields = append(append(fields, m.Fields()...), &m.Holder, &m.HolderName, &m.HolderBoot)
	err = r.Scan(append(fields, after...)...)
	m.ToInspect = m.Inspections > inspected
	if moves.Host != "" {
		m.Moves = &moves
	}
	return m, wrap.Errorf(err, "row of machine %s", m.Name)
}

// Listed is a machine as lists show it: without its last receipt and, unless it is a hypervisor, with a summary in the place of
// its facts.
type Listed struct {
	Machine
	Summary inventory.Summary
}

func scanListed(r core.Scanner) (l Listed, err error) {
	l.Machine, err = scan(r, core.JSON(&l.Summary))
	return l, err
}

// Add enrols a machine. core.ErrExists if the name or a MAC is taken.
func Add(ctx context.Context, tx *core.Tx, m inventory.Machine) error {
	_, err := tx.Exec(ctx, `INSERT INTO machine (id, name, substrate, facts, summary, network, macs, ports, power, hosts, whole,
		desired, phase, phase_at, wake_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, CAST($10 AS BIGINT), CASE WHEN CAST($10 AS BIGINT) = 0 THEN $1 END,
		$11, $12, now_ms(), now_ms())`,
		m.ID, m.Name, m.Substrate, core.JSON(m.Facts), core.JSON(m.Facts.Summary()), m.Network,
		core.JSON(append([]string{}, m.MACs...)), core.JSON(append([]string{}, m.Ports...)), core.JSON(m.Power),
		core.Flag(m.Hosts), string(ForService), string(Enrolled))
	if core.Taken(err) {
		return fmt.Errorf("machine %s: %w", m.Name, core.ErrExists)
	}
	for i, mac := range m.MACs {
		if err == nil {
			_, err = tx.Exec(ctx, `INSERT INTO nic (mac, machine_id, position) VALUES ($1, $2, $3)`, mac, m.ID, i)
		}
		if core.Taken(err) {
			return fmt.Errorf("machine %s: MAC %s is another machine's: %w", m.Name, mac, core.ErrExists)
		}
	}
	if err == nil {
		err = saveAdapters(ctx, tx, m.ID, m.Facts)
	}
	return wrap.Errorf(err, "add machine %s", m.Name)
}

// saveAdapters notes by which adapters a machine is on fabrics. One that was another machine's has been moved: what was found
// last holds. A guest has none: what it was given is its host's.
func saveAdapters(ctx context.Context, tx *core.Tx, id string, f inventory.Facts) error {
	if _, err := tx.Exec(ctx, `DELETE FROM adapter WHERE machine_id = $1`, id); err != nil {
		return err
	}
	for _, d := range f.Devices {
		guid, err := fabric.ParseGUID(d.GUID)
		if d.Kind != "hca" || err != nil {
			continue
		}
		if _, err := tx.Exec(ctx, `INSERT INTO adapter (guid, machine_id) SELECT $1, id FROM machine WHERE id = $2
			AND host_id IS NULL
			ON CONFLICT (guid) DO UPDATE SET machine_id = excluded.machine_id`, guid.String(), id); err != nil {
			return err
		}
	}
	return nil
}

// OwnerOf is the ID of the machine that has a MAC on a network; "" if there is none.
func OwnerOf(ctx context.Context, tx *core.Tx, network, mac string) (string, error) {
	return core.Maybe(ctx, tx, core.Value[string],
		`SELECT m.id FROM nic JOIN machine m ON m.id = nic.machine_id WHERE nic.mac = $1 AND m.network = $2`, mac, network)
}

// StartInspection numbers the next boot of a machine for an inspection; again says that one of the same inspection failed.
func StartInspection(ctx context.Context, tx *core.Tx, id string, again bool) error {
	_, err := tx.Exec(ctx, `UPDATE machine SET boot = boot + 1, boot_at = now_ms(), tries = CASE WHEN $2 = 1 THEN tries + 1
		ELSE 1 END WHERE id = $1`, id, core.Flag(again))
	return wrap.Errorf(err, "start an inspection of machine %s", id)
}

// FailInspection counts an inspection that failed. To fail is an answer, too, to every inspection asked for up to number.
func FailInspection(ctx context.Context, tx *core.Tx, id string, number int64) error {
	_, err := tx.Exec(ctx, `UPDATE machine SET failures = failures + 1, inspections_answered = $2 WHERE id = $1`, id, number)
	return wrap.Errorf(err, "count a failure of machine %s", id)
}

// MarkDirty notes, before a tenant's node boots on a machine, that its disks may hold the tenant's data from now on.
func MarkDirty(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE machine SET dirty = 1 WHERE id = $1 AND network <> ''`, id)
	return wrap.Errorf(err, "note that machine %s is in use", id)
}

// LastHolder is the node that had a machine last: "cluster/node", "" if none had.
func LastHolder(ctx context.Context, tx *core.Tx, machine string) (string, error) {
	return core.Maybe(ctx, tx, core.Value[string], `SELECT c.name || '/' || n.name FROM node n JOIN cluster c ON c.id = n.cluster_id
		WHERE n.machine = $1 AND n.phase = 'gone' ORDER BY n.phase_at DESC, n.id LIMIT 1`, machine)
}

// SaveRelease keeps the receipt of a machine that was given back; it is clean only if the receipt says so.
func SaveRelease(ctx context.Context, tx *core.Tx, id string, r Release) error {
	_, err := tx.Exec(ctx, `UPDATE machine SET release = $1, dirty = $2 WHERE id = $3`, core.JSON(r), core.Flag(!r.Clean), id)
	return wrap.Errorf(err, "save the release of machine %s", id)
}

// List lists all that are not removed, by name.
func List(ctx context.Context, tx *core.Tx) ([]Machine, error) {
	machines, err := core.List(ctx, tx, Scan, `SELECT `+Columns+Tables+`WHERE m.phase <> 'removed' ORDER BY m.name`)
	return machines, wrap.Errorf(err, "list machines")
}

// Filter says which machines are asked for; an empty field selects all. A guest stands in its host's rack.
type Filter struct {
	Phase         core.Phase
	Network, Rack string
	ClusterID     string // of the cluster whose node has it
}

// Page lists those whose names come after another one, by name, so many at most.
func Page(ctx context.Context, tx *core.Tx, of Filter, after string, limit int) ([]Listed, error) {
	var which core.Where
	which.And(`m.phase <> 'removed' AND m.name > $?`, after)
	for _, is := range []struct{ column, value string }{{"m.phase", string(of.Phase)}, {"m.network", of.Network},
		{"COALESCE(NULLIF(m.rack, ''), h.rack)", of.Rack}, {"n.cluster_id", of.ClusterID}} {
		if is.value != "" {
			which.And(is.column+` = $?`, is.value)
		}
	}
	which.Rest(` ORDER BY m.name LIMIT $?`, limit)
	machines, err := core.List(ctx, tx, scanListed, `SELECT `+listed+Tables+which.Text, which.Args...)
	return machines, wrap.Errorf(err, "list machines")
}

// GuestsBetween lists the guests of hosts whose names lie between two, those included that are on their way there.
func GuestsBetween(ctx context.Context, tx *core.Tx, first, last string) ([]Listed, error) {
	guests, err := core.List(ctx, tx, scanListed, `SELECT `+listed+Tables+`WHERE m.phase <> 'removed' AND m.host_id IS NOT NULL
		AND (h.name BETWEEN $1 AND $2 OR t.name BETWEEN $1 AND $2) ORDER BY m.name`, first, last)
	return guests, wrap.Errorf(err, "list guests")
}

// Get finds a machine by name or ID.
func Get(ctx context.Context, tx *core.Tx, ref string) (Machine, error) {
	m, err := core.One(ctx, tx, Scan, `SELECT `+Columns+Tables+`WHERE (m.name = $1 OR m.id = $1) AND m.phase <> 'removed'`, ref)
	return m, wrap.Errorf(err, "machine %s", ref)
}

// Under lists the machines that a cluster's nodes have now, and the hosts of those that are guests, by ID.
func Under(ctx context.Context, tx *core.Tx, cluster string) (map[string]Machine, error) {
	machines, err := core.List(ctx, tx, Scan, underQuery, cluster)
	if err != nil {
		return nil, fmt.Errorf("list machines under cluster %s: %w", cluster, err)
	}
	return lists.By(machines, func(m Machine) string { return m.ID }), nil
}

const underQuery = `SELECT ` + Columns + Tables + `WHERE m.id IN (
	SELECT machine_id FROM node WHERE cluster_id = $1 AND phase <> 'gone'
	UNION SELECT host_id FROM node WHERE cluster_id = $1 AND phase <> 'gone' AND host_id <> '')`

// Want changes what is wanted of a machine and wakes it. Guests that it has may stay.
func Want(ctx context.Context, tx *core.Tx, id string, d core.Desired) error {
	_, err := tx.Exec(ctx, `UPDATE machine SET desired = $1, drains = 0, `+core.Woken+` WHERE id = $2`, string(d), id)
	return wrap.Errorf(err, "want machine %s %s", id, d)
}

// AskInspection asks for a new inspection of a machine and wakes it.
func AskInspection(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE machine SET inspections_asked = inspections_asked + 1, `+core.Woken+` WHERE id = $1`, id)
	return wrap.Errorf(err, "ask for an inspection of machine %s", id)
}

// WantQuarantine notes why a machine is to be set apart as soon as no node has it, and wakes it.
func WantQuarantine(ctx context.Context, tx *core.Tx, id, reason string) error {
	_, err := tx.Exec(ctx, `UPDATE machine SET quarantine_reason = $1, `+core.Woken+` WHERE id = $2`,
		printable.Cut(reason, core.MostText), id)
	return wrap.Errorf(err, "suspect machine %s", id)
}

// Quarantine asks that a machine is set apart now: a node that has it, or has a guest on it, is failed for that.
func Quarantine(ctx context.Context, tx *core.Tx, m Machine, reason string) error {
	guests, err := GuestsOn(ctx, tx, m.ID)
	if err != nil {
		return err
	}
	for _, held := range append(guests, m) {
		if held.Holder != "" {
			tx.Wake(Holders, held.Holder)
		}
	}
	return WantQuarantine(ctx, tx, m.ID, reason)
}

// SaveFacts writes what a passed inspection found; it answers every inspection asked for up to number and clears the
// machine of suspicion.
func SaveFacts(ctx context.Context, tx *core.Tx, id string, number int64, f inventory.Facts) error {
	_, err := tx.Exec(ctx, `UPDATE machine SET facts = $1, summary = $2, inspections_answered = $3, quarantine_reason = '', failures = 0, tries = 0
		WHERE id = $4`, core.JSON(f), core.JSON(f.Summary()), number, id)
	if err == nil {
		err = saveAdapters(ctx, tx, id, f)
	}
	return wrap.Errorf(err, "save facts of machine %s", id)
}

// Forget frees the name, the MACs, the addresses and the place of a machine that has left the inventory; its events keep the
// name.
func Forget(ctx context.Context, tx *core.Tx, id string) error {
	for _, statement := range []string{
		`DELETE FROM lease WHERE mac IN (SELECT mac FROM nic WHERE machine_id = $1)`,
		`DELETE FROM nic WHERE machine_id = $1`,
		`DELETE FROM adapter WHERE machine_id = $1`,
		`DELETE FROM boot WHERE machine_id = $1`,
		`DELETE FROM test_result WHERE machine_id = $1`,
		`DELETE FROM allocation WHERE guest_id = $1`,
		`DELETE FROM host_report WHERE host_id = $1`,
		`UPDATE machine SET name = name || '@' || id, rack = '' WHERE id = $1`,
	} {
		if _, err := tx.Exec(ctx, statement, id); err != nil {
			return fmt.Errorf("forget machine %s: %w", id, err)
		}
	}
	return nil
}

// GuestsOn lists the guests of a host that are not removed, those included that move there, by name.
func GuestsOn(ctx context.Context, tx *core.Tx, host string) ([]Machine, error) {
	guests, err := core.List(ctx, tx, Scan, `SELECT `+Columns+Tables+
		`WHERE (m.host_id = $1 OR m.to_host_id = $1) AND m.phase <> 'removed' ORDER BY m.name`, host)
	return guests, wrap.Errorf(err, "list guests")
}

// Move is where a guest is on its way to.
type Move struct {
	Host       string // ID
	HostName   string
	Allocation place.Allocation
	Since      time.Time
}

// Wake is more than the hint of Wake: it stands or falls with the transaction. It may, because no transaction of
// a machine ever locks a node.
func Wake(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE machine SET `+core.Woken+` WHERE id = $1`, id)
	return wrap.Errorf(err, "wake machine %s", id)
}
