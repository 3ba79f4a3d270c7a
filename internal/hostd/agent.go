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
	Substrate string // whose nodes the host has
	Dir       string // its folder
	Images    string // the folder of the image store
	Binary    string // the program that becomes a node's agent
	Sockets   string // where agents of nodes on this host find the controllers
	// What the site file says of nodes on hosts, and of the disks that they write on: see inventory.Catalogue.
	Home, Layers, Reserve int64
	Nodes                 inventory.Nodes
	LogLevel              slog.Level
	LogJSON               bool
}

// Agent is the drivers of this host, as controllers call them.
type Agent struct {
	host    calls.Host
	notices *calls.Notices
}

// OpenAgent opens the drivers.
func OpenAgent(ctx context.Context, s Settings, all substrate.Registry, log *slog.Logger) (*Agent, error) {
	f, found := all.Find(s.Substrate)
	if !found {
		return nil, fmt.Errorf("no substrate %q is known here", s.Substrate)
	}
	store, err := images.Open(s.Images)
	if err != nil {
		return nil, err
	}
	notices := calls.NewNotices()
	opened, err := f.Open(ctx, substrate.Env{
		Dir: s.Dir, Binary: s.Binary, Sockets: s.Sockets, Log: log, Notices: notices, Images: Stored{store},
		Site: inventory.Catalogue{HomeBytes: s.Home, Layers: s.Layers, Reserve: s.Reserve, Nodes: s.Nodes},
	})
	if err != nil {
		return nil, err
	}
	host, is := opened.(calls.Host)
	if !is {
		return nil, fmt.Errorf("substrate %s says that the agent of a host opens it, and is not all that such an agent does", f.Name)
	}
	return &Agent{host, notices}, nil
}

// Serve answers calls until the listener says net.ErrClosed, or ctx ends. Nodes go on running.
func (a *Agent) Serve(ctx context.Context, controllers net.Listener) error {
	ctx, end := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer end()
	if w, works := a.host.(substrate.Worker); works {
		work.Go(func() { w.Work(ctx) })
	}
	server := &http.Server{
		Handler:           calls.Handler(a.host, a.notices),
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
