package hostd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"muster/internal/boot/images"
	"muster/internal/drivers/substrate"
	"muster/internal/hostd/calls"
	"muster/internal/inventory"
)

// Settings are what the agent of a host is told when it starts.
type Settings struct {
	Substrates []string // whose nodes the host has; the first makes the networks of clusters, for the others too
	Dir        string   // where each of them has its folder
	Images     string   // the folder of the image store
	Binary     string   // the program that becomes a node's agent
	Sockets    string   // where agents of nodes on this host find the controllers
	Host       substrate.Host
	// What the site file says of nodes on hosts, and of the disks that they write on: see inventory.Catalogue.
	Home, Layers, Reserve int64
	Nodes                 inventory.Nodes
	LogLevel              slog.Level
	LogJSON               bool
}

// Agent is the drivers of this host, as controllers call them.
type Agent struct {
	opened  map[string]calls.Nodes // by their substrates
	notices *calls.Notices
}

// OpenAgent opens the drivers.
func OpenAgent(ctx context.Context, s Settings, all substrate.Registry, log *slog.Logger) (*Agent, error) {
	store, err := images.Open(s.Images)
	if err != nil {
		return nil, err
	}
	a := &Agent{map[string]calls.Nodes{}, calls.NewNotices()}
	env := substrate.Env{
		Binary: s.Binary, Sockets: s.Sockets, Log: log, Notices: a.notices, Images: Stored{store}, Host: s.Host,
		Site: inventory.Catalogue{HomeBytes: s.Home, Layers: s.Layers, Reserve: s.Reserve, Nodes: s.Nodes},
	}
	for _, name := range s.Substrates {
		f, found := all.Find(name)
		if !found {
			return nil, fmt.Errorf("no substrate %q is known here", name)
		}
		env.Dir = f.In(s.Dir)
		opened, err := f.Open(ctx, env)
		if err != nil {
			return nil, err
		}
		nodes, is := opened.(calls.Nodes)
		if !is {
			return nil, fmt.Errorf("substrate %s looks after no machines", name)
		}
		a.opened[name] = nodes
		if made, makes := opened.(substrate.Networks); makes && env.Networks == nil {
			env.Networks = made
		}
	}
	return a, nil
}

// Serve answers calls until the listener says net.ErrClosed, or ctx ends. Nodes go on running.
func (a *Agent) Serve(ctx context.Context, controllers net.Listener) error {
	ctx, end := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer end()
	for _, opened := range a.opened {
		if w, works := opened.(substrate.Worker); works {
			work.Go(func() { w.Work(ctx) })
		}
	}
	server := &http.Server{
		Handler:           calls.Handler(a.opened, a.notices),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(controllers)
	_ = server.Close()
	if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// LevelOf is the lowest level that a log writes.
func LevelOf(ctx context.Context, log *slog.Logger) slog.Level {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		if log.Enabled(ctx, level) {
			return level
		}
	}
	return slog.LevelError
}
