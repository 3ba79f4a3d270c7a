package fabric

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"muster/internal/core"
	"muster/internal/fabric"
	"muster/internal/kit/wrap"
)

// PutSitePartition makes a partition of the site's own, or changes who is in it. A *TableFull says whose port has no room for it.
func PutSitePartition(ctx context.Context, tx *core.Tx, f Fabric, name string, open bool,
	members map[fabric.GUID]fabric.Membership) error {
	revision, err := change(ctx, tx, f.ID)
	if err != nil {
		return err
	}
	id, err := core.One(ctx, tx, core.Value[string], `SELECT id FROM partition WHERE fabric_id = $1 AND name = $2 AND wanted = 1`, f.ID, name)
	if errors.Is(err, core.ErrNotFound) {
		var key fabric.Key
		if key, err = freeKey(ctx, tx, f, 0, FirstSiteKey, fabric.LastKey); err != nil {
			return err
		}
		id = f.ID + "-" + key.String() + "-" + name
		_, err = tx.Exec(ctx, `INSERT INTO partition (id, fabric_id, pkey, name) VALUES ($1, $2, $3, $4)`, id, f.ID, int(key),
			name)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE partition SET open = $2 WHERE id = $1`, id, core.Flag(open))
	}
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE partition_member SET wanted = 0, since = $2 WHERE partition_id = $1 AND wanted = 1`, id,
			revision)
	}
	for guid, as := range members {
		if err == nil {
			_, err = tx.Exec(ctx, `INSERT INTO partition_member (partition_id, fabric_id, guid, kind, full_member, since)
				VALUES ($1, $2, $3, 'site', $4, $5)
				ON CONFLICT (partition_id, guid, COALESCE(node_id, '')) DO UPDATE SET full_member = excluded.full_member,
				wanted = 1, since = excluded.since`,
				id, f.ID, guid.String(), core.Flag(as == fabric.Full), revision)
		}
	}
	if err != nil {
		return fmt.Errorf("put partition %s of fabric %s: %w", name, f.Name, err)
	}
	return room(ctx, tx, f, id)
}

// room says whether the ports that are to be in a partition, tenants' ports in open ones included, have an entry for it.
func room(ctx context.Context, tx *core.Tx, f Fabric, partition string) error {
	partitions, err := Partitions(ctx, tx, f.ID)
	if err != nil {
		return err
	}
	seen, err := PortsSeen(ctx, tx, f.ID)
	if err != nil {
		return err
	}
	intent := f.Intent(partitions)
	entries := intent.Tables()
	key := partitions[slices.IndexFunc(partitions, func(p Partition) bool { return p.ID == partition })].Key
	at := slices.IndexFunc(intent.Partitions, func(p fabric.Partition) bool { return p.Key == key })
	if at < 0 {
		return nil // it has no members
	}
	for guid := range intent.Partitions[at].Members {
		without := table{seen[guid].Capacity, len(entries[guid]) - 2} // the default partition and this one
		if full := without.full(f.Name, "port "+guid.String()); full != nil {
			ports, err := portsWhere(ctx, tx, `p.guid = $1`, guid.String())
			if err == nil && len(ports) > 0 && ports[0].Machine != "" {
				full.Whose = "machine " + ports[0].Machine
			}
			return errors.Join(err, full)
		}
	}
	return nil
}

// RemoveSitePartition ends a partition of the site's own. Its key is free when no port was seen with it any more.
// core.ErrNotFound.
func RemoveSitePartition(ctx context.Context, tx *core.Tx, f Fabric, name string) error {
	revision, err := change(ctx, tx, f.ID)
	if err != nil {
		return err
	}
	n, err := tx.Exec(ctx, `UPDATE partition SET wanted = 0, open = 0 WHERE fabric_id = $1 AND name = $2 AND wanted = 1`, f.ID,
		name)
	if err == nil && n == 0 {
		err = core.ErrNotFound
	}
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE partition_member SET wanted = 0, since = $3 WHERE wanted = 1
			AND partition_id IN (SELECT id FROM partition WHERE fabric_id = $1 AND name = $2)`, f.ID, name, revision)
	}
	return wrap.Errorf(err, "partition %s of fabric %s", name, f.Name)
}
