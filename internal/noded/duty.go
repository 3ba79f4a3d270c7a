package noded

import (
	"context"
	"errors"

	"muster/internal/inspection"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// wake makes a machine of the node's own ready for it; elsewhere somebody else has.
func (n *node) wake(ctx context.Context) error {
	if !n.boot.OwnKernel() {
		close(n.driven)
		return nil
	}
	if out, err := n.deps.openConsole(); err == nil {
		n.console.move(out)
	}
	n.deps.machine.wake(ctx, n.boot.Name, n.console.printf)
	if n.boot.Duty == protocol.Host {
		if err := n.deps.machine.bridge(); err != nil {
			return err
		}
	}
	n.tasks.Go(func() { n.deps.machine.keepLease(ctx, n.console.printf) })
	if n.boot.Duty != protocol.ServeNode && n.boot.Duty != protocol.Host {
		return nil // an inspection loads drivers itself, and needs no cluster
	}
	n.tasks.Go(func() {
		defer close(n.driven)
		n.deps.machine.drivers(ctx, n.console.printf)
	})
	if n.boot.Attachment == nil {
		return nil
	}
	if err := n.deps.machine.attach(*n.boot.Attachment); err != nil {
		return err
	}
	if err := n.deps.machine.mountCPUSets(); err != nil {
		n.console.printf("%v; tasks are bound to CPUs, but no program is kept from binding itself to others", err)
	}
	if n.boot.Attachment.Home != "" {
		return nil // see provideHome
	}
	return n.deps.machine.mountHome("")
}

// inspect returns when the controller has what was found.
func (n *node) inspect(ctx context.Context) error {
	return inspection.Run(ctx, n.controller, n.console, n.inspector())
}

// enrol offers a machine that the controller does not know. It has no token, and speaks to the boot services.
func (n *node) enrol(ctx context.Context) error {
	line, err := n.system.disk.read("/proc/cmdline")
	if err != nil {
		return err
	}
	server := protocol.BootArgument(line, "muster.server")
	if server == "" {
		return errors.New("the kernel's command line names no boot services: muster.server=http://…")
	}
	return wrap.Errorf(inspection.Enrol(ctx, server, n.console, n.inspector()), "enrol")
}

func (n *node) inspector() inspection.Options {
	return inspection.Options{Tools: n.deps.processes, Refused: ErrRefused}
}
