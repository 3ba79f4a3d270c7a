package nodelife

import (
	"context"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/life"
	"muster/internal/kinds/node"
)

// Alive judges whether a node of a project is lost, as it was read at an instant: on a machine of a substrate, whose place was
// listened to since then. well is called where it is taken for well.
func Alive(ctx context.Context, d life.Deps, of node.Node, project, substrate string, listened, now time.Time,
	well func()) core.Outcome {
	n := nodeView{Node: of, listened: listened, now: now}
	n.cluster.Project = project
	n.machine.Substrate = substrate
	return Handlers{d}.alive(func(context.Context, nodeView) core.Outcome { well(); return core.Outcome{} })(ctx, n)
}
