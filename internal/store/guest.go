package store

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/inventory"
	"muster/internal/placement"
)

// Guest is a virtual machine that is to be: the machine, and what it has of its host.
type Guest struct {
	inventory.Machine
	Allocation placement.Allocation
}

// AddGuest makes the row of a guest, reserved from its beginning, and takes what it holds of its host; a whole machine
// becomes a hypervisor by that. If a part of that is
// taken the transaction has lost a race: on PostgreSQL Update runs it again, and it will see the part taken.
func (tx *Tx) AddGuest(ctx context.Context, g Guest, why string) error {
	facts, err := json.Marshal(g.Facts)
	if err != nil {
		return err
	}
	if err := tx.turn(ctx, g.Host); err != nil {
		return err
	}
	_, err = tx.exec(ctx, `INSERT INTO machine (id, name, substrate, facts, host_id, whole, desired, phase, reason, phase_at, wake_at)
		VALUES ($1, $2, $3, $4, $5, $1, $6, $7, $8, now_ms(), now_ms())`,
		g.ID, g.Name, g.Substrate, string(facts), g.Host, string(ForService), string(Reserved), why)
	if err != nil {
		return fmt.Errorf("add guest %s: %w", g.Name, err)
	}
	if err := tx.SetAllocation(ctx, g); err != nil {
		return err
	}
	return tx.wakeMachine(ctx, g.Host)
}

// SetAllocation makes a guest have this part of its host, and no other; its facts are to be those of the part.
func (tx *Tx) SetAllocation(ctx context.Context, g Guest) error {
	if err := tx.releaseAllocation(ctx, g.ID); err != nil {
		return err
	}
	if err := tx.takeRows(ctx, g); err != nil {
		return err
	}
	allocation, err := json.Marshal(g.Allocation)
	if err != nil {
		return err
	}
	facts, err := json.Marshal(g.Facts)
	if err != nil {
		return err
	}
	if _, err := tx.exec(ctx, `UPDATE machine SET holding = $1, facts = $2 WHERE id = $3 AND host_id = $4`, string(allocation), string(facts), g.ID, g.Machine.Host); err != nil {
		return fmt.Errorf("note what guest %s holds: %w", g.Name, err)
	}
	return nil
}

// takeRows writes what a guest holds of its host.
func (tx *Tx) takeRows(ctx context.Context, g Guest) error {
	taken, err := tx.held(ctx, g)
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
		if _, err := tx.exec(ctx, `INSERT INTO held (host_id, kind, name, guest_id) VALUES `+strings.Join(rows, ", "), args...); err != nil {
			return fmt.Errorf("take a part of its host for guest %s: %w", g.Name, err)
		}
	}
	return nil
}

// Holder names another guest that has something of this part of the host, so that SetAllocation would fail; "" if none has.
func (tx *Tx) Holder(ctx context.Context, g Guest) (name string, err error) {
	taken, err := tx.held(ctx, g)
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
func (tx *Tx) held(ctx context.Context, g Guest) (map[heldAllocation]string, error) {
	type row struct {
		heldAllocation
		guest string
	}
	scan := func(r scanner) (h row, err error) { return h, r.Scan(&h.kind, &h.name, &h.guest) }
	rows, err := list(ctx, tx, scan, `SELECT h.kind, h.name, m.name FROM held h JOIN machine m ON m.id = h.guest_id WHERE h.host_id = $1 AND h.guest_id <> $2`, g.Machine.Host, g.ID)
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
				if !yield(place(core, g.Allocation.Share, taken)) {
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

// place is the lowest free place of a core, of as many as guests may share it. Where there is none it is the first: then
// the database refuses.
func place(core, share int, taken map[heldAllocation]string) heldAllocation {
	at := func(i int) heldAllocation { return heldAllocation{"core", strconv.Itoa(core) + "/" + strconv.Itoa(i)} }
	for i := range share {
		if _, is := taken[at(i)]; !is {
			return at(i)
		}
	}
	return at(0)
}

// releaseAllocation gives back what a guest holds of its host, and of one that it was to move to; of any other machine there is nothing.
func (tx *Tx) releaseAllocation(ctx context.Context, guest string) error {
	_, err := tx.exec(ctx, `DELETE FROM held WHERE guest_id = $1`, guest)
	if err == nil {
		_, err = tx.exec(ctx, `UPDATE machine SET holding = '', to_host_id = NULL, to_holding = '' WHERE id = $1 AND host_id IS NOT NULL`, guest)
	}
	if err != nil {
		return fmt.Errorf("give back what guest %s holds: %w", guest, err)
	}
	return nil
}

// AvoidedHosts are the hosts on which a guest of a cluster has failed within the time given, by ID.
func (tx *Tx) AvoidedHosts(ctx context.Context, cluster string, within time.Duration) (map[string]bool, error) {
	scan := func(r scanner) (id string, err error) { return id, r.Scan(&id) }
	ids, err := list(ctx, tx, scan, `SELECT DISTINCT host_id FROM node WHERE cluster_id = $1 AND host_id IS NOT NULL AND failed_at > now_ms() - $2`,
		cluster, within.Milliseconds())
	if err != nil {
		return nil, fmt.Errorf("list hosts on which guests of cluster %s failed: %w", cluster, err)
	}
	avoided := map[string]bool{}
	for _, id := range ids {
		avoided[id] = true
	}
	return avoided, nil
}

// GuestsOn lists the guests of a host that are not removed, those included that move there, by name.
func (tx *Tx) GuestsOn(ctx context.Context, host string) ([]Machine, error) {
	guests, err := list(ctx, tx, scanMachine, `SELECT `+machineColumns+machineTables+`WHERE (m.host_id = $1 OR m.to_host_id = $1) AND m.phase <> 'removed' ORDER BY m.name`, host)
	if err != nil {
		return nil, fmt.Errorf("list guests: %w", err)
	}
	return guests, nil
}

// GuestsIn are the guests that carry a cluster's nodes now, by ID.
func (tx *Tx) GuestsIn(ctx context.Context, cluster string) (map[string]Machine, error) {
	all, err := list(ctx, tx, scanMachine, `SELECT `+machineColumns+machineTables+`WHERE n.cluster_id = $1 AND m.host_id IS NOT NULL`, cluster)
	if err != nil {
		return nil, fmt.Errorf("list guests in cluster %s: %w", cluster, err)
	}
	guests := map[string]Machine{}
	for _, g := range all {
		guests[g.ID] = g
	}
	return guests, nil
}

// GuestEnd is a guest that a cluster had.
type GuestEnd struct {
	Guest string `json:"guest"`
	Host  string `json:"host"`
}

// GuestsOf names every guest that a cluster ever had, with its host.
func (tx *Tx) GuestsOf(ctx context.Context, cluster string) ([]GuestEnd, error) {
	scan := func(r scanner) (g GuestEnd, err error) { return g, r.Scan(&g.Guest, &g.Host) }
	guests, err := list(ctx, tx, scan, `SELECT DISTINCT n.machine, h.name FROM node n JOIN machine h ON h.id = n.host_id WHERE n.cluster_id = $1 ORDER BY n.machine`, cluster)
	if err != nil {
		return nil, fmt.Errorf("list guests of cluster %s: %w", cluster, err)
	}
	return guests, nil
}

// WithGuests lists the clusters that have guests now: their agents call from inside their clusters' networks.
func (tx *Tx) WithGuests(ctx context.Context) ([]string, error) {
	scan := func(r scanner) (id string, err error) { return id, r.Scan(&id) }
	clusters, err := list(ctx, tx, scan, `SELECT DISTINCT n.cluster_id FROM node n JOIN machine m ON m.id = n.machine_id WHERE m.host_id IS NOT NULL ORDER BY n.cluster_id`)
	if err != nil {
		return nil, fmt.Errorf("list clusters with guests: %w", err)
	}
	return clusters, nil
}

// Beyond says whether nodes of clusters may be elsewhere than among the namespaces of a controller's host: the site has
// networks with machines, or hypervisors.
func (tx *Tx) Beyond(ctx context.Context) (beyond bool, err error) {
	err = tx.row(ctx, `SELECT EXISTS (SELECT 1 FROM network) OR EXISTS (SELECT 1 FROM machine WHERE hosts = 1 AND phase <> 'removed')`).Scan(&beyond)
	if err != nil {
		return false, fmt.Errorf("look for networks and hypervisors: %w", err)
	}
	return beyond, nil
}
