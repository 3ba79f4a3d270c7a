package limit

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	mostHeaders = 64 << 10
	mostStreams = 100              // of one connection of HTTP/2
	piece       = 256 << 10        // bytes that are written under one deadline
	leftOver    = time.Second      // for the rest of a body that the handler did not read
	lastFlush   = 10 * time.Second // for what of an answer is still in a buffer when it is done
)

// Server answers at the gate, within its limits. Handlers may take as long as they like, and stream for ever to those who
// take what they are sent.
func (g *Limiter) Server(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler: g.limits.paced(h), ReadHeaderTimeout: g.limits.Header, IdleTimeout: g.limits.Idle, MaxHeaderBytes: mostHeaders,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: mostStreams, WriteByteTimeout: g.limits.Stall, SendPingTimeout: g.limits.Stall,
			PingTimeout: g.limits.Header,
		},
		ConnState:   changed,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if ours := connOf(c); ours != nil {
				ctx = context.WithValue(ctx, connKey{}, ours)
			}
			if g.Context != nil {
				ctx = g.Context(ctx, c)
			}
			return ctx
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // every client that goes away in the middle
	}
}

// Serve answers until ctx ends, over TLS where there is a config; then it gives running requests a moment and cuts the rest.
func (g *Limiter) Serve(ctx context.Context, config *tls.Config, h http.Handler) error {
	s := g.Server(ctx, h)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if s.Shutdown(limited) != nil {
			_ = s.Close()
		}
	}()
	var l net.Listener = g
	if config != nil {
		l = tls.NewListener(g, config)
	}
	err := s.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
		<-stopped
	}
	return err
}

// paced gives bodies and answers their deadlines.
func (l Limits) paced(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		answer := &answer{ResponseWriter: w, control: control, stall: l.Stall}
		var given *body
		if r.Body != nil && r.Body != http.NoBody {
			given = &body{ReadCloser: r.Body, control: control, stall: l.Stall}
			if l.Body > 0 {
				given.end = time.Now().Add(l.Body)
			}
			given.extend()
			r.Body = given
		}
		h.ServeHTTP(answer, r)
		// What follows is the server's: it sends what is in its buffers, and reads a little of a body that is left.
		_ = control.SetWriteDeadline(time.Now().Add(lastFlush)) // fails for connections that were taken over: they are not ours
		if given != nil && !given.done {
			_ = control.SetReadDeadline(time.Now().Add(leftOver))
		}
	})
}

// body is a request's, which must come in time.
type body struct {
	io.ReadCloser
	control *http.ResponseController
	stall   time.Duration
	end     time.Time // of the whole; zero: none
	done    bool
}

// TakeLong lets a request's body take as long as a part of it comes in time.
func TakeLong(r *http.Request) {
	if b, is := r.Body.(*body); is {
		b.end = time.Time{}
	}
}

func (b *body) extend() {
	until := b.end
	if until.IsZero() {
		until = time.Now().Add(b.stall)
	}
	_ = b.control.SetReadDeadline(until)
}

func (b *body) Read(into []byte) (int, error) {
	if b.end.IsZero() && !b.done {
		b.extend()
	}
	n, err := b.ReadCloser.Read(into)
	if err != nil && !b.done {
		b.done = true
		if errors.Is(err, io.EOF) {
			// The server now watches whether the client goes. Its time is the handler's: if the deadline passed, that would
			// look as if the client had gone.
			_ = b.control.SetReadDeadline(time.Time{})
		}
	}
	return n, err
}

// answer is a response that goes on as long as the client takes a piece of it in time, however long it is.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader sends informational answers at once; there may be any number of them.
func (a *answer) WriteHeader(status int) {
	if status < http.StatusOK {
		_ = a.control.SetWriteDeadline(time.Now().Add(a.stall))
		defer func() { _ = a.control.SetWriteDeadline(time.Time{}) }()
	}
	a.ResponseWriter.WriteHeader(status)
}

// Flush sends what has been written.
func (a *answer) Flush() {
	_ = a.control.SetWriteDeadline(time.Now().Add(a.stall))
	_ = a.control.Flush() // an error shows at the next Write
}

func (a *answer) Write(text []byte) (total int, err error) {
	for first := true; first || len(text) > 0; first = false {
		part := text[:min(len(text), piece)]
		_ = a.control.SetWriteDeadline(time.Now().Add(a.stall))
		n, err := a.ResponseWriter.Write(part)
		total += n
		if err != nil {
			return total, err
		}
		text = text[len(part):]
	}
	return total, nil
}
