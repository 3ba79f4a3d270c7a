package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/core/telemetry"
	"muster/internal/kinds/person"
)

// RequestIDHeader of an answer is the request's number: events that it caused, log lines and traces carry it.
const RequestIDHeader = "X-Request-Id"

// asked is what becomes known of a request while it is answered.
type asked struct {
	identity string
	action   access.Action
	summary  string // what the operation does
	project  string // that it was about
	cluster  string // name
	op       string // what it began: cluster ID and generation
	stream   bool   // its answer lasts as long as the client likes
	status   int    // of an answer that huma does not see; 0: it does
	audited  bool   // it stands in the audit log

	console bool         // it comes from the console
	cookie  string       // hash of the cookie that it was made with; "": with a token
	ends    time.Time    // with a cookie: when that ends
	token   string       // of a browser that has signed in with it: its ID
	answer  huma.Context // what it is answered through
}

// request is what was asked.
func (r *asked) request() *http.Request {
	request, _ := humago.Unwrap(r.answer)
	return request
}

// keeps gives the browser a cookie, and has it forget what others have seen in it.
func (r *asked) keeps(cookie *http.Cookie) {
	r.answer.AppendHeader("Set-Cookie", cookie.String())
	r.answer.SetHeader("Clear-Site-Data", `"cache"`)
}

// door is where a request came in.
func (r *asked) door() person.Door {
	if r.console {
		return person.ConsoleDoor
	}
	return person.APIDoor
}

type askedKey struct{}

// askedOf is what is known of the request that ctx belongs to.
func askedOf(ctx context.Context) *asked {
	if r, ok := ctx.Value(askedKey{}).(*asked); ok {
		return r
	}
	return &asked{}
}

// observed gives every request its number, and tells the log and the telemetry how it was answered.
func (a *API) observed(ctx huma.Context, next func(huma.Context)) {
	began, id, r := time.Now(), telemetry.NewRequest(), &asked{answer: ctx}
	within := a.Telemetry.Trail(telemetry.WithRequest(context.WithValue(ctx.Context(), askedKey{}, r), id))
	ctx.SetHeader(RequestIDHeader, id)
	next(huma.WithContext(ctx, within))
	status := outcome(huma.WithContext(ctx, within))
	operation := ctx.Operation().OperationID
	a.Telemetry.Request(within, telemetry.Request{
		ID: id, Operation: operation, Status: status, Began: began, Stream: r.stream, Identity: r.identity, Cluster: r.cluster,
		Op:     r.op,
		Caller: telemetry.ParseTraceparent(ctx.Header("Traceparent")),
	})
	level := slog.LevelInfo
	if ctx.Method() == http.MethodGet {
		level = slog.LevelDebug
	}
	if !a.Log.Enabled(within, level) {
		return
	}
	// callers who are not known write little into the log, and so do those who are told to wait
	if (r.identity == "" || status == http.StatusTooManyRequests) && level > slog.LevelDebug {
		if yes, _ := a.Shares.lines.Say(ctx.RemoteAddr(), time.Now()); !yes {
			return
		}
	}
	line := []any{"operation", operation, "status", status, "ms",
		float64(time.Since(began).Round(100*time.Microsecond).Microseconds()) / 1000}
	for _, part := range []struct{ name, value string }{{"identity", r.identity}, {"cluster", r.cluster}, {"op", r.op}} {
		if part.value != "" {
			line = append(line, part.name, part.value)
		}
	}
	a.Log.Log(within, level, "answered", line...)
}

// streams tells that the answer to a request lasts, until what it returns is called.
func (a *API) streams(ctx context.Context, operation string) (closed func()) {
	askedOf(ctx).stream = true
	return a.Telemetry.Stream(operation)
}

// logged logs why a request failed that the client is told no reason of, and gives the client the number to ask with.
func (a *API) logged(ctx huma.Context, _ string, answer any) (any, error) {
	if p, ok := answer.(*apiv1.Problem); ok && p.Cause != nil {
		a.Log.ErrorContext(ctx.Context(), "a request failed", "operation", ctx.Operation().OperationID, "error", p.Cause)
		told := *p
		told.Detail = fmt.Sprintf("something went wrong in the controller (its log says what, of request %s)",
			telemetry.RequestOf(ctx.Context()))
		return &told, nil
	}
	return answer, nil
}

// followed makes a plan's admission a part of its request's trace.
func (a *API) followed(plan func(context.Context, *core.Tx) (*admission.Plan,
	error)) func(context.Context, *core.Tx) (*admission.Plan, error) {
	return func(ctx context.Context, tx *core.Tx) (*admission.Plan, error) {
		ended := a.Telemetry.Part(ctx, "admission")
		p, err := plan(ctx, tx)
		ended(err)
		return p, err
	}
}
