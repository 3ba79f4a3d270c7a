package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/kit/clock"
)

// silence is how long a stream may say nothing before it counts as lost; the API sends a comment every 15 s.
const silence = 45 * time.Second

// whose says which events are wanted: those of a cluster, by its name or ID, or of a machine; all, if it says nothing.
type whose struct{ cluster, machine string }

// stream is a watch of events that outlives lost connections.
type stream struct {
	app   *app
	of    whose
	after int64 // number of the last event seen
	lost  func(error)
	pause time.Duration // before coming back
}

// run calls each for every event until each fails, ctx ends, or the API refuses. lost hears why a connection ended.
func (s *stream) run(ctx context.Context, each func(apiv1.Event, []byte) error) error {
	controller, err := s.app.connect()
	if err != nil {
		return err
	}
	for {
		seen := s.after
		err := s.connection(ctx, controller, each)
		var told *problemError
		var own eachError
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &own):
			return own.error
		case errors.As(err, &told) && told.Status < 500 && told.Status != http.StatusTooManyRequests:
			return err
		}
		pause := s.pause
		if after, yes := busy(err); yes {
			pause = max(pause, after)
		}
		if s.after == seen && s.lost != nil {
			s.lost(err)
		}
		if err := clock.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// eachError is an error of the one who listens, not of the stream.
type eachError struct{ error }

// connection listens until the connection ends, which it always does at some time.
func (s *stream) connection(ctx context.Context, controller *client, each func(apiv1.Event, []byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	in := apiv1.EventsInput{Watch: true, LastEventID: strconv.FormatInt(s.after, 10)}
	ask := apiv1.ListEvents.Ask(apiv1.ListEventsInput{Machine: s.of.machine, EventsInput: in})
	if s.of.cluster != "" {
		ask = apiv1.ListClusterEvents.Ask(apiv1.ListClusterEventsInput{ClusterRef: apiv1.ClusterRef{Cluster: s.of.cluster},
			EventsInput: in})
	}
	response, err := controller.open(ctx, ask)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return fmt.Errorf("%s sends %q instead of events", controller.base, kind)
	}
	lines := bufio.NewReader(response.Body)
	var data []byte
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return controller.lost(err)
		}
		quiet.Reset(silence)
		field, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		switch {
		case field == "data":
			data = append(data, strings.TrimPrefix(value, " ")...)
		case field == "" && value == "" && len(data) > 0: // an empty line ends the event; one with a value is a comment
			var e apiv1.Event
			if err := json.Unmarshal(data, &e); err != nil {
				return fmt.Errorf("an event cannot be read: %w", err)
			}
			if e.Seq > s.after {
				if err := each(e, data); err != nil {
					return eachError{err}
				}
				s.after = e.Seq
			}
			data = nil
		}
	}
}

// lastEvent is the number of a cluster's newest event; 0: it has none.
func lastEvent(ctx context.Context, c apiv1.Client, cluster string) (int64, error) {
	newest, _, err := apiv1.ListClusterEvents.Call(ctx, c, apiv1.ListClusterEventsInput{
		ClusterRef: apiv1.ClusterRef{Cluster: cluster}, EventsInput: apiv1.EventsInput{Newest: true, Limit: 1}})
	if err != nil || len(newest.Items) == 0 {
		return 0, err
	}
	return newest.Items[0].Seq, nil
}
