package host

import (
	"context"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// Migration is a guest's move between two hypervisors that are machines of their own.
type Migration struct {
	Node   string
	Source Endpoint
	Target Endpoint
	Number int64 // names the move
	Step   int64 // grows with every change of what the two are told
	Stage  string
	Kept   bool // the source is to have the guest still
	Begun  time.Time
	Guest  protocol.HostedGuest // as it is to be at the target; its File is empty
	// Description is the guest in libvirt's words, Address where the target listens, and Why the reason that the guest does not
	// move.
	Description string
	Address     string
	Why         string
}

// Endpoint is one of the two hosts of a move.
type Endpoint struct {
	Host  string // ID
	Name  string
	Does  protocol.MoveStep // "": it is told nothing of the move
	Since int64             // revision of its Hosting from which on this is so
}

const migrationColumns = `a.node_id, a.source_id, s.name, a.source_does, a.source_since, a.target_id, t.name, a.target_does, a.target_since,
	a.number, a.step, a.stage, a.kept, a.begun_at, a.guest, a.description, a.address, a.why
	FROM guest_migration a JOIN machine s ON s.id = a.source_id JOIN machine t ON t.id = a.target_id `

func scanMigration(r core.Scanner) (a Migration, err error) {
	err = r.Scan(&a.Node, &a.Source.Host, &a.Source.Name, &a.Source.Does, &a.Source.Since, &a.Target.Host, &a.Target.Name,
		&a.Target.Does, &a.Target.Since, &a.Number, &a.Step, &a.Stage, &a.Kept, core.Time(&a.Begun), core.JSON(&a.Guest),
		&a.Description, &a.Address, &a.Why)
	return a, err
}

// MigrationOfNode finds the move of a node's guest; core.ErrNotFound if it is on none.
func MigrationOfNode(ctx context.Context, tx *core.Tx, node string) (Migration, error) {
	a, err := core.One(ctx, tx, scanMigration, `SELECT `+migrationColumns+`WHERE a.node_id = $1`, node)
	return a, wrap.Errorf(err, "the move of node %s", node)
}

// MigrationsAt lists the moves from and to a hypervisor, by node.
func MigrationsAt(ctx context.Context, tx *core.Tx, host string) ([]Migration, error) {
	all, err := core.List(ctx, tx, scanMigration, `SELECT `+migrationColumns+
		`WHERE a.source_id = $1 OR a.target_id = $1 ORDER BY a.node_id`, host)
	return all, wrap.Errorf(err, "list moves from and to hypervisor %s", host)
}

// StartMigration writes the first step of a move: node, both hosts and what they do, the stage and the guest. It keeps a row that
// is there.
func StartMigration(ctx context.Context, tx *core.Tx, a Migration) error {
	a.Guest.File = protocol.BootFile{} // its token is used up, and the rest is not needed
	if err := tellBoth(ctx, tx, &a); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO guest_migration (node_id, source_id, target_id, number, step, stage, source_does, target_does, kept,
		source_since, target_since, begun_at, guest)
		VALUES ($1, $2, $3, $4, 1, $5, $6, $7, $8, $9, $4, now_ms(), $10) ON CONFLICT (node_id) DO NOTHING`,
		a.Node, a.Source.Host, a.Target.Host, a.Target.Since, a.Stage, string(a.Source.Does), string(a.Target.Does),
		core.Flag(a.Kept), a.Source.Since, core.JSON(a.Guest))
	return wrap.Errorf(err, "begin the move of node %s", a.Node)
}

// StepMigration writes the next step of a move, unless somebody has gone on from a.Step before.
func StepMigration(ctx context.Context, tx *core.Tx, a Migration) error {
	if err := tellBoth(ctx, tx, &a); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE guest_migration SET step = step + 1, stage = $1, source_does = $2, target_does = $3, kept = $4,
		source_since = $5, target_since = $6,
		description = $7, address = $8, why = $9 WHERE node_id = $10 AND number = $11 AND step = $12`,
		a.Stage, string(a.Source.Does), string(a.Target.Does), core.Flag(a.Kept), a.Source.Since, a.Target.Since, a.Description,
		a.Address, a.Why, a.Node, a.Number, a.Step)
	return wrap.Errorf(err, "go on with the move of node %s", a.Node)
}

// tellBoth numbers a change of what both hosts are told. They are taken in one order, so that two moves do not wait for each
// other.
func tellBoth(ctx context.Context, tx *core.Tx, a *Migration) (err error) {
	first, second := &a.Source, &a.Target
	if second.Host < first.Host {
		first, second = second, first
	}
	for _, way := range []*Endpoint{first, second} {
		if way.Since, err = nextHosting(ctx, tx, way.Host); err != nil {
			return fmt.Errorf("tell hypervisor %s of the move of node %s: %w", way.Host, a.Node, err)
		}
	}
	return nil
}

// dropMigration ends a move, if there is one, and tells both hosts. The host that is to have the guest has it by then.
func dropMigration(ctx context.Context, tx *core.Tx, node string) error {
	all, err := core.List(ctx, tx, scanMigration, `SELECT `+migrationColumns+`WHERE a.node_id = $1`, node)
	if err != nil {
		return fmt.Errorf("end the move of node %s: %w", node, err)
	}
	for _, a := range all {
		if err := tellBoth(ctx, tx, &a); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM guest_migration WHERE node_id = $1`, node); err != nil {
			return fmt.Errorf("end the move of node %s: %w", node, err)
		}
	}
	return nil
}

// ForgetMigration forgets the move of a node that is to end, when nothing of it is at the move's target. Its source is to hold it
// no longer: told once more to have it, it would make it again.
func ForgetMigration(ctx context.Context, tx *core.Tx, node string) error {
	a, err := MigrationOfNode(ctx, tx, node)
	if err == nil {
		err = UnassignGuest(ctx, tx, a.Source.Host, node)
	}
	if err == nil {
		err = dropMigration(ctx, tx, node)
	}
	return err
}

// arrived makes a guest that has moved one that its new host is to hold, where its hosts are machines of their own.
func arrived(ctx context.Context, tx *core.Tx, node string) error {
	a, err := core.List(ctx, tx, scanMigration, `SELECT `+migrationColumns+`WHERE a.node_id = $1`, node)
	if err != nil || len(a) == 0 {
		return err
	}
	hosted, err := HostedNode(ctx, tx, node)
	if err != nil {
		return err
	}
	g := hosted.Guest // with its boot file and the number of its try
	g.Allocation = a[0].Guest.Allocation
	if err := AssignGuest(ctx, tx, a[0].Target.Host, g); err != nil {
		return err
	}
	return dropMigration(ctx, tx, node)
}

// nodeOn finds the node that a guest carries; "" if it carries none.
func nodeOn(ctx context.Context, tx *core.Tx, guest string) (string, error) {
	return core.Maybe(ctx, tx, core.Value[string], `SELECT id FROM node WHERE machine_id = $1`, guest)
}
