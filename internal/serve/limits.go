package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"muster/internal/door/agents"
	"muster/internal/drivers"
	"muster/internal/kit/limit"
	"muster/internal/monitor"
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
func (k *controller) socket() string { return filepath.Join(k.dir.Sockets(), k.owner+".sock") }

// control is where root on this host reaches this replica, whatever happens at the API's address.
func (k *controller) control() string { return filepath.Join(k.dir.Controls(), k.owner+".sock") }

// serveHost lets the agents of this host's nodes in.
func (k *controller) serveHost(ctx context.Context, l net.Listener, h http.Handler) error {
	config, err := k.authority.ServerTLS(time.Now())
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return k.doors.Limiter(l, k.budget.AgentsLimits("host")).Serve(ctx, config, h)
}

// agentDoors are those of agents on other hosts.
func (k *controller) agentDoors(watch *monitor.Monitor) *agents.Doors {
	return agents.New(agents.Config{
		DB: k.db, Authority: k.authority, Monitor: watch, Files: agents.NewFiles(k.images, k.Binary),
		Firmware: []string{k.dir.Path("ipxe"), "/usr/lib/ipxe"}, Switches: drivers.Switches(), Clusters: k.shared,
		Limits: k.doors, Budget: k.budget, Log: k.Log, Telemetry: k.telemetry,
	})
}
