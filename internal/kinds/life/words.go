package life

import (
	"fmt"
	"time"

	"muster/internal/kinds/cluster"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/spec"
)

func PortHolds(p fabrics.NodePort) string {
	return fmt.Sprintf("waits until port %s of fabric %s is seen without key %s", p.GUID, p.Fabric, p.Key)
}

// CleanWithin is how long an inspection that is otherwise over waits for a port.
const CleanWithin = 3 * time.Minute

// HomeOf is how many bytes a cluster's /home may hold; 0: as the site has it.
func HomeOf(c spec.Cluster) int64 { return int64(spec.MiB(spec.Home(c).Size)) << 20 }

// Stopped is why a rollout went no further, and what its owner can do.
func Stopped(c cluster.Cluster) string {
	return fmt.Sprintf("rollout stopped: %s (`muster rollout back %s`, or applying the old file, goes back; `muster rollout "+
		"resume %s` goes on)", c.Rollout.Why, c.Name, c.Name)
}
