package calls

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/kit/pipes"
)

// bodyLimit bounds an argument, in bytes. The largest is a node with its boot file.
const bodyLimit = 1 << 20

// Handler answers the calls of controllers by a host's drivers, which are named as their substrates are, and tells them what
// those say. A process that can connect may do all: callers are not identified.
func Handler(opened map[string]Nodes, say *Notices) http.Handler {
	mux := http.NewServeMux()
	takes(routes{mux, ""}, notices, say.tell)
	for name, n := range opened {
		at := routes{mux, name}
		at.nodes(n)
		if h, is := n.(Host); is {
			at.host(h)
		}
		if g, is := n.(Guests); is {
			at.guests(g)
		}
	}
	return mux
}

// routes are the calls of one substrate.
type routes struct {
	mux       *http.ServeMux
	substrate string
}

func (at routes) nodes(n Nodes) {
	does(at, ensure, n.Ensure)
	answers(at, observe, n.Observe)
	does(at, remove, n.Remove)
	answers(at, list, func(ctx context.Context, _ none) ([]substrate.Ref, error) { return n.List(ctx) })
	answers(at, inspect, n.Inspect)
	answers(at, rest, n.EnsureOff)
}

func (at routes) host(h Host) {
	s := &server{Host: h, callers: callers{waiting: map[string]net.Conn{}}}
	does(at, ensureShared, func(ctx context.Context, in sharedIn) error { return h.EnsureShared(ctx, in.Cluster, in.Network) })
	does(at, growHome, func(ctx context.Context, in bytesIn) error { return h.GrowHome(ctx, in.Cluster, in.Bytes) })
	does(at, removeShared, h.RemoveShared)
	answers(at, listShared, func(ctx context.Context, _ none) ([]string, error) { return h.ListShared(ctx) })
	answers(at, size, h.Size)
	does(at, drop, h.Drop)
	answers(at, snapshots, func(ctx context.Context, _ none) ([]string, error) { return h.Snapshots(ctx) })
	does(at, introduce, func(ctx context.Context, in addrIn) error { return h.Introduce(ctx, in.Cluster, in.Address) })
	answers(at, endpoints, func(ctx context.Context, _ none) ([]string, error) { return h.Endpoints(ctx) })
	answers(at, homeUsage, func(ctx context.Context, cluster string) (out usedOut, err error) {
		out.Size, out.Used, err = h.HomeUsage(ctx, cluster)
		return out, err
	})
	answers(at, room, func(ctx context.Context, _ none) (out roomOut, err error) {
		out.Left, out.Full, err = h.Room(ctx)
		return out, err
	})
	answers(at, ownUsers, func(ctx context.Context, _ none) (out ownOut, err error) {
		out.Own, out.Why, err = h.OwnUsers(ctx)
		return out, err
	})
	takes(at, dial, s.dial)
	takes(at, listen, s.listen)
	takes(at, accept, s.accept)
	takes(at, save, func(ctx context.Context, in copyIn) (then, error) {
		return copies(ctx, func(ctx context.Context, progress func(int64) error) (substrate.Saved, error) {
			return h.Save(ctx, in.Cluster, in.Snapshot, progress)
		}), nil
	})
	takes(at, restore, func(ctx context.Context, in restoreIn) (then, error) {
		return copies(ctx, func(ctx context.Context, progress func(int64) error) (none, error) {
			return none{}, h.Restore(ctx, in.Snapshot, in.Cluster, in.Home, progress)
		}), nil
	})
}

// answers registers a call. Its context ends with the connection: then the caller does not wait any more.
func answers[In, Out any](at routes, c call[In, Out], do func(context.Context, In) (Out, error)) {
	at.mux.HandleFunc("POST "+c.path(at.substrate), func(w http.ResponseWriter, r *http.Request) {
		in, ok := argument[In](w, r)
		if !ok {
			return
		}
		write(w, answer(do(r.Context(), in)))
	})
}

// does registers a call whose answer tells nothing.
func does[In any](at routes, c call[In, none], do func(context.Context, In) error) {
	answers(at, c, func(ctx context.Context, in In) (none, error) { return none{}, do(ctx, in) })
}

func argument[In any](w http.ResponseWriter, r *http.Request) (in In, ok bool) {
	// To its end, or the server would not notice that the caller goes.
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	if err == nil {
		err = json.Unmarshal(text, &in)
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("%s: unreadable argument: %v", r.URL.Path, err), http.StatusBadRequest)
	}
	return in, err == nil
}

func write(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what) // who has gone is not to be told
}

// then goes on with a connection that was taken over, and closes it.
type then func(net.Conn, *bufio.Reader)

// takes registers a call that takes its connection over. An error is answered as by any call.
func takes[In, Out any](at routes, c call[In, Out], do func(context.Context, In) (then, error)) {
	at.mux.HandleFunc("POST "+c.path(at.substrate), func(w http.ResponseWriter, r *http.Request) {
		in, ok := argument[In](w, r)
		if !ok {
			return
		}
		goOn, err := do(r.Context(), in)
		if err != nil {
			write(w, answer(none{}, err))
			return
		}
		conn, both, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: muster\r\n\r\n")
		}
		if err != nil {
			goOn(gone{}, nil) // so that it closes what it has
			return
		}
		goOn(conn, both.Reader)
	})
}

// server has what outlives one call.
type server struct {
	Host
	callers callers
}

// dial joins the caller's connection to one inside a cluster's network.
func (s *server) dial(ctx context.Context, in dialIn) (then, error) {
	inside, err := s.Host.Dial(ctx, in.Cluster, in.To)
	if err != nil {
		return nil, err
	}
	return s.join(ctx, inside), nil
}

// join makes the caller's connection one with another.
func (s *server) join(ctx context.Context, other net.Conn) then {
	return func(conn net.Conn, early *bufio.Reader) {
		_ = pipes.Join(ctx, stream{conn, early}, other) // both ends notice
	}
}

// step is how far a copy is, and what became of it at the end.
type step[Out any] struct {
	Copied int64
	Reply  *reply[Out] `json:",omitempty"`
}

// goOn is the answer to a step.
type goOn struct{ Stop bool }

var errStopped = errors.New("called off by the controller")

// tellEvery is how often a copy tells how far it is.
const tellEvery = 100 * time.Millisecond

// copies tells a controller how far a copy is, and asks each time whether to go on.
func copies[Out any](ctx context.Context, do func(context.Context, func(int64) error) (Out, error)) then {
	return func(conn net.Conn, early *bufio.Reader) {
		defer conn.Close()
		tell, hear := json.NewEncoder(conn), json.NewDecoder(stream{conn, early})
		next := time.Now()
		out, err := do(ctx, func(copied int64) error {
			if time.Now().Before(next) {
				return nil
			}
			var say goOn
			err := tell.Encode(step[Out]{Copied: copied})
			if err == nil {
				err = hear.Decode(&say)
			}
			if err == nil && say.Stop {
				err = errStopped
			}
			next = time.Now().Add(tellEvery)
			return err
		})
		last := answer(out, err)
		_ = tell.Encode(step[Out]{Reply: &last}) // who has gone asks again
	}
}
