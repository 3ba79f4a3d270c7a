// Package spool is a toy scheduler, in one folder: what a new scheduler has to say of itself. A daemon on the head takes
// scripts out of a folder of /home, in the order of their names, and runs each on the first node that is not drained. A drain
// is a file.
package spool

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
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
		Open: func(h scheduler.Host) scheduler.Driver {
			d := driver{h, &jobs{}}
			d.free = d.usable
			return d
		},
	}
}

type driver struct {
	host scheduler.Host
	*jobs
}

func (d driver) Prepare(context.Context, *protocol.Config) error {
	return d.host.Files.Directory(drains, 0o755, "")
}

func (d driver) Apply(c *protocol.Config) ([]scheduler.Stale, error) {
	var list strings.Builder
	for _, p := range c.Peers {
		if p.Role == protocol.Compute && p.Ready {
			fmt.Fprintln(&list, p.Name)
		}
	}
	_, err := d.host.Files.Write(nodes, []byte(list.String()), 0o644, "")
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
	v.Jobs, v.Total = map[string][]scheduler.Job{}, len(d.on(""))
	for _, name := range strings.Fields(list) {
		reason, err := d.host.Files.Read(drains + name)
		if err != nil {
			return v, err
		}
		v.Jobs[name] = d.on(name)
		state := protocol.StateOf(reason != "", len(v.Jobs[name]) > 0)
		v.Nodes = append(v.Nodes, protocol.NodeState{Name: name, State: state, Responding: true, Jobs: len(v.Jobs[name]),
			Reason: reason, Raw: string(state)})
	}
	return v, err
}

// usable is the first node that may be used.
func (d driver) usable() string {
	list, _ := d.host.Files.Read(nodes)
	for _, name := range strings.Fields(list) {
		if !d.host.Files.Exists(drains + name) {
			return name
		}
	}
	return ""
}

func (d driver) Drain(_ context.Context, node, reason string) error {
	_, err := d.host.Files.Write(drains+node, []byte(reason), 0o644, "")
	return err
}

func (d driver) Resume(_ context.Context, node string) error {
	if err := os.RemoveAll(d.host.Files.Path(drains + node)); err != nil {
		return err
	}
	return d.start()
}

// Remove takes a node off the list, and ends its jobs.
func (d driver) Remove(ctx context.Context, node string) error {
	for _, job := range d.on(node) {
		if err := d.End(ctx, job.ID); err != nil {
			return err
		}
	}
	list, err := d.host.Files.Read(nodes)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(strings.Fields(list), func(name string) bool { return name == node })
	if _, err := d.host.Files.Write(nodes, []byte(strings.Join(left, "\n")), 0o644, ""); err != nil {
		return err
	}
	return os.RemoveAll(d.host.Files.Path(drains + node))
}

// End cancels a job: none is queued again.
func (d driver) End(ctx context.Context, job int) error { return d.Cancel(ctx, strconv.Itoa(job)) }
