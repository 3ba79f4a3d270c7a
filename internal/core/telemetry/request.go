package telemetry

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
)

type requestKey struct{}

// NewRequest is a number for a request. It is also the ID of the request's trace.
func NewRequest() string {
	var random [16]byte
	_, _ = rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

// WithRequest says that what happens under ctx is done for a request: events and log lines carry its number.
func WithRequest(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// RequestOf is the number of the request that ctx belongs to, or "".
func RequestOf(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// Lines adds to every line that is logged for a request its number.
func Lines(h slog.Handler) slog.Handler { return lines{h} }

type lines struct{ slog.Handler }

func (l lines) Handle(ctx context.Context, r slog.Record) error {
	if id := RequestOf(ctx); id != "" {
		r.AddAttrs(slog.String("request", id))
	}
	return l.Handler.Handle(ctx, r)
}

func (l lines) WithAttrs(attrs []slog.Attr) slog.Handler { return lines{l.Handler.WithAttrs(attrs)} }

func (l lines) WithGroup(name string) slog.Handler { return lines{l.Handler.WithGroup(name)} }
