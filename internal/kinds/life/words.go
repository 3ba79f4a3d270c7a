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

// Nodes counts: "1 node", "2 nodes".
func Nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// HomeOf is how many bytes a cluster's /home may hold; 0: as the site has it.
func HomeOf(c spec.Cluster) int64 { return int64(spec.MiB(spec.Home(c).Size)) << 20 }

// Size is a number of bytes as people read it.
func Size(bytes int64) string {
	value, unit := float64(bytes), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	if value < 10 && unit != "B" {
		return fmt.Sprintf("%.1f %s", value, unit)
	}
	return fmt.Sprintf("%.0f %s", value, unit)
}

// Stopped is why a rollout went no further, and what its owner can do.
func Stopped(c cluster.Cluster) string {
	return fmt.Sprintf("rollout stopped: %s (`muster rollout back %s`, or applying the old file, goes back; `muster rollout "+
		"resume %s` goes on)", c.Rollout.Why, c.Name, c.Name)
}
