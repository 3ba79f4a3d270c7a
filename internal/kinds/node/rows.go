// Package node keeps the nodes of clusters, what their agents said, and how they did in tests.
//
// What enters: nodes from admission, phases from the engine, reports from the monitor. What leaves: rows.
package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/meter"
	"muster/internal/kit/wrap"
	"muster/internal/price"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// Node is a member of a cluster. The row is kept when the node is gone; a node that replaces it has another ID.
type Node struct {
	core.Life
	ID         string
	Cluster    string // ID
	Name       string
	Slot       int // its name's: fixes address and MAC
	Role       protocol.Role
	Queue      string // "" for the head
	Class      string
	MachineID  string   // "" once gone
	Machine    string   // name
	Whole      bool     // that is a whole machine
	HostID     string   // of the guest that it lives on, kept when it is gone; "" of others
	Leaf       string   // the switch that its machine hung on when it was chosen; "" if that was not known, or it has moved
	LeafNumber int      // the place of that switch among those of its fabric, from 1; 0: not known
	VM         *spec.VM // what its cluster's file asked of that guest; nil of others
	Desired    core.Desired
	Boot       int64
	JoinedBoot int64
	JoinedKey  string
	Image      string    // digest that its boot uses; "" before its first boot
	Disk       bool      // that boot's root is on the machine's disk
	Sleeps     bool      // it is to sleep when its cluster pauses; see Asleep
	Renew      bool      // it drains, then reboots on its machine, with what the cluster says now
	Test       int64     // number of the test that it is to make, of this boot's; 0: none
	Held       bool      // the scheduler gets it only when it has passed
	News       int64     // counts what its agent alone was told
	DrainUntil time.Time // zero: without limit
	CreatedAt  time.Time
	Seen       Observed
	Terms      price.Terms // only written, by Add; the meter keeps them
}

// IsGuest says that the node lives, or lived, on a part of a hypervisor.
func (n Node) IsGuest() bool { return n.HostID != "" }

// Observed is what agents said of a node. The zero value: nothing yet.
type Observed struct {
	Boot   int64
	At     time.Time
	WellAt time.Time // of the last report whose checks had all passed
	// WellSince is when the first report came of those without a gap whose checks had all passed; zero: the last one's had not.
	WellSince time.Time
	Revision  int64
	Checks    []protocol.Check
	Facts     protocol.NodeFacts
	Test      *protocol.TestResult // this boot's last; nil before the first
	Scheduler *protocol.NodeState  // as the head tells of it; nil while the scheduler does not know the node
	IdleAt    time.Time            // since when it is without a job; zero while it has one, or the scheduler does not know it
	Waiting   protocol.Waiting     // of a head: the jobs that wait
	Undone    []protocol.Undone    // of a head: what it could not do for users
}

// Healthy says that this boot has reported and passed every check, those named and the site's own aside.
func (o Observed) Healthy(boot int64, aside ...string) bool {
	if o.Boot != boot || len(o.Checks) == 0 {
		return false
	}
	for _, check := range o.Checks {
		if !check.OK && !check.OfSite() && !slices.Contains(aside, check.Name) {
			return false
		}
	}
	return true
}

// Fails is the first of the site's own checks that this boot fails; "" if it passes them.
func (o Observed) Fails(boot int64) string {
	for _, check := range o.Checks {
		if o.Boot == boot && !check.OK && check.OfSite() {
			return check.Name
		}
	}
	return ""
}

// Tested is the result of one of this boot's tests; nil while there is none.
func (o Observed) Tested(boot, number int64) *protocol.TestResult {
	if o.Boot != boot || o.Test == nil || o.Test.Number != number {
		return nil
	}
	return o.Test
}

const columns = `n.id, n.cluster_id, n.name, s.slot, n.role, n.queue, n.class, COALESCE(n.machine_id, ''), n.machine,
	CASE WHEN COALESCE(m.network, '') <> '' THEN 1 ELSE 0 END, n.desired,
	COALESCE(n.host_id, ''), n.vm, n.leaf, n.leaf_number, n.boot, n.joined_boot, n.joined_key, n.image, n.disk, n.sleeps,
	n.renew, n.test, n.held, n.news, n.drain_until, n.created_at,
	n.phase, n.reason, n.phase_at, n.attempts, n.fence,
	COALESCE(o.boot, 0), COALESCE(o.seen_at, 0), COALESCE(o.well_at, 0), COALESCE(o.well_since, 0), COALESCE(o.revision, 0),
	COALESCE(o.checks, ''), COALESCE(o.facts, '{}'), COALESCE(o.test, ''), COALESCE(o.scheduler, ''),
	COALESCE(o.idle_at, 0), COALESCE(o.waiting, ''), COALESCE(o.undone, '[]')`

const tables = ` FROM node n
	JOIN node_slot s ON s.cluster_id = n.cluster_id AND s.name = n.name
	LEFT JOIN machine m ON m.id = n.machine_id
	LEFT JOIN observed o ON o.node_id = n.id `

func scan(r core.Scanner) (n Node, err error) {
	fields := []any{&n.ID, &n.Cluster, &n.Name, &n.Slot, &n.Role, &n.Queue, &n.Class, &n.MachineID, &n.Machine, &n.Whole,
		&n.Desired,
		&n.HostID, core.JSON(&n.VM), &n.Leaf, &n.LeafNumber, &n.Boot, &n.JoinedBoot, &n.JoinedKey, &n.Image, &n.Disk, &n.Sleeps,
		&n.Renew, &n.Test, &n.Held, &n.News, core.Time(&n.DrainUntil), core.Time(&n.CreatedAt)}
	fields = append(fields, n.Fields()...)
	err = r.Scan(append(fields, &n.Seen.Boot, core.Time(&n.Seen.At), core.Time(&n.Seen.WellAt), core.Time(&n.Seen.WellSince),
		&n.Seen.Revision, core.JSON(&n.Seen.Checks), core.JSON(&n.Seen.Facts), core.JSON(&n.Seen.Test),
		core.JSON(&n.Seen.Scheduler), core.Time(&n.Seen.IdleAt), core.JSON(&n.Seen.Waiting), core.JSON(&n.Seen.Undone))...)
	return n, wrap.Errorf(err, "row of node %s", n.ID)
}

// Add stores a new node on its machine, in phase pending. If the machine is held by another node the transaction
// has lost a race: on PostgreSQL Update runs it again, and it will see the machine taken. A hypervisor, which holds guests,
// gets no node, and does not become one while it has a node.
func Add(ctx context.Context, tx *core.Tx, n Node) error {
	added, err := tx.Exec(ctx, `INSERT INTO node (id, cluster_id, name, role, queue, class, machine_id, whole, machine, host_id,
		vm, leaf, leaf_number, desired, created_at, phase, phase_at, wake_at)
		SELECT $1, $2, $3, $4, $5, $6, m.id, m.whole, $11, m.host_id, $8, $12, $13, $9, now_ms(), $10, now_ms(), now_ms()
		FROM machine m WHERE m.id = $7 AND m.whole IS NOT NULL`,
		n.ID, n.Cluster, n.Name, string(n.Role), n.Queue, n.Class, n.MachineID, core.JSON(n.VM), string(core.Present),
		string(core.Pending), n.Machine, n.Leaf, n.LeafNumber)
	if err == nil && added == 0 {
		err = errors.New("that machine carries no node of its own")
	}
	if err != nil {
		return fmt.Errorf("add node %s on machine %s: %w", n.Name, n.Machine, err)
	}
	row := price.Usage{
		Subject: n.ID, Kind: price.Node, ClusterID: n.Cluster, Node: n.Name, Queue: n.Queue, Class: n.Class, Machine: n.Machine,
		State: price.Preparing, Quantity: 1, Terms: n.Terms,
	}
	if err := meter.Begin(ctx, tx, row, "node"); err != nil {
		return err
	}
	return machine.Wake(ctx, tx, n.MachineID)
}

// Of lists a cluster's nodes that are not gone, the head first, then by slot.
func Of(ctx context.Context, tx *core.Tx, cluster string) ([]Node, error) {
	nodes, err := core.List(ctx, tx, scan, `SELECT `+columns+tables+
		`WHERE n.cluster_id = $1 AND n.phase <> 'gone' ORDER BY s.slot`, cluster)
	return nodes, wrap.Errorf(err, "list nodes of cluster %s", cluster)
}

// List lists the nodes of all clusters that are not gone.
func List(ctx context.Context, tx *core.Tx) ([]Node, error) {
	nodes, err := core.List(ctx, tx, scan, `SELECT `+columns+tables+`WHERE n.phase <> 'gone' ORDER BY n.cluster_id, s.slot`)
	return nodes, wrap.Errorf(err, "list nodes")
}

// Failures are those of the nodes of one name.
type Failures struct {
	Name  string
	Place string // of one of them
	Times int
	Last  time.Time
}

// FailuresOf lists by name how often nodes of a cluster have failed since then.
func FailuresOf(ctx context.Context, tx *core.Tx, cluster string, since time.Time) ([]Failures, error) {
	scan := core.Fields(func(f *Failures) []any { return []any{&f.Name, &f.Place, &f.Times, core.Time(&f.Last)} })
	failures, err := core.List(ctx, tx, scan, `SELECT n.name, MIN(m.network), COUNT(*), MAX(n.failed_at)
		FROM node n JOIN machine m ON m.name = n.machine
		WHERE n.cluster_id = $1 AND n.failed_at >= $2 GROUP BY n.name ORDER BY n.name`, cluster, since.UnixMilli())
	return failures, wrap.Errorf(err, "count the failures of cluster %s's nodes", cluster)
}

// Waits are how long the nodes of these classes that are ready now, and are in their first boot, took from when they were asked
// for, the shortest first: of the last ones, so many at most.
func Waits(ctx context.Context, tx *core.Tx, classes []string, most int) ([]time.Duration, error) {
	scan := core.Fields(func(wait *time.Duration) []any { return []any{core.Span(wait, time.Millisecond)} })
	var which core.Where
	which.And(`phase = 'ready' AND boot = 1`)
	which.Among("class", classes)
	which.Rest(` ORDER BY phase_at DESC LIMIT $?`, most)
	waits, err := core.List(ctx, tx, scan, `SELECT phase_at - created_at FROM node`+which.Text, which.Args...)
	slices.Sort(waits)
	return waits, wrap.Errorf(err, "look how long nodes of %v took", classes)
}

// Get finds a node by ID, gone or not.
func Get(ctx context.Context, tx *core.Tx, id string) (Node, error) {
	n, err := core.One(ctx, tx, scan, `SELECT `+columns+tables+`WHERE n.id = $1`, id)
	return n, wrap.Errorf(err, "node %s", id)
}

// HadNode says whether the cluster of a node ever had another one of its name.
func HadNode(ctx context.Context, tx *core.Tx, n Node) (bool, error) {
	others, err := core.One(ctx, tx, core.Value[int], `SELECT count(*) FROM node WHERE cluster_id = $1 AND name = $2 AND id <> $3`,
		n.Cluster, n.Name, n.ID)
	return others > 0, wrap.Errorf(err, "earlier nodes called %s", n.Name)
}

// MachinesOf names every machine that a cluster ever had.
func MachinesOf(ctx context.Context, tx *core.Tx, cluster string) ([]string, error) {
	names, err := core.List(ctx, tx, core.Value[string], `SELECT DISTINCT machine FROM node WHERE cluster_id = $1 ORDER BY machine`, cluster)
	return names, wrap.Errorf(err, "list machines of cluster %s", cluster)
}

// Returning names the machines that a cluster has given up and that are not yet proved fit for the next tenant.
func Returning(ctx context.Context, tx *core.Tx, cluster string) ([]string, error) {
	names, err := core.List(ctx, tx, core.Value[string], `SELECT DISTINCT m.name FROM machine m JOIN node old ON old.machine = m.name
		AND old.phase = 'gone'
		WHERE old.cluster_id = $1 AND m.phase IN ('in-use', 'releasing', 'inspecting')
		  AND NOT EXISTS (SELECT 1 FROM node n WHERE n.machine_id = m.id) ORDER BY m.name`, cluster)
	return names, wrap.Errorf(err, "list machines that cluster %s returns", cluster)
}

// WantAbsent asks for a node's end, draining it for at most drainFor (0: without limit), and wakes it.
func WantAbsent(ctx context.Context, tx *core.Tx, id string, drainFor time.Duration) error {
	_, err := tx.Exec(ctx, `UPDATE node SET desired = $1, `+core.Woken+`,
			drain_until = CASE WHEN CAST($2 AS BIGINT) > 0 THEN now_ms() + CAST($2 AS BIGINT) ELSE 0 END
		WHERE id = $3 AND desired = 'present'`, string(Absent), drainFor.Milliseconds(), id)
	return wrap.Errorf(err, "release node %s", id)
}

// Stays says that a compute node that is to go can stay: it has not begun to end.
func (n Node) Stays() bool {
	return n.Desired == Absent && n.Role == protocol.Compute && (n.Phase == core.Ready || n.Phase == Draining)
}

// WantStay takes back that a node is to go, while it can stay, and wakes it.
func WantStay(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE node SET desired = $1, drain_until = 0, `+core.Woken+`
		WHERE id = $2 AND desired = $3 AND phase IN ('ready', 'draining')`, string(core.Present), id, string(Absent))
	return wrap.Errorf(err, "keep node %s", id)
}

// LimitDrains gives a cluster's nodes that drain, and their jobs, at most drainFor from now, and those that will drain as
// long. It reports how many drain.
func LimitDrains(ctx context.Context, tx *core.Tx, cluster string, drainFor time.Duration) (int64, error) {
	if _, err := tx.Exec(ctx, `UPDATE cluster SET drain_for = $1 WHERE id = $2`, drainFor.Milliseconds(), cluster); err != nil {
		return 0, fmt.Errorf("limit drains of cluster %s: %w", cluster, err)
	}
	n, err := tx.Exec(ctx, `UPDATE node SET drain_until = now_ms() + $1, `+core.Woken+`
		WHERE cluster_id = $2 AND (desired = 'absent' OR renew = 1) AND phase IN ('ready',
		'draining')`, drainFor.Milliseconds(), cluster)
	return n, wrap.Errorf(err, "limit drains of cluster %s", cluster)
}

// StartBoot gives a node the number of its next boot and says what that is of, before anything of it exists.
func StartBoot(ctx context.Context, tx *core.Tx, id, image string, disk bool) error {
	_, err := tx.Exec(ctx, `UPDATE node SET boot = boot + 1, image = $2, disk = $3, sleeps = 0, renew = 0, test = 0, held
		= 0 WHERE id = $1`, id, image, core.Flag(disk))
	return wrap.Errorf(err, "start a boot of node %s", id)
}

// UseToken records that a boot's one-time token was used by the holder of a key. It reports false when the node no
// longer wants that boot, or when another key has used the token.
func UseToken(ctx context.Context, tx *core.Tx, id string, boot int64, key string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE node SET joined_boot = $2, joined_key = $3
		WHERE id = $1 AND boot = $2 AND phase IN ('booting', 'joining', 'testing', 'ready', 'draining')
		  AND (joined_boot < $2 AND phase = 'booting' OR joined_boot = $2 AND joined_key = $3)`, id, boot, key)
	return n == 1, wrap.Errorf(err, "join node %s", id)
}

// LeaveMachine takes a node off its machine at its end, as part of the transaction that holds its row, and wakes the
// machine.
func LeaveMachine(ctx context.Context, tx *core.Tx, n Node) error {
	_, err := tx.Exec(ctx, `UPDATE node SET machine_id = NULL, whole = NULL, phase = 'gone', phase_at = now_ms() WHERE id = $1`,
		n.ID)
	if err != nil {
		return fmt.Errorf("take node %s off machine %s: %w", n.ID, n.Machine, err)
	}
	if err := meterOf(ctx, tx, n.ID); err != nil {
		return err
	}
	if n.IsGuest() { // whose parts are not needed from here on: its substrate has shown that nothing of it is left
		if err := host.ReleaseAllocation(ctx, tx, n.MachineID); err != nil {
			return err
		}
		tx.Wake(machine.Kind, n.HostID)
	}
	return machine.Wake(ctx, tx, n.MachineID)
}
