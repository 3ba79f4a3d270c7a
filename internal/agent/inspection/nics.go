package inspection

import (
	"context"
	"path"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"muster/internal/inventory"
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
	for _, name := range m.names("sys/class/net") {
		dir := "sys/class/net/" + name
		kind := m.number(0, dir, "type")
		physical := m.exists(dir, "device") && !m.exists(dir, "device/physfn")
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
		if !missing || !sleep(ctx, look) {
			return
		}
	}
}

func (m *machine) carrier(name string) bool {
	return m.number(0, "sys/class/net", name, "carrier") == 1
}

func (m *machine) nics() []inventory.NIC {
	var nics []inventory.NIC
	for _, name := range m.nicNames() {
		dir := "sys/class/net/" + name
		n := inventory.NIC{
			Name:   name,
			MAC:    strings.ToLower(m.text(dir, "address")),
			Driver: m.linked(dir, "device/driver"),
			PCI:    pciAddress(m.real(dir, "device")),
			NUMA:   int(m.number(-1, dir, "device/numa_node")),
			Up:     m.carrier(name),
		}
		if n.Up {
			n.SpeedMbps = int(max(0, m.number(0, dir, "speed"))) // -1 and errors: not known
		}
		nics = append(nics, n)
	}
	return nics
}

// pciAddress is the last PCI function on a path in sysfs: "0000:3b:00.0".
func pciAddress(where string) string {
	for ; where != "." && where != "/" && where != ""; where = path.Dir(where) {
		base := path.Base(where)
		if len(base) >= len("0000:00:00.0") && strings.Count(base, ":") == 2 && strings.IndexByte(base, '.') == len(base)-2 {
			return base
		}
	}
	return ""
}

// bootMAC is the NIC that the machine booted from, by the kernel's command line; "" if that does not tell.
func (m *machine) bootMAC() string {
	for word := range strings.FieldsSeq(m.text("proc/cmdline")) {
		if mac, ok := strings.CutPrefix(word, "muster.mac="); ok {
			return strings.ToLower(mac)
		}
	}
	return ""
}
