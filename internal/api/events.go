package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kit/clock"
)

// Timing of a watch. Other replicas' events are seen by polling, and a busy site's many commits a few at a time; a comment
// keeps idle connections open.
const (
	watchPoll = 500 * time.Millisecond
	watchRest = 10 * time.Millisecond
	keepAlive = 15 * time.Second
	batch     = 500
)

func (a *API) listEvents(ctx context.Context, in *apiv1.ListEventsInput) (*huma.StreamResponse, error) {
	if project := in.Project; project != "" {
		if err := permit(ctx, project, "project "+project); err != nil {
			return nil, err
		}
		return a.events(ctx, core.EventsOf{Projects: []string{project}, Machine: in.Machine}, in.EventsInput,
			func(now access.Caller) bool { return now.May(access.See, project) })
	}
	all, projects := callerOf(ctx).Everywhere(), visible(ctx)
	return a.events(ctx, core.EventsOf{Projects: projects, Machine: in.Machine}, in.EventsInput, func(now access.Caller) bool {
		return now.Everywhere() == all && (all || slices.Equal(now.Projects(), projects))
	})
}

func (a *API) listClusterEvents(ctx context.Context, in *apiv1.ListClusterEventsInput) (*huma.StreamResponse, error) {
	var of core.EventsOf
	var project string
	err := a.DB.View(ctx, func(tx *core.Tx) error {
		c, err := a.find(ctx, tx, in.Cluster)
		of.Cluster, project = c.ID, c.Project
		return err
	})
	if err != nil {
		return nil, err
	}
	return a.events(ctx, of, in.EventsInput, func(now access.Caller) bool { return now.May(access.See, project) })
}

// events answers with those there are, or goes on with those to come for as long as who asked is one who still may.
func (a *API) events(ctx context.Context, of core.EventsOf, in apiv1.EventsInput,
	still func(access.Caller) bool) (*huma.StreamResponse, error) {
	if in.Watch && in.Before > 0 {
		return nil, invalid("a watch goes on from now: before is for lists", "")
	}
	of.After, of.Before, of.Newest = in.After, in.Before, in.Newest
	if in.LastEventID != "" {
		last, err := strconv.ParseInt(in.LastEventID, 10, 64)
		if err != nil {
			return nil, invalid("Last-Event-ID must be the number of an event", "")
		}
		of.After = last
	}
	if in.Watch && in.Newest && in.LastEventID == "" {
		newest, err := core.Look(ctx, a.DB, func(tx *core.Tx) (int64, error) { return tx.LastEvent(ctx) })
		if err != nil {
			return nil, err
		}
		of.After = newest
	}
	if in.Watch {
		of.Newest = false
		return &huma.StreamResponse{Body: func(ctx huma.Context) { a.watch(ctx, of, in.Seen, still) }}, nil
	}
	var list apiv1.List[apiv1.Event]
	err := a.DB.View(ctx, func(tx *core.Tx) error {
		of.Limit = in.Limit
		events, err := tx.Events(ctx, of)
		list.Items = some(each(events, eventView))
		return err
	})
	if err != nil {
		return nil, err
	}
	if n := len(list.Items); n == in.Limit {
		list.Next = strconv.FormatInt(list.Items[n-1].Seq, 10)
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		ctx.SetHeader("Content-Type", "application/json")
		_ = json.NewEncoder(ctx.BodyWriter()).Encode(list)
	}}, nil
}

func eventView(e core.Event) apiv1.Event {
	return apiv1.Event{Seq: e.Seq, At: e.At, Type: e.Type, Project: e.Project, ClusterID: e.ClusterID, Cluster: e.Cluster,
		Node: e.Node, Machine: e.Machine,
		Phase: apiv1.Phase(e.Phase), Text: e.Text, Request: e.Request}
}

// newest is the number of the newest event. All who watch ask for it after each commit, and few commits are news to them: one of
// them looks.
type newest struct {
	mu    sync.Mutex
	since <-chan struct{} // what was looked at was committed before this was made
	at    time.Time       // not every commit is told
	seq   int64
}

func (n *newest) look(ctx context.Context, db *core.Store, changed <-chan struct{}) (seq int64, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.since == changed && time.Since(n.at) < watchPoll/2 {
		return n.seq, nil
	}
	began := time.Now()
	seq, err = core.Look(ctx, db, func(tx *core.Tx) (int64, error) { return tx.LastEvent(ctx) })
	if err == nil {
		n.since, n.at, n.seq = changed, began, seq
	}
	return seq, err
}

// watch sends events as they are committed, and what is seen without any if that is asked for, until the client goes or the
// controller stops.
func (a *API) watch(hctx huma.Context, of core.EventsOf, seen bool, still func(access.Caller) bool) {
	ctx, w := hctx.Context(), hctx.BodyWriter()
	defer a.streams(ctx, hctx.Operation().OperationID)()
	hctx.SetHeader("Content-Type", "text/event-stream")
	hctx.SetHeader("Cache-Control", "no-cache")
	hctx.SetStatus(http.StatusOK)
	ctx, cancel := a.lasting(ctx, "", func(_ *core.Tx, now access.Caller) (bool, error) { return still(now), nil })
	defer cancel()
	a.audit(hctx, callerOf(ctx))
	flusher, _ := w.(http.Flusher)
	flush := func() {
		if flusher != nil {
			flusher.Flush()
		}
	}
	told := sightings{of: of}
	if seen {
		if now, err := a.seen.look(ctx, a.DB); err != nil || told.tell(w, now) != nil {
			return // the client comes back
		}
	}
	_, _ = fmt.Fprint(w, ": events follow\n\n")
	flush()
	quiet := time.Now()
	of.Limit = batch
	for ctx.Err() == nil {
		changed := a.DB.Changed()
		var events []core.Event
		newest, err := a.newest.look(ctx, a.DB, changed) // what is not among those of interest up to here never is
		if err == nil && newest > of.After {
			events, err = core.Look(ctx, a.DB, func(tx *core.Tx) ([]core.Event, error) { return tx.Events(ctx, of) })
		}
		var now looked
		if err == nil && seen {
			now, err = a.seen.look(ctx, a.DB)
		}
		if err != nil {
			if ctx.Err() == nil {
				a.Log.ErrorContext(ctx, "a watch of events ends", "error", err)
			}
			return // the client comes back with Last-Event-ID
		}
		for _, e := range events {
			data, err := json.Marshal(eventView(e))
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, data); err != nil {
				return
			}
			of.After, quiet = e.Seq, time.Now()
		}
		if err := told.tell(w, now); err != nil {
			return
		}
		if time.Since(quiet) > keepAlive {
			if _, err := fmt.Fprint(w, ": still here\n\n"); err != nil {
				return
			}
			quiet = time.Now()
		}
		flush()
		if len(events) == batch {
			continue
		}
		of.After = max(of.After, newest)
		select {
		case <-changed:
			_ = clock.Sleep(ctx, watchRest)
		case <-time.After(watchPoll):
		case <-ctx.Done():
		}
	}
}
