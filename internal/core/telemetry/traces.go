package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// trail is what was called under one step or request. Its span and theirs are made at its end, when it is known whether
// they are worth keeping: most steps only look, and find nothing to do.
type trail struct {
	mu    sync.Mutex
	calls []called
}

type called struct {
	name         string
	began, ended time.Time
	err          error
}

type trailKey struct{}

// Trail begins one; without traces it returns ctx as it is.
func (t *Telemetry) Trail(ctx context.Context) context.Context {
	if !t.Tracing() {
		return ctx
	}
	return context.WithValue(ctx, trailKey{}, &trail{})
}

// Tracing says whether anybody asked for traces.
func (t *Telemetry) Tracing() bool { return t != nil && t.tracer != nil }

// note adds a call that has ended to the trail, if there is one.
func note(ctx context.Context, name string, began time.Time, err error) {
	if trail, ok := ctx.Value(trailKey{}).(*trail); ok {
		trail.mu.Lock()
		defer trail.mu.Unlock()
		trail.calls = append(trail.calls, called{name, began, time.Now(), err})
	}
}

// Part is a part of a request that is worth a span of its own; it ends when what it returns is called.
func (t *Telemetry) Part(ctx context.Context, name string) (ended func(error)) {
	if !t.Tracing() {
		return func(error) {}
	}
	began := time.Now()
	return func(err error) { note(ctx, name, began, err) }
}

// Traceparent is where a client says its request belongs (W3C Trace Context).
type Traceparent struct{ at trace.SpanContext }

// ParseTraceparent reads the header of that name; what makes no sense is nothing.
func ParseTraceparent(header string) Traceparent {
	if header == "" {
		return Traceparent{}
	}
	carrier := propagation.HeaderCarrier(http.Header{"Traceparent": {header}})
	return Traceparent{trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))}
}

// OpenTraces sends spans to where they go: the URL of an OTLP/HTTP receiver, or the path of a file. Close sends the last.
func (t *Telemetry) OpenTraces(to, service, version string, failed func(error)) error {
	exporter, err := newExporter(to, failed)
	if err != nil {
		return err
	}
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(exporter, sdk.WithBatchTimeout(time.Second)),
		sdk.WithIDGenerator(requestIDs{}),
		sdk.WithSampler(sdk.AlwaysSample()),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "muster"), attribute.String("service.instance.id", service),
			attribute.String("service.version", version),
		)),
	)
	t.tracer, t.flush = provider.Tracer("muster"), provider.Shutdown
	return nil
}

// Close sends the spans that are not sent yet.
func (t *Telemetry) Close(ctx context.Context) error {
	if !t.Tracing() {
		return nil
	}
	return t.flush(ctx)
}

// requestIDs makes the number of a request the ID of its trace, and the first half of it the ID of the request's own span:
// a step that knows the number, on any replica and at any time, can hang its span there.
type requestIDs struct{}

func (requestIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if at, ok := spanOf(RequestOf(ctx)); ok {
		return at.TraceID(), at.SpanID()
	}
	at, _ := spanOf(NewRequest())
	return at.TraceID(), at.SpanID()
}

func (requestIDs) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	at, _ := spanOf(NewRequest())
	return at.SpanID()
}

// spanOf is the span of a request.
func spanOf(request string) (trace.SpanContext, bool) {
	id, err := trace.TraceIDFromHex(request)
	if err != nil {
		return trace.SpanContext{}, false
	}
	at := trace.SpanContextConfig{TraceID: id, TraceFlags: trace.FlagsSampled, Remote: true}
	copy(at.SpanID[:], id[:])
	context := trace.NewSpanContext(at)
	return context, context.IsValid()
}

// stepSpan keeps a step that changed something, failed, or did more than look.
func (t *Telemetry) stepSpan(ctx context.Context, s Step) {
	if !t.Tracing() {
		return
	}
	var calls []called
	if trail, ok := ctx.Value(trailKey{}).(*trail); ok {
		calls = trail.calls
	}
	acted := false
	for _, c := range calls {
		acted = acted || !strings.HasSuffix(c.name, " observe") && !strings.HasSuffix(c.name, " rest")
	}
	if s.Result == Waits && !acted {
		return
	}
	if at, ok := spanOf(s.Request); ok {
		ctx = trace.ContextWithRemoteSpanContext(ctx, at)
	}
	attributes := texts("cluster", s.Cluster, "node", s.Node, "machine", s.Machine, "op", s.Op, "from", s.From, "to", s.To,
		"result", s.Result, "cause", s.Cause)
	attributes = append(attributes, attribute.Int64("muster.fence", s.Fence))
	t.span(ctx, trace.SpanKindInternal, s.Kind+" "+s.From, s.Began, s.Err, calls, trace.WithAttributes(attributes...))
}

func (t *Telemetry) requestSpan(ctx context.Context, r Request) {
	if !t.Tracing() {
		return
	}
	var calls []called
	if trail, ok := ctx.Value(trailKey{}).(*trail); ok {
		calls = trail.calls
	}
	options := []trace.SpanStartOption{
		trace.WithAttributes(texts("identity", r.Identity, "cluster", r.Cluster, "op", r.Op)...),
		trace.WithAttributes(attribute.Int("http.response.status_code", r.Status)),
	}
	if r.Caller.at.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: r.Caller.at}))
	}
	var err error
	if r.Status >= http.StatusInternalServerError {
		err = fmt.Errorf("answered %d", r.Status)
	}
	t.span(WithRequest(ctx, r.ID), trace.SpanKindServer, r.Operation, r.Began, err, calls, options...)
}

// span writes one with those of its calls below it.
func (t *Telemetry) span(ctx context.Context, kind trace.SpanKind, name string, began time.Time, err error, calls []called,
	options ...trace.SpanStartOption) {
	ctx, whole := t.tracer.Start(ctx, name, append(options, trace.WithTimestamp(began), trace.WithSpanKind(kind))...)
	for _, c := range calls {
		_, part := t.tracer.Start(ctx, c.name, trace.WithTimestamp(c.began))
		end(part, c.err, c.ended)
	}
	end(whole, err, time.Now())
}

func end(s trace.Span, err error, at time.Time) {
	if err != nil {
		s.SetStatus(codes.Error, err.Error())
	}
	s.End(trace.WithTimestamp(at))
}

// texts are attributes of pairs of name and value, empty ones left out.
func texts(pairs ...string) []attribute.KeyValue {
	var all []attribute.KeyValue
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			all = append(all, attribute.String("muster."+pairs[i], pairs[i+1]))
		}
	}
	return all
}
