package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/machine"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// Hosted is a guest that a hypervisor elsewhere is to hold, or was.
type Hosted struct {
	Guest    protocol.HostedGuest // its File without a token
	HostID   string
	HostName string
	Wanted   bool
	Since    int64 // revision of the host's Hosting from which on it is so
}

// Seen is what the agent of a hypervisor elsewhere said last.
type Seen struct {
	Host   string // ID
	Boot   int64  // number of the machine's boot
	At     time.Time
	Report *protocol.HostReport // nil: it was here, and has said nothing yet
}

const hostedColumns = `g.host_id, h.name, g.boot, g.try, g.wanted, g.since, g.guest FROM hosted g JOIN machine h ON h.id =
	g.host_id `

func scanHosted(r core.Scanner) (g Hosted, err error) {
	var boot, try int64
	err = r.Scan(&g.HostID, &g.HostName, &boot, &try, &g.Wanted, &g.Since, core.JSON(&g.Guest))
	g.Guest.Boot, g.Guest.Try = boot, try
	return g, err
}

// HostedNode finds what is, or was, to be held of a node; core.ErrNotFound if nothing ever was.
func HostedNode(ctx context.Context, tx *core.Tx, node string) (Hosted, error) {
	g, err := core.One(ctx, tx, scanHosted, `SELECT `+hostedColumns+`WHERE g.node_id = $1`, node)
	return g, wrap.Errorf(err, "node %s at its hypervisor", node)
}

// HostedOn lists what a hypervisor is to hold, by node, with the revision of it.
func HostedOn(ctx context.Context, tx *core.Tx, host string) (revision int64, all []Hosted, err error) {
	if err = tx.Row(ctx, `SELECT hosting FROM machine WHERE id = $1`, host).Scan(&revision); err == nil {
		all, err = core.List(ctx, tx, scanHosted,
			`SELECT `+hostedColumns+`WHERE g.host_id = $1 AND g.wanted = 1 ORDER BY g.node_id`, host)
	}
	return revision, all, wrap.Errorf(err, "list what hypervisor %s is to hold", host)
}

// EveryHosted lists what all hypervisors elsewhere are to hold, or were.
func EveryHosted(ctx context.Context, tx *core.Tx) ([]Hosted, error) {
	all, err := core.List(ctx, tx, scanHosted, `SELECT `+hostedColumns+`ORDER BY g.node_id`)
	return all, wrap.Errorf(err, "list what hypervisors are to hold")
}

// AssignGuest makes a hypervisor hold this boot of a guest, in place of any other of its node.
func AssignGuest(ctx context.Context, tx *core.Tx, host string, g protocol.HostedGuest) error {
	g.File.Token = "" // it is computed when it is handed out, and stands nowhere
	since, err := nextHosting(ctx, tx, host)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO hosted (node_id, host_id, boot, try, wanted, since, guest) VALUES ($1, $2, $3, $4, 1, $5,
		$6)
		ON CONFLICT (node_id) DO UPDATE SET host_id = excluded.host_id, boot = excluded.boot, try = excluded.try, wanted = 1,
			since = excluded.since, guest = excluded.guest`, g.Node, host, g.Boot, g.Try, since, core.JSON(g))
	return wrap.Errorf(err, "have hypervisor %s hold node %s", host, g.Node)
}

// UnassignGuest makes a hypervisor hold a node's guest no longer; the row stays.
func UnassignGuest(ctx context.Context, tx *core.Tx, host, node string) error {
	since, err := nextHosting(ctx, tx, host)
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE hosted SET wanted = 0, since = $1 WHERE node_id = $2`, since, node)
	}
	return wrap.Errorf(err, "have hypervisor %s let go of node %s", host, node)
}

// ForgetHosted forgets that a hypervisor ever was to hold a node, if it is not to any more.
func ForgetHosted(ctx context.Context, tx *core.Tx, node string) error {
	_, err := tx.Exec(ctx, `DELETE FROM hosted WHERE node_id = $1 AND wanted = 0`, node)
	return wrap.Errorf(err, "forget node %s at its hypervisor", node)
}

// nextHosting numbers a change of what a hypervisor is to hold.
func nextHosting(ctx context.Context, tx *core.Tx, host string) (revision int64, err error) {
	err = tx.Row(ctx, `UPDATE machine SET hosting = hosting + 1 WHERE id = $1 RETURNING hosting`, host).Scan(&revision)
	return revision, err
}

// Hostings are the revisions of what machines are to hold, by their IDs, of those that ever were to hold anything.
func Hostings(ctx context.Context, tx *core.Tx) (map[string]int64, error) {
	all, err := core.Pairs[string, int64](ctx, tx, `SELECT id, hosting FROM machine WHERE hosting > 0`)
	return all, wrap.Errorf(err, "look for news for hypervisors")
}

// MarkSeen notes that the agent of a hypervisor's boot is there: before it is told anything, so that the host is not taken for
// one that holds nothing.
func MarkSeen(ctx context.Context, tx *core.Tx, host string, boot int64) error {
	_, err := tx.Exec(ctx, `INSERT INTO host_report (host_id, boot, seen_at) VALUES ($1, $2, now_ms())
		ON CONFLICT (host_id) DO UPDATE SET boot = excluded.boot, seen_at = excluded.seen_at, report = ''
		WHERE host_report.boot < excluded.boot`, host, boot)
	return wrap.Errorf(err, "note that hypervisor %s is there", host)
}

// SaveReport writes what a hypervisor says.
func SaveReport(ctx context.Context, tx *core.Tx, host string, r protocol.HostReport) error {
	_, err := tx.Exec(ctx, `INSERT INTO host_report (host_id, boot, seen_at, report) VALUES ($1, $2, now_ms(), $3)
		ON CONFLICT (host_id) DO UPDATE SET boot = excluded.boot, seen_at = excluded.seen_at, report = excluded.report
		WHERE host_report.boot <= excluded.boot`,
		host, r.Boot, core.JSON(r))
	return wrap.Errorf(err, "save report of hypervisor %s", host)
}

func scanSeen(r core.Scanner) (s Seen, err error) {
	err = r.Scan(&s.Host, &s.Boot, core.Time(&s.At), core.JSON(&s.Report))
	return s, err
}

// SeenOf is what a hypervisor said last; core.ErrNotFound if its agent was not here since the machine was off.
func SeenOf(ctx context.Context, tx *core.Tx, host string) (Seen, error) {
	s, err := core.One(ctx, tx, scanSeen, `SELECT host_id, boot, seen_at, report FROM host_report WHERE host_id = $1`, host)
	return s, wrap.Errorf(err, "what hypervisor %s said", host)
}

// AllSeen is what all hypervisors elsewhere said last.
func AllSeen(ctx context.Context, tx *core.Tx) ([]Seen, error) {
	all, err := core.List(ctx, tx, scanSeen, `SELECT host_id, boot, seen_at, report FROM host_report ORDER BY host_id`)
	return all, wrap.Errorf(err, "what hypervisors said")
}

// IsOff notes that a hypervisor was seen off: nothing that it held is there any more, nor is to come back.
func IsOff(ctx context.Context, tx *core.Tx, host string) error {
	since, err := nextHosting(ctx, tx, host)
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE hosted SET wanted = 0, since = $1 WHERE host_id = $2 AND wanted = 1`, since, host)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM host_report WHERE host_id = $1`, host)
	}
	return wrap.Errorf(err, "note that hypervisor %s is off", host)
}

// turn makes a whole machine one that hosts; any other stays what it is. The database refuses it while a node has it.
func turn(ctx context.Context, tx *core.Tx, host string) error {
	_, err := tx.Exec(ctx, `UPDATE machine SET hosts = 1, whole = NULL WHERE id = $1 AND hosts = 0 AND network <> ''`, host)
	return wrap.Errorf(err, "make machine %s a hypervisor", host)
}

// EndHypervisor makes a hypervisor without guests a whole machine again; false if it has one.
func EndHypervisor(ctx context.Context, tx *core.Tx, host string) (onDemand bool, err error) {
	n, err := tx.Exec(ctx, `UPDATE machine SET hosts = 0, whole = id WHERE id = $1 AND hosts = 1 AND network <> ''
		AND NOT EXISTS (SELECT 1 FROM machine g WHERE g.host_id = $1 AND g.phase <> 'removed')`, host)
	return n == 1, wrap.Errorf(err, "make hypervisor %s a whole machine", host)
}

// MarkLost writes beside each of a hypervisor's devices why it cannot be given to anybody, if it cannot.
func MarkLost(ctx context.Context, tx *core.Tx, m machine.Machine, lost map[string]string) error {
	facts := m.Facts
	facts.Devices = slices.Clone(facts.Devices)
	for i, d := range facts.Devices {
		facts.Devices[i].Lost = lost[d.PCI]
	}
	_, err := tx.Exec(ctx, `UPDATE machine SET facts = $1 WHERE id = $2`, core.JSON(facts), m.ID)
	return wrap.Errorf(err, "note what hypervisor %s has lost", m.Name)
}

// LeftAt is when the last guest left a hypervisor; the zero time if none ever has.
func LeftAt(ctx context.Context, tx *core.Tx, host string) (at time.Time, err error) {
	err = tx.Row(ctx, `SELECT MAX(phase_at) FROM machine WHERE host_id = $1 AND phase = 'removed'`, host).Scan(core.Time(&at))
	return at, wrap.Errorf(err, "when the last guest left hypervisor %s", host)
}

// HostHeartbeats are when the hypervisors that work on a network were last heard, by name.
func HostHeartbeats(ctx context.Context, tx *core.Tx, network string) (map[string]time.Time, error) {
	type row struct {
		name string
		at   int64
	}
	rows, err := core.List(ctx, tx, core.Fields(func(one *row) []any { return []any{&one.name, &one.at} }),
		`SELECT m.name, s.seen_at FROM machine m JOIN host_report s ON s.host_id = m.id AND s.boot = m.boot WHERE m.network = $1
			AND m.network <> '' AND m.phase = 'in-use'`, network)
	if err != nil {
		return nil, fmt.Errorf("look at the hypervisors of network %s: %w", network, err)
	}
	heartbeats := map[string]time.Time{}
	for _, one := range rows {
		heartbeats[one.name] = core.Instant(one.at)
	}
	return heartbeats, nil
}

// GuestsHeard says whether the agent of some guest's node on a hypervisor was heard within the time given.
func GuestsHeard(ctx context.Context, tx *core.Tx, host string, within time.Duration) (heard bool, err error) {
	err = tx.Row(ctx, `SELECT EXISTS (SELECT 1 FROM node n JOIN machine g ON g.id = n.machine_id
		JOIN observed o ON o.node_id = n.id
		WHERE g.host_id = $1 AND o.boot = n.boot AND o.seen_at > now_ms() - $2)`, host, within.Milliseconds()).Scan(&heard)
	return heard, wrap.Errorf(err, "look whether guests of hypervisor %s are heard", host)
}

// Elsewhere says whether a node's guest is, or was to be, at a hypervisor that is a machine of its own.
func Elsewhere(ctx context.Context, tx *core.Tx, node string) (elsewhere bool, err error) {
	err = tx.Row(ctx, `SELECT EXISTS (SELECT 1 FROM node n JOIN machine h ON h.id = n.host_id WHERE n.id = $1 AND h.network <> '')
		OR EXISTS (SELECT 1 FROM hosted WHERE node_id = $1)`, node).Scan(&elsewhere)
	return elsewhere, wrap.Errorf(err, "find the hypervisor of node %s", node)
}
