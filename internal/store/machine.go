package store

import (
	"context"
	"encoding/json"
	"fmt"

	"muster/internal/inventory"
)

// Machine is one row of the inventory with its life.
type Machine struct {
	inventory.Machine
	Life
	Desired     Desired
	ToInspect   bool   // an inspection was asked for and not yet answered
	Inspections int64  // asked for so far
	Holder      string // ID of the node that has it; "" if none
	HolderName  string // "cluster/node", for people
	HolderBoot  int64  // boots that the holder has begun
	Suspect     string // why the last node on it failed; "" once an inspection has passed
}

// Free says that the machine can be given away now.
func (m Machine) Free() bool {
	return m.Phase == Available && m.Holder == "" && m.Desired == ForService
}

const machineColumns = `m.id, m.name, m.substrate, m.facts, m.desired, m.inspect, m.inspected, m.suspect,
	m.phase, m.reason, m.phase_at, m.attempts, m.fence, COALESCE(n.id, ''), COALESCE(c.name || '/' || n.name, ''), COALESCE(n.boot, 0)`

const machineTables = ` FROM machine m LEFT JOIN node n ON n.machine_id = m.id LEFT JOIN cluster c ON c.id = n.cluster_id `

func scanMachine(r scanner) (Machine, error) {
	var m Machine
	var facts string
	var at, inspected int64
	fields := []any{&m.ID, &m.Name, &m.Substrate, &facts, &m.Desired, &m.Inspections, &inspected, &m.Suspect}
	if err := r.Scan(append(append(fields, m.fields(&at)...), &m.Holder, &m.HolderName, &m.HolderBoot)...); err != nil {
		return m, err
	}
	m.PhaseAt = instant(at)
	m.ToInspect = m.Inspections > inspected
	if err := json.Unmarshal([]byte(facts), &m.Facts); err != nil {
		return m, fmt.Errorf("facts of machine %s: %w", m.Name, err)
	}
	return m, nil
}

// AddMachine enrols a machine. ErrExists if the name is taken.
func (tx *Tx) AddMachine(ctx context.Context, m inventory.Machine) error {
	facts, err := json.Marshal(m.Facts)
	if err != nil {
		return err
	}
	_, err = tx.exec(ctx, `INSERT INTO machine (id, name, substrate, facts, desired, phase, phase_at, wake_at)
		VALUES ($1, $2, $3, $4, $5, $6, now_ms(), now_ms())`, m.ID, m.Name, m.Substrate, string(facts), string(ForService), string(Enrolled))
	if taken(err) {
		return fmt.Errorf("machine %s: %w", m.Name, ErrExists)
	}
	if err != nil {
		return fmt.Errorf("add machine %s: %w", m.Name, err)
	}
	return nil
}

// Machines lists all that are not removed, by name.
func (tx *Tx) Machines(ctx context.Context) ([]Machine, error) {
	machines, err := list(ctx, tx, scanMachine, `SELECT `+machineColumns+machineTables+`WHERE m.phase <> 'removed' ORDER BY m.name`)
	if err != nil {
		return nil, fmt.Errorf("list machines: %w", err)
	}
	return machines, nil
}

// Machine finds a machine by name or ID.
func (tx *Tx) Machine(ctx context.Context, ref string) (Machine, error) {
	m, err := one(ctx, tx, scanMachine, `SELECT `+machineColumns+machineTables+`WHERE (m.name = $1 OR m.id = $1) AND m.phase <> 'removed'`, ref)
	if err != nil {
		return m, fmt.Errorf("machine %s: %w", ref, err)
	}
	return m, nil
}

// WantMachine changes what is wanted of a machine and wakes it.
func (tx *Tx) WantMachine(ctx context.Context, id string, d Desired) error {
	if _, err := tx.exec(ctx, `UPDATE machine SET desired = $1, `+woken+` WHERE id = $2`, string(d), id); err != nil {
		return fmt.Errorf("want machine %s %s: %w", id, d, err)
	}
	return nil
}

// AskInspection asks for a new inspection of a machine and wakes it.
func (tx *Tx) AskInspection(ctx context.Context, id string) error {
	if _, err := tx.exec(ctx, `UPDATE machine SET inspect = inspect + 1, `+woken+` WHERE id = $1`, id); err != nil {
		return fmt.Errorf("ask for an inspection of machine %s: %w", id, err)
	}
	return nil
}

// SuspectMachine notes why the node on it failed, so that the machine is set apart when it is released.
func (tx *Tx) SuspectMachine(ctx context.Context, id, reason string) error {
	if _, err := tx.exec(ctx, `UPDATE machine SET suspect = $1 WHERE id = $2`, reason, id); err != nil {
		return fmt.Errorf("suspect machine %s: %w", id, err)
	}
	return nil
}

// SaveFacts writes what a passed inspection found; it answers every inspection asked for up to number and clears the
// machine of suspicion.
func (tx *Tx) SaveFacts(ctx context.Context, id string, number int64, f inventory.Facts) error {
	facts, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if _, err := tx.exec(ctx, `UPDATE machine SET facts = $1, inspected = $2, suspect = '' WHERE id = $3`, string(facts), number, id); err != nil {
		return fmt.Errorf("save facts of machine %s: %w", id, err)
	}
	return nil
}

// ForgetMachine frees the name of a machine that has left the inventory; its events keep the name.
func (tx *Tx) ForgetMachine(ctx context.Context, id string) error {
	if _, err := tx.exec(ctx, `UPDATE machine SET name = name || '@' || id WHERE id = $1`, id); err != nil {
		return fmt.Errorf("forget machine %s: %w", id, err)
	}
	return nil
}
