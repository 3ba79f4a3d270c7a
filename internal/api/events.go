package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muster/internal/access"
	"muster/internal/store"
)

// Timing of a watch. Other replicas' events are seen by polling; a comment keeps idle connections open.
const (
	watchPoll = 500 * time.Millisecond
	keepAlive = 15 * time.Second
	batch     = 500
)

// EventsInput says which events.
type EventsInput struct {
	After       int64  `query:"after" minimum:"0" doc:"events with higher numbers"`
	Limit       int    `query:"limit" default:"100" minimum:"1" maximum:"1000"`
	Watch       bool   `query:"watch" doc:"keep the connection and send events as they happen, as server-sent events"`
	LastEventID string `header:"Last-Event-ID" doc:"as after; sent by clients that come back" pattern:"^[0-9]*$" maxLength:"18"`
}

type clusterEventsInput struct {
	ClusterRef
	EventsInput
}

func (a *API) registerEvents(api huma.API) {
	registry := api.OpenAPI().Components.Schemas
	page := registry.Schema(typeOf[List[store.Event]](), true, "EventList")
	register := func(id, path, summary string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{"events"}, Errors: []int{404, 422},
			Responses: map[string]*huma.Response{"200": {Description: "a page of events, or a stream of them", Content: map[string]*huma.MediaType{
				"application/json":  {Schema: page},
				"text/event-stream": {Schema: &huma.Schema{Type: "string", Description: "id: number; event: type; data: the event as JSON"}},
			}}},
		}
	}
	huma.Register(api, register("list-events", "/v1/events", "List or watch all events"), func(ctx context.Context, in *EventsInput) (*huma.StreamResponse, error) {
		all, projects := callerOf(ctx).Everywhere(), visible(ctx)
		return a.events(ctx, store.EventsOf{Projects: projects}, *in, func(now access.Caller) bool {
			return now.Everywhere() == all && (all || slices.Equal(now.Projects(), projects))
		})
	})
	huma.Register(api, register("list-cluster-events", "/v1/clusters/{cluster}/events", "List or watch the events of a cluster"),
		func(ctx context.Context, in *clusterEventsInput) (*huma.StreamResponse, error) {
			var of store.EventsOf
			var project string
			err := a.DB.View(ctx, func(tx *store.Tx) error {
				c, err := a.find(ctx, tx, in.Cluster)
				of.Cluster, project = c.ID, c.Project
				return err
			})
			if err != nil {
				return nil, a.tell(err, nil)
			}
			return a.events(ctx, of, in.EventsInput, func(now access.Caller) bool { return now.May(access.See, project) })
		})
}

// events answers with those there are, or goes on with those to come for as long as who asked is one who still may.
func (a *API) events(ctx context.Context, of store.EventsOf, in EventsInput, still func(access.Caller) bool) (*huma.StreamResponse, error) {
	of.After = in.After
	if in.LastEventID != "" {
		last, err := strconv.ParseInt(in.LastEventID, 10, 64)
		if err != nil {
			return nil, problem(http.StatusUnprocessableEntity, "invalid", "Last-Event-ID must be the number of an event", "")
		}
		of.After = last
	}
	if in.Watch {
		return &huma.StreamResponse{Body: func(ctx huma.Context) { a.watch(ctx, of, still) }}, nil
	}
	list := List[store.Event]{Items: []store.Event{}}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		of.Limit = in.Limit
		events, err := tx.Events(ctx, of)
		list.Items = append(list.Items, events...)
		return err
	})
	if err != nil {
		return nil, a.tell(err, nil)
	}
	if n := len(list.Items); n == in.Limit {
		list.Next = strconv.FormatInt(list.Items[n-1].Seq, 10)
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		ctx.SetHeader("Content-Type", "application/json")
		_ = json.NewEncoder(ctx.BodyWriter()).Encode(list)
	}}, nil
}

// watch sends events as they are committed until the client goes or the controller stops.
func (a *API) watch(hctx huma.Context, of store.EventsOf, still func(access.Caller) bool) {
	ctx, w := hctx.Context(), hctx.BodyWriter()
	defer a.streams(ctx, hctx.Operation().OperationID)()
	hctx.SetHeader("Content-Type", "text/event-stream")
	hctx.SetHeader("Cache-Control", "no-cache")
	hctx.SetStatus(http.StatusOK)
	ctx, cancel := a.lasting(ctx, "", func(_ *store.Tx, now access.Caller) (bool, error) { return still(now), nil })
	defer cancel()
	a.audit(hctx, callerOf(ctx))
	flusher, _ := w.(http.Flusher)
	flush := func() {
		if flusher != nil {
			flusher.Flush()
		}
	}
	_, _ = fmt.Fprint(w, ": events follow\n\n")
	flush()
	quiet := time.Now()
	of.Limit = batch
	for ctx.Err() == nil {
		changed := a.DB.Changed()
		var events []store.Event
		err := a.DB.View(ctx, func(tx *store.Tx) (err error) {
			events, err = tx.Events(ctx, of)
			return err
		})
		if err != nil {
			if ctx.Err() == nil {
				a.Log.ErrorContext(ctx, "a watch of events ends", "error", err)
			}
			return // the client comes back with Last-Event-ID
		}
		for _, e := range events {
			data, err := json.Marshal(e)
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, data); err != nil {
				return
			}
			of.After, quiet = e.Seq, time.Now()
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
		select {
		case <-changed:
		case <-time.After(watchPoll):
		case <-ctx.Done():
		}
	}
}
