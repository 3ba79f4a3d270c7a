package nodelife

import (
	"context"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/fabric"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/life"
)

// How nodes and machines come onto fabrics and leave them. A node boots when the fabric's manager was told of its ports, and
// serves when they were seen with its keys. It goes when it was seen off, then its ports lose their keys, and then they are
// seen without them. A port that does not answer cannot be read: its manager was told, and it is read before its machine is
// given to anybody else. See docs/decisions/fabrics.md.

// attachDeadline is none while a fabric keeps the node waiting: the machine is not at fault, and another would wait as well.
func (w Handlers) attachDeadline(n nodeView) time.Time {
	if n.awaitsKeys() != "" {
		return n.now
	}
	return n.PhaseAt.Add(w.provider(n).Limits.Attach)
}

// awaitsKeys says which port keeps the node from booting: its manager was not told of it, or it was seen and differs.
func (n nodeView) awaitsKeys() string {
	for _, p := range n.ports {
		switch {
		case !p.Told():
			return fmt.Sprintf("waits until fabric %s has told port %s of key %s", p.Fabric, p.GUID, p.Key)
		case !p.Wanted, !p.Silent() && !p.Has():
			return portDiffers(p)
		}
	}
	return ""
}

// awaitsPorts says which port keeps the node from serving: it runs, so they all have to answer.
func (n nodeView) awaitsPorts() string {
	for _, p := range n.ports {
		if !p.Has() {
			return portDiffers(p)
		}
	}
	return ""
}

// portDiffers says in words what is wrong with a port.
func portDiffers(p fabrics.NodePort) string {
	what := "lacks it"
	switch {
	case !p.Told():
		what = "was not read since it was asked to have it"
	case p.Silent():
		what = "does not answer"
	case len(p.Seen.Surplus) > 0:
		what = "holds " + fabric.Words(p.Seen.Surplus) + ", which is not meant for it"
	}
	return fmt.Sprintf("waits for key %s at port %s of fabric %s, which %s", p.Key, p.GUID, p.Fabric, what)
}

// leftFabrics takes the keys from the ports of a node that was seen to have ended, and says whether they are gone.
func (n nodeView) leftFabrics() (core.Outcome, bool) {
	for _, p := range n.ports {
		if p.Wanted {
			return core.WaitFor(time.Millisecond, "leaves fabric %s", p.Fabric).
				With(func(ctx context.Context, tx *core.Tx) error { return fabrics.Leave(ctx, tx, n.ID) }), false
		}
	}
	for _, p := range n.ports {
		if !p.Told() || !p.Silent() { // one that was seen without the key is not among them any more
			return core.WaitFor(nodeLooks, "%s", life.PortHolds(p)), false
		}
	}
	return core.Outcome{}, true
}
