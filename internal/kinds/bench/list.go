package bench

import (
	"cmp"
	"context"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
)

// Of says which runs are meant. Empty fields mean any.
type Of struct {
	Projects []string // nil: any
	Cluster  string   // its ID, or a name that it has or had
	Suite    string
	Before   time.Time // those that were asked for before it, or, at the same time, have a smaller ID
	BeforeID string
	Limit    int
}

// List lists runs, the newest first.
func List(ctx context.Context, tx *core.Tx, of Of) ([]Run, error) {
	if len(of.Projects) > 1 {
		one := of
		return core.First(of.Projects, of.Limit, func(project string) ([]Run, error) {
			one.Projects = []string{project}
			return List(ctx, tx, one)
		}, func(a, b Run) int { return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID)) })
	}
	var which core.Where
	which.Among("project", of.Projects)
	which.When(of.Cluster != "", `(cluster_id = $? OR cluster = $?)`, of.Cluster, of.Cluster)
	which.When(of.Suite != "", `suite = $?`, of.Suite)
	which.When(!of.Before.IsZero(), `(created_at, id) < ($?, $?)`, of.Before.UnixMilli(), of.BeforeID)
	which.Rest(` ORDER BY created_at DESC, id DESC LIMIT $?`, of.Limit)
	runs, err := core.List(ctx, tx, scan, `SELECT `+columns+` FROM benchmark`+which.Text, which.Args...)
	return runs, wrap.Errorf(err, "list runs")
}
