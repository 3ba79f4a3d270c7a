package monitor

import (
	"context"
	"errors"
	"net/http"

	"muster/internal/core"
	"muster/internal/identity"
	"muster/internal/kinds/node"
	"muster/internal/kinds/task"
	"muster/internal/protocol"
)

// mostTold is how many tasks a head is told of, and says something of: those of users, and a pause's.
const mostTold = protocol.MostTasks + 1

// pieceLimit is how long a piece of output may be as it is sent, in bytes.
const pieceLimit = 2*protocol.MostTaskPiece + 4<<10

// mostTaskNodes is how many nodes of a task are kept by name.
const mostTaskNodes = 4096

// tasksOf are those that a node's agent is told of: a head, of its cluster's.
func tasksOf(ctx context.Context, tx *core.Tx, self node.Node) ([]protocol.Task, error) {
	if self.Role != protocol.Head {
		return nil, nil
	}
	rows, err := task.OnHead(ctx, tx, self.Cluster)
	var tasks []protocol.Task
	for _, t := range rows {
		w := t.Work
		tasks = append(tasks, protocol.Task{ID: t.ID, Account: t.Account, System: t.System(), Boot: t.Boot, Cancel: t.Cancel,
			Command: w.Command, Script: w.Script, Queue: w.Queue, Nodes: w.Nodes, On: w.On, Ranks: w.Ranks, Whole: w.Whole,
			Reservation: w.Reservation, Limit: w.Limit})
	}
	return tasks, err
}

// recordTasks writes what a head says of its cluster's tasks. Those of others, and those that have ended, do not hear of it.
func recordTasks(ctx context.Context, tx *core.Tx, cluster string, said []protocol.TaskState) error {
	for _, s := range said[:min(len(said), mostTold)] {
		kept := task.Said{Stage: s.Stage, Text: s.Text, Job: s.Job, Nodes: s.Nodes[:min(len(s.Nodes), mostTaskNodes)],
			Began: s.Began, Bytes: max(0, s.Bytes)}
		switch s.Stage {
		case protocol.TaskWaits, protocol.TaskRuns:
		case protocol.TaskEnded:
			kept.Outcome, kept.Exit, kept.Ended = s.Outcome, s.Exit, s.Ended
			kept.Samples = s.Samples[:min(len(s.Samples), protocol.MostTaskSamples)]
			switch s.Outcome {
			case protocol.TaskOK, protocol.TaskFailed, protocol.TaskTimedOut, protocol.TaskCancelled, protocol.TaskLost:
			default:
				kept.Outcome = protocol.TaskLost
			}
		default:
			continue
		}
		if err := task.Save(ctx, tx, cluster, s.ID, kept); err != nil {
			return err
		}
	}
	return nil
}

// taskOutput keeps the next piece of what a task has written. It says how much there is, so that a piece whose answer was lost,
// or that comes twice, does no harm.
func (m *Monitor) taskOutput(w http.ResponseWriter, r *http.Request, who identity.Agent) {
	var piece protocol.TaskOutput
	if !m.read(w, r, pieceLimit, &piece) {
		return
	}
	if len(piece.Bytes) > protocol.MostTaskPiece {
		http.Error(w, "the piece is too long", http.StatusBadRequest)
		return
	}
	var kept protocol.TaskKept
	err := m.db.Update(r.Context(), func(tx *core.Tx) error {
		head, err := headOf(r.Context(), tx, who)
		if err != nil {
			return err
		}
		kept.Bytes, err = task.KeepOutput(r.Context(), tx, head.Cluster, piece.ID, piece.Start, piece.Bytes)
		if errors.Is(err, core.ErrNotFound) { // it is forgotten: no reason to end the head's boot
			kept.Bytes, err = protocol.NoTask, nil
		}
		return err
	})
	m.answer(w, r, kept, err)
}

// headOf is the node of an agent that calls as a head does; errRefused: it is none, or no more.
func headOf(ctx context.Context, tx *core.Tx, who identity.Agent) (node.Node, error) {
	n, err := node.Get(ctx, tx, who.Node)
	if err != nil {
		return n, err
	}
	if _, err := wanted(ctx, tx, n, who); err != nil {
		return n, err
	}
	if n.Role != protocol.Head {
		return n, errRefused
	}
	return n, nil
}
