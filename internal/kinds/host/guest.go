// Package host keeps what hypervisors hold for guests: the parts given away, the guests that are to be there, what hosts report
// of them, their moves, and who listens to whom.
//
// What enters: parts from admission, intent from the engine, reports of hosts. What leaves: rows.
package host

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/machine"
	"muster/internal/kit/lists"
	"muster/internal/kit/wrap"
	"muster/internal/place"
)

// Guest is a virtual machine that is to be: the machine, and what it has of its host.
type Guest struct {
	inventory.Machine
	Allocation place.Allocation
}

// AddGuest makes the row of a guest, reserved from its beginning, and takes what it holds of its host; a whole machine becomes
// a hypervisor by that. If a part of that is taken the transaction has lost a race: on PostgreSQL Update runs it again, and it
// will see the part taken.
func AddGuest(ctx context.Context, tx *core.Tx, g Guest, why string) error {
	if err := turn(ctx, tx, g.Host); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO machine (id, name, substrate, facts, host_id, whole, desired, phase, reason, phase_at,
		wake_at)
		VALUES ($1, $2, $3, '{}', $4, $1, $5, $6, $7, now_ms(), now_ms())`,
		g.ID, g.Name, g.Substrate, g.Host, string(machine.ForService), string(machine.Reserved), why)
	if err != nil {
		return fmt.Errorf("add guest %s: %w", g.Name, err)
	}
	if err := SetAllocation(ctx, tx, g); err != nil {
		return err
	}
	return machine.Wake(ctx, tx, g.Host)
}

// SetAllocation makes a guest have this part of its host, and no other; its facts are to be those of the part.
func SetAllocation(ctx context.Context, tx *core.Tx, g Guest) error {
	if err := ReleaseAllocation(ctx, tx, g.ID); err != nil {
		return err
	}
	if err := takeRows(ctx, tx, g); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE machine SET allocation = $1, facts = $2, summary = $3 WHERE id = $4 AND host_id = $5`,
		core.JSON(g.Allocation), core.JSON(g.Facts), core.JSON(g.Facts.Summary()), g.ID, g.Machine.Host)
	return wrap.Errorf(err, "note what guest %s holds", g.Name)
}

// takeRows writes what a guest holds of its host.
func takeRows(ctx context.Context, tx *core.Tx, g Guest) error {
	taken, err := held(ctx, tx, g)
	if err != nil {
		return err
	}
	var rows []string
	args := []any{g.Machine.Host, g.ID}
	for part := range g.parts(taken) {
		rows = append(rows, fmt.Sprintf("($1, '%s', $%d, $2)", part.kind, len(args)+1))
		args = append(args, part.name)
	}
	if len(rows) > 0 {
		if _, err := tx.Exec(ctx, `INSERT INTO allocation (host_id, kind, name, guest_id) VALUES `+strings.Join(rows, ", "),
			args...); err != nil {
			return fmt.Errorf("take a part of its host for guest %s: %w", g.Name, err)
		}
	}
	return nil
}

// Holder names another guest that has something of this part of the host, so that SetAllocation would fail; "" if none has.
func Holder(ctx context.Context, tx *core.Tx, g Guest) (name string, err error) {
	taken, err := held(ctx, tx, g)
	if err != nil {
		return "", err
	}
	for part := range g.parts(taken) {
		if holder, is := taken[part]; is {
			return holder, nil
		}
	}
	return "", nil
}

// heldAllocation is a row of held: what, of a host.
type heldAllocation struct{ kind, name string }

// held is what other guests than g have of its host, and their names.
func held(ctx context.Context, tx *core.Tx, g Guest) (map[heldAllocation]string, error) {
	type row struct {
		heldAllocation
		guest string
	}
	scan := core.Fields(func(h *row) []any { return []any{&h.kind, &h.name, &h.guest} })
	rows, err := core.List(ctx, tx, scan,
		`SELECT h.kind, h.name, m.name FROM allocation h JOIN machine m ON m.id = h.guest_id WHERE h.host_id = $1 AND h.guest_id <> $2`,
		g.Machine.Host, g.ID)
	if err != nil {
		return nil, fmt.Errorf("list what is held of the host of guest %s: %w", g.Name, err)
	}
	taken := map[heldAllocation]string{}
	for _, r := range rows {
		taken[r.heldAllocation] = r.guest
	}
	return taken, nil
}

// parts are the rows of what a guest holds, where others have what is taken.
func (g Guest) parts(taken map[heldAllocation]string) iter.Seq[heldAllocation] {
	return func(yield func(heldAllocation) bool) {
		for _, cell := range g.Allocation.Cells {
			for _, core := range cell.Cores {
				if !yield(lowestFree(core, g.Allocation.Share, taken)) {
					return
				}
			}
		}
		for _, device := range slices.Concat(g.Allocation.Devices, g.Allocation.Withheld) {
			if !yield(heldAllocation{"device", device}) {
				return
			}
		}
	}
}

// lowestFree is the lowest free place of a core, of as many as guests may share it. Where there is none it is the first: then
// the database refuses.
func lowestFree(core, share int, taken map[heldAllocation]string) heldAllocation {
	at := func(i int) heldAllocation { return heldAllocation{"core", strconv.Itoa(core) + "/" + strconv.Itoa(i)} }
	for i := range share {
		if _, is := taken[at(i)]; !is {
			return at(i)
		}
	}
	return at(0)
}

// ReleaseAllocation gives back what a guest holds of its host, and of one that it was to move to; of any other machine there is
// nothing.
func ReleaseAllocation(ctx context.Context, tx *core.Tx, guest string) error {
	_, err := tx.Exec(ctx, `DELETE FROM allocation WHERE guest_id = $1`, guest)
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE machine SET allocation = '', to_host_id = NULL, to_allocation = '' WHERE id = $1 AND host_id
			IS NOT NULL`, guest)
	}
	return wrap.Errorf(err, "give back what guest %s holds", guest)
}

// AvoidedHosts are the hosts on which a guest of a cluster has failed within the time given, by ID.
func AvoidedHosts(ctx context.Context, tx *core.Tx, cluster string, within time.Duration) (map[string]bool, error) {
	ids, err := core.List(ctx, tx, core.Value[string],
		`SELECT DISTINCT host_id FROM node WHERE cluster_id = $1 AND host_id IS NOT NULL AND failed_at > now_ms() - $2`,
		cluster, within.Milliseconds())
	if err != nil {
		return nil, fmt.Errorf("list hosts on which guests of cluster %s failed: %w", cluster, err)
	}
	return lists.Set(ids), nil
}

// GuestsIn are the guests that carry a cluster's nodes now, by ID.
func GuestsIn(ctx context.Context, tx *core.Tx, cluster string) (map[string]machine.Machine, error) {
	all, err := core.List(ctx, tx, machine.Scan, `SELECT `+machine.Columns+machine.Tables+
		`WHERE n.cluster_id = $1 AND m.host_id IS NOT NULL`, cluster)
	if err != nil {
		return nil, fmt.Errorf("list guests in cluster %s: %w", cluster, err)
	}
	return lists.By(all, func(g machine.Machine) string { return g.ID }), nil
}

// GuestEnd is a guest that a cluster had.
type GuestEnd struct {
	Guest string `json:"guest"`
	Host  string `json:"host"`
}

// GuestsOf names every guest that a cluster ever had, with its host.
func GuestsOf(ctx context.Context, tx *core.Tx, cluster string) ([]GuestEnd, error) {
	scan := core.Fields(func(g *GuestEnd) []any { return []any{&g.Guest, &g.Host} })
	guests, err := core.List(ctx, tx, scan,
		`SELECT DISTINCT n.machine, h.name FROM node n JOIN machine h ON h.id = n.host_id WHERE n.cluster_id = $1 ORDER BY
			n.machine`, cluster)
	return guests, wrap.Errorf(err, "list guests of cluster %s", cluster)
}

// WithGuests lists the clusters that have guests now: their agents call from inside their clusters' networks.
func WithGuests(ctx context.Context, tx *core.Tx) ([]string, error) {
	clusters, err := core.List(ctx, tx, core.Value[string],
		`SELECT DISTINCT n.cluster_id FROM node n JOIN machine m ON m.id = n.machine_id WHERE m.host_id IS NOT NULL ORDER BY
			n.cluster_id`)
	return clusters, wrap.Errorf(err, "list clusters with guests")
}

// Beyond says whether nodes of clusters may be elsewhere than among the namespaces of a controller's host: the site has
// networks with machines, or hypervisors.
func Beyond(ctx context.Context, tx *core.Tx) (beyond bool, err error) {
	err = tx.Row(ctx, `SELECT EXISTS (SELECT 1 FROM network) OR EXISTS (SELECT 1 FROM machine WHERE hosts = 1 AND phase <>
		'removed')`).Scan(&beyond)
	return beyond, wrap.Errorf(err, "look for networks and hypervisors")
}
