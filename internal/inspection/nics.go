package inspection

import (
	"context"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"muster/internal/inventory"
	"muster/internal/inventory/hardware"
	"muster/internal/kit/clock"
)

// carrierLimit is how long a link may take from being brought up until it has a carrier.
const carrierLimit = 3 * time.Second

// Hardware types of NICs (include/uapi/linux/if_arp.h).
const (
	hardwareEthernet   = 1
	hardwareInfiniBand = 32
)

// nicNames are the machine's physical network interfaces.
func (m *machine) nicNames() []string {
	var names []string
	for _, name := range m.Names("sys/class/net") {
		dir := "sys/class/net/" + name
		kind := m.Number(0, dir, "type")
		physical := m.Exists(dir, "device") && !m.Exists(dir, "device/physfn")
		if physical && (kind == hardwareEthernet || kind == hardwareInfiniBand) {
			names = append(names, name)
		}
	}
	return names
}

// bringNICsUp brings all NICs up: a NIC that is down has no carrier to tell of.
func (m *machine) bringNICsUp() {
	for _, name := range m.nicNames() {
		if err := m.options.LinkUp(name); err != nil {
			m.logf("bring up %s: %v", name, err)
		}
	}
}

func linkUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// awaitCarriers waits until each NIC has a carrier, for what is left of 3 s since they were brought up: cables are
// missing as a rule, so it often waits to the end.
func (m *machine) awaitCarriers(ctx context.Context, since time.Time) {
	const look = 100 * time.Millisecond
	for time.Since(since) < carrierLimit {
		missing := false
		for _, name := range m.nicNames() {
			missing = missing || !m.carrier(name)
		}
		if !missing || clock.Sleep(ctx, look) != nil {
			return
		}
	}
}

func (m *machine) carrier(name string) bool {
	return m.Number(0, "sys/class/net", name, "carrier") == 1
}

func (m *machine) nics() []inventory.NIC {
	var nics []inventory.NIC
	for _, name := range m.nicNames() {
		dir := "sys/class/net/" + name
		pci := hardware.Address(m.Real(dir, "device")) // which a virtual NIC's own device lies behind
		n := inventory.NIC{
			Name:   name,
			MAC:    strings.ToLower(m.Text(dir, "address")),
			Driver: m.Linked(dir, "device/driver"),
			PCI:    pci,
			NUMA:   int(m.Number(-1, "sys/bus/pci/devices", pci, "numa_node")),
			Up:     m.carrier(name),
		}
		if n.Up {
			n.SpeedMbps = int(max(0, m.Number(0, dir, "speed"))) // -1 and errors: not known
		}
		nics = append(nics, n)
	}
	return nics
}
