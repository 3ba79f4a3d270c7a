package monitor

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"muster/internal/core"
	"muster/internal/identity"
	"muster/internal/kinds/authority"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// mostSaid is how many bytes of any text in what agents say are kept.
const mostSaid = 1 << 10

// report writes down what a node says of itself and, from a head, of its scheduler.
func (m *Monitor) report(w http.ResponseWriter, r *http.Request, who identity.Agent) {
	var report protocol.Report
	if !m.read(w, r, bodyLimit, &report) {
		return
	}
	report.Boot = who.Boot // the certificate knows better
	reply, err := m.record(r.Context(), who, report, m.authority.LivesBy(r.TLS))
	m.answer(w, r, reply, err)
}

func (m *Monitor) record(ctx context.Context, who identity.Agent, report protocol.Report, lives int64) (protocol.ReportReply,
	error) {
	reply := protocol.ReportReply{Every: heartbeat}
	mayTell := sync.OnceValue(func() bool { return m.undone.More(who.Node, time.Now()) == nil }) // however often it is tried
	err := m.db.Update(ctx, func(tx *core.Tx) error {
		n, err := node.Get(ctx, tx, who.Node)
		if err != nil {
			return err
		}
		boot, err := wanted(ctx, tx, n, who)
		if err != nil {
			return err
		}
		if boot.Detail == machine.AskedAgain { // not this machine, which lives
			tx.Log(core.Event{Type: "machine.warning", Machine: n.Machine, Text: "somebody else asked what to boot with its MAC"})
			if _, err := machine.MarkBoot(ctx, tx, n.ID, who.Boot, protocol.StepAgent, ""); err != nil {
				return err
			}
		}
		c, err := cluster.Get(ctx, tx, n.Cluster)
		if err != nil {
			return err
		}
		reply.Revision = c.Revision + n.News
		if m.authority.Several(identity.Agents) {
			if err := authority.RaiseTrust(ctx, tx, who.Node, who.Boot, lives); err != nil {
				return err
			}
		}
		if err := node.SaveReport(ctx, tx, n.ID, report); err != nil {
			return err
		}
		news := !slices.EqualFunc(n.Seen.Checks, report.Checks, protocol.Check.Same) // that no event tells
		if n.Phase != core.Ready || news {
			tx.Wake(node.Kind, n.ID)
		}
		now := node.Observed{Boot: report.Boot, Checks: report.Checks}
		if n.Seen.Fails(n.Boot) != now.Fails(n.Boot) {
			if err := cluster.TellHead(ctx, tx, n.Cluster); err != nil { // it takes no new jobs, or takes them again
				return err
			}
		}
		if n.Role == protocol.Head && c.Phase == cluster.Pausing {
			tx.Wake(cluster.Kind, c.ID) // which waits for the head's steps
		}
		if n.Role == protocol.Head {
			tellUndone(tx, c, n, report.Undone, mayTell)
			if err := recordTasks(ctx, tx, n.Cluster, report.Tasks); err != nil {
				return err
			}
		}
		if n.Role == protocol.Head && report.Scheduler != nil {
			changed, err := m.recordScheduler(ctx, tx, c, n, report.Scheduler)
			if err != nil {
				return err
			}
			news = news || changed
		}
		if news {
			return cluster.MarkSeen(ctx, tx, c.ID)
		}
		return nil
	})
	return reply, err
}

// recordScheduler writes, where it has changed, what the head of a cluster sees of every compute node and of jobs that wait.
func (m *Monitor) recordScheduler(ctx context.Context, tx *core.Tx, c cluster.Cluster, head node.Node,
	seen *protocol.Scheduler) (changed bool, err error) {
	nodes, err := node.Of(ctx, tx, c.ID)
	if err != nil {
		return false, err
	}
	rows := map[string]*protocol.NodeState{}
	for i := range seen.Nodes {
		rows[seen.Nodes[i].Name] = &seen.Nodes[i]
	}
	for _, n := range nodes {
		row := rows[n.Name]
		if n.Role == protocol.Head || same(row, n.Seen.Scheduler) {
			continue
		}
		if err := node.SaveScheduler(ctx, tx, n.ID, row); err != nil {
			return changed, err
		}
		tx.Wake(node.Kind, n.ID)
		changed = true
	}
	if !reflect.DeepEqual(head.Seen.Waiting, seen.Waiting) {
		if err := node.SaveWaiting(ctx, tx, head.ID, seen.Waiting); err != nil {
			return changed, err
		}
		changed = true
	}
	if changed && slices.ContainsFunc(c.Spec.Queues, spec.Queue.Elastic) {
		tx.Wake(cluster.Kind, c.ID)
	}
	return changed, nil
}

func same(a, b *protocol.NodeState) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// mostUndone is how many events one report has of what was not done, and as many of what was done after all.
const mostUndone = 8

// tellUndone has an event for what a head could not do for a user, and for what it could do after all, if it may tell more.
func tellUndone(tx *core.Tx, c cluster.Cluster, n node.Node, now []protocol.Undone, may func() bool) {
	if slices.Equal(n.Seen.Undone, now) || !may() {
		return
	}
	var failed, done []string
	tell := func(told []string, more string) {
		if most := mostUndone - 1; len(told) > mostUndone {
			told = append(told[:most], fmt.Sprintf("%d more %s", len(told)-most, more))
		}
		for _, text := range told {
			tx.Log(core.Event{Type: "node.undone", Project: c.Project, ClusterID: c.ID, Cluster: c.Name, Node: n.Name,
				Text: text})
		}
	}
	for _, u := range now {
		if !slices.Contains(n.Seen.Undone, u) {
			failed = append(failed, fmt.Sprintf("for %s not done, and tried again: %s", u.Whom(), u.Text))
		}
	}
	for _, u := range n.Seen.Undone {
		if !slices.ContainsFunc(now, func(left protocol.Undone) bool { return left.User == u.User }) {
			done = append(done, fmt.Sprintf("for %s done after all", u.Whom()))
		}
	}
	tell(failed, "were not done, and are tried again")
	tell(done, "were done after all")
}
