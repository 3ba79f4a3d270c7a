package benchlife

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/centre"
	"muster/internal/kinds/person"
	"muster/internal/kinds/task"
	"muster/internal/kit/words"
	"muster/internal/protocol"
)

// goThere finds the centre of a run, and whether its account may still go there: as for a login, it takes a role in the project,
// a centre that lets the project in, and an account there.
func (v *view) goThere(ctx context.Context, tx *core.Tx, name string) error {
	caller, err := person.CallerOf(ctx, tx, v.Account)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return err
	}
	c, err := centre.Get(ctx, tx, name)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return err
	}
	p, admitted := c.Of(v.Project)
	v.centre = &c
	v.gone = !admitted || !caller.May(access.Enter, v.Project) || c.Account(p, v.Account) == ""
	return nil
}

// ask fills in what is known of the task of a round at a centre.
func (h Handlers) ask(ctx context.Context, v *view) (err error) {
	work, err := v.Plan.Work(v.Round)
	if err != nil {
		return err
	}
	v.task = task.Task{ID: v.Task, Account: v.Account, Work: work, Cancel: v.Cancel, CreatedAt: v.now}
	v.task.Said, v.output, err = h.Centres.Follow(ctx, *v.centre, v.Project, v.task)
	if v.task.Said.Stage == protocol.TaskEnded {
		v.task.Phase, v.task.Outcome = task.Ended, v.task.Said.Outcome
	}
	return err
}

// there is what the task of a round at a centre does.
func (v view) there() string {
	said := v.task.Said
	if said.Stage == protocol.TaskRuns {
		return "runs on " + words.Few(said.Nodes) + " as job " + said.Job
	}
	return fmt.Sprintf("waits as job %s: %s", said.Job, said.Text)
}

// queueBusy is why no round of a run that is repeated may begin at a centre now; others wait in its queue.
func (v view) queueBusy() string {
	if v.Every == 0 {
		return ""
	}
	if !v.centre.LostAt.IsZero() {
		return "external cluster " + v.centre.Name + " does not answer"
	}
	free := 0
	if i := slices.IndexFunc(v.centre.Queues, func(q centre.Queue) bool { return q.Name == v.Plan.Queue }); i >= 0 {
		free = v.centre.Queues[i].Free
	}
	return lacks(v.Run, free)
}
