package benchlife

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/external"
	"muster/internal/kinds/person"
	"muster/internal/kinds/task"
	"muster/internal/kit/words"
	"muster/internal/protocol"
)

// goThere finds the external cluster of a run, and whether its account may still go there: as for a login, it takes a role in the
// project, an external cluster that lets the project in, and an account there.
func (v *view) goThere(ctx context.Context, tx *core.Tx, name string) error {
	caller, err := person.CallerOf(ctx, tx, v.Account)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return err
	}
	c, err := external.Get(ctx, tx, name)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return err
	}
	p, admitted := c.Of(v.Project)
	v.external = &c
	v.gone = !admitted || !caller.May(access.Enter, v.Project) || c.Account(p, v.Account) == ""
	return nil
}

// ask fills in what is known of the task of a round at an external cluster.
func (h Handlers) ask(ctx context.Context, v *view) (err error) {
	work, err := v.Plan.Work(v.Round)
	if err != nil {
		return err
	}
	v.task = task.Task{ID: v.Task, Account: v.Account, Work: work, Cancel: v.Cancel, CreatedAt: v.now}
	v.task.Said, v.output, err = h.External.Follow(ctx, *v.external, v.Project, v.task)
	if v.task.Said.Stage == protocol.TaskEnded {
		v.task.Phase, v.task.Outcome = task.Ended, v.task.Said.Outcome
	}
	return err
}

// there is what the task of a round at an external cluster does.
func (v view) there() string {
	said := v.task.Said
	if said.Stage == protocol.TaskRuns {
		return "runs on " + words.Few(said.Nodes) + " as job " + said.Job
	}
	return fmt.Sprintf("waits as job %s: %s", said.Job, said.Text)
}

// queueBusy is why no round of a run that is repeated may begin at an external cluster now; others wait in its queue.
func (v view) queueBusy() string {
	if v.Every == 0 {
		return ""
	}
	if v.external.Silent() {
		return "external cluster " + v.external.Name + " does not answer"
	}
	free := 0
	if i := slices.IndexFunc(v.external.Queues, func(q external.Queue) bool { return q.Name == v.Plan.Queue }); i >= 0 {
		free = v.external.Queues[i].Free
	}
	return lacks(v.Run, free)
}
