package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"muster/internal/kit/limit"
)

// openLimits divides the process's file descriptors among the doors.
func (k *controller) openLimits() error {
	files, err := limit.Raise()
	if err != nil {
		return err
	}
	k.budget = limit.BudgetOf(files)
	k.doors = limit.NewGroup(k.budget.Agents, k.telemetry)
	if text := k.budget.Few(); text != "" {
		k.Log.Warn(text)
	}
	return nil
}

// gate gives a listener limits of its own.
func (k *controller) gate(l net.Listener, limits limit.Limits) *limit.Limiter {
	return limit.NewGroup(limits.Total, k.telemetry).Limiter(l, limits)
}

// socket is where agents on this host reach this replica.
func (k *controller) socket() string { return filepath.Join(k.dir.sockets(), k.owner+".sock") }

// control is where root on this host reaches this replica, whatever happens at the API's address.
func (k *controller) control() string { return filepath.Join(k.dir.controls(), k.owner+".sock") }

// listenForAgents opens this replica's socket in the directory that nodes see.
func (k *controller) listenForAgents() (net.Listener, error) {
	return listenBeside(k.socket(), "agents")
}

// listenForControl opens this replica's socket in a directory that root alone sees.
func (k *controller) listenForControl() (net.Listener, error) {
	return listenBeside(k.control(), "the administrator of this host")
}

// listenBeside opens a socket. Those beside it, of replicas that are no more, are cleared away.
func listenBeside(path, who string) (net.Listener, error) {
	old, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.sock"))
	if err != nil {
		return nil, err
	}
	for _, path := range old {
		probe, err := net.Dial("unix", path)
		if err != nil {
			_ = os.Remove(path)
			continue
		}
		_ = probe.Close()
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", who, err)
	}
	return l, nil
}

// serveHost lets the agents of this host's nodes in.
func (k *controller) serveHost(ctx context.Context, l net.Listener, h http.Handler) error {
	config, err := k.authority.ServerTLS(time.Now())
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return k.doors.Limiter(l, k.budget.AgentsLimits("host")).Serve(ctx, config, h)
}
