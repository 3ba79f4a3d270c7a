// Package spool is a toy scheduler, in one folder: what a new scheduler has to say of itself. A daemon on the head takes
// scripts out of a folder of /home, in the order of their names, and runs each on the first node that is not drained. A drain
// is a file.
package spool

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/noded/protocol"
)

const (
	daemon = "spooler"
	nodes  = "/var/lib/spool/nodes" // a line for each node that may be used
	drains = "/var/lib/spool/drained/"
	loop   = `while sleep 1; do for s in /home/.spool/*; do [ -f "$s" ] || continue; for n in $(cat ` + nodes + `); do
[ -e ` + drains + `$n ] || { mv "$s" "$s.taken" && ssh "$n" sh <"$s.taken"; break; }; done; done; done`
)

// Factory describes the driver.
func Factory() scheduler.Factory {
	return scheduler.Factory{
		Name: "spool", Title: "Spool",
		Caps:  scheduler.Capabilities{Jobs: true, Controller: daemon},
		Words: scheduler.JobWords("Spool"),
		Open:  func(h scheduler.Host) scheduler.Driver { return driver{h, &jobs{}} },
	}
}

type driver struct {
	host scheduler.Host
	*jobs
}

func (d driver) Prepare(*protocol.Config) error { return d.host.Files.Directory(drains, 0o755, "") }

func (d driver) Apply(c *protocol.Config) (restart []string, err error) {
	var list strings.Builder
	for _, p := range c.Peers {
		if p.Role == protocol.Compute && p.Ready {
			fmt.Fprintln(&list, p.Name)
		}
	}
	_, err = d.host.Files.Write(nodes, []byte(list.String()), 0o644, "")
	return nil, err
}

func (d driver) Daemons(c *protocol.Config) []scheduler.Daemon {
	if c.Self.Role != protocol.Head {
		return nil
	}
	return []scheduler.Daemon{{Name: daemon, Argv: []string{"/bin/sh", "-c", loop}, Wait: d.host.Home}}
}

func (d driver) Checks(c *protocol.Config) []scheduler.Check {
	if c.Self.Role != protocol.Head {
		return nil
	}
	return []scheduler.Check{{Name: daemon, Every: time.Second}} // set by the head's look
}

func (driver) Settled(ctx context.Context) error { return ctx.Err() }

func (d driver) Observe(context.Context) (v scheduler.View, err error) {
	if !d.host.Running(daemon) {
		return v, scheduler.ErrStarting
	}
	list, err := d.host.Files.Read(nodes)
	for _, name := range strings.Fields(list) {
		state := protocol.NodeFree
		if d.host.Files.Exists(drains + name) {
			state = protocol.NodeDrained
		}
		v.Nodes = append(v.Nodes, protocol.NodeState{Name: name, State: state, Responding: true, Raw: string(state)})
	}
	return v, err
}

func (d driver) Drain(_ context.Context, node, reason string) error {
	_, err := d.host.Files.Write(drains+node, []byte(reason), 0o644, "")
	return err
}

func (d driver) Resume(_ context.Context, node string) error {
	return os.RemoveAll(d.host.Files.Path(drains + node))
}

func (d driver) Remove(ctx context.Context, node string) error { return d.Resume(ctx, node) }

func (driver) End(_ context.Context, job int) error {
	return fmt.Errorf("job %d: jobs of a spool have no numbers", job)
}
