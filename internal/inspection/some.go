package inspection

import (
	"context"
	"fmt"
	"io"
	"slices"

	"muster/internal/inventory"
	"muster/internal/protocol"
)

// EraseDisks erases disks of this machine, by the kernel's names, and proves it: a receipt each. shared says that the
// disks beside them are in use: then only what is confined to a disk is done to it, and no command to its controller.
func EraseDisks(ctx context.Context, names []string, shared bool, console io.Writer, o Options) []protocol.Erased {
	m := newMachine(o, console)
	methods := ladder()
	if shared {
		methods = confined(methods)
	}
	var receipts []protocol.Erased
	for _, name := range names {
		d, ok := m.disk(name)
		if !ok || d.remote {
			receipts = append(receipts, protocol.Erased{Disk: name, Error: fmt.Sprintf("%s is no disk of this machine's own",
				name)})
			continue
		}
		e := &erasure{machine: m, disk: d, progress: newProgress()}
		receipts = append(receipts, e.run(ctx, methods))
	}
	return receipts
}

// SpareDisks are the machine's own disks that can be written to and that no guest is ever given: NVMe disks are. Their drivers
// are loaded first.
func SpareDisks(ctx context.Context, console io.Writer, o Options) []inventory.Disk {
	m := newMachine(o, console)
	m.loadForDisks(ctx)
	var spare []inventory.Disk
	for _, name := range m.Names("sys/block") {
		if d, ok := m.disk(name); ok && !d.remote && !d.readOnly &&
			slices.Contains([]string{"sata", "sas", "scsi", "virtio"}, d.Bus) {
			spare = append(spare, d.Disk)
		}
	}
	return spare
}

// confined are the methods that reach nothing but what a disk's own addresses reach. A format or a sanitize may reach all
// namespaces of a controller (NVM Express 1.4, 5.23 and 5.24).
func confined(methods []method) []method {
	return slices.DeleteFunc(methods, func(m method) bool { return !m.zeroes })
}
