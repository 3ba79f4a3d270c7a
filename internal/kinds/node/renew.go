package node

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
	"muster/internal/spec"
)

// Root is what a node boots.
type Root struct {
	Name  string `json:"name"`           // of the image
	Image string `json:"image"`          // its digest
	Disk  bool   `json:"disk,omitempty"` // on the machine's disk, where it is a whole machine
}

// Has says that the node's boot is of this root. Only a whole machine has a disk to boot from.
func (n Node) Has(r Root) bool { return n.Image == r.Image && (n.Disk == r.Disk || !n.Whole) }

// Aim names what nodes are to boot, by what is new in it.
func Aim(to, from Root) string {
	switch image := to.Name != from.Name || to.Image != from.Image; {
	case image && to.Name == from.Name:
		return fmt.Sprintf("image %s@%s", to.Name, Short(to.Image))
	case image || to.Disk == from.Disk:
		return "image " + to.Name
	case to.Disk:
		return "boot: " + spec.BootDisk
	}
	return "boot: " + spec.BootMemory
}

// Short is enough of a digest to tell it from others.
func Short(digest string) string {
	const enough = len("sha256:") + 12
	return digest[:min(len(digest), enough)]
}

// Renew asks that a node reboots on its own machine, drained for at most drainFor (0: without limit), and wakes it.
func Renew(ctx context.Context, tx *core.Tx, id string, drainFor time.Duration) error {
	_, err := tx.Exec(ctx, `UPDATE node SET renew = 1, `+core.Woken+`,
			drain_until = CASE WHEN CAST($1 AS BIGINT) > 0 THEN now_ms() + CAST($1 AS BIGINT) ELSE 0 END
		WHERE id = $2 AND desired = 'present' AND renew = 0`, drainFor.Milliseconds(), id)
	return wrap.Errorf(err, "renew node %s", id)
}

// Reboot has a node that leaves the ready phase in this transaction reboot on its own machine.
func Reboot(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE node SET renew = 1 WHERE id = $1`, id)
	return wrap.Errorf(err, "reboot node %s", id)
}

// Spare takes Renew back while the node's old boot still runs, and wakes it. A head that has begun to stop its
// daemons reboots in any case.
func Spare(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE node SET renew = 0, drain_until = 0, `+core.Woken+`
		WHERE id = $1 AND desired = 'present' AND renew = 1 AND (phase = 'ready' OR phase = 'draining' AND role = 'compute')`, id)
	return wrap.Errorf(err, "spare node %s", id)
}

// Worth is how much would be lost with the node: 0, 1 or 2.
func (n Node) Worth() int {
	switch {
	case n.Phase != core.Ready:
		return 0
	case n.Seen.Scheduler == nil || n.Seen.Scheduler.Jobs == 0:
		return 1
	}
	return 2
}

// CheapestFirst orders nodes by what would be lost with them, then by their slots.
func CheapestFirst(a, b Node) int {
	return cmp.Or(cmp.Compare(a.Worth(), b.Worth()), cmp.Compare(a.Slot, b.Slot))
}
