// Package rack is a virtual rack: QEMU machines that are off until somebody wakes them, with NICs, disks, BMCs and
// consoles, in a network namespace of their own. It is for evaluation, training and tests.
//
// What enters: a Shape, which is a number of machines of each kind, and faults on demand. What leaves: a network to boot the
// machines on, a list of them as an operator would get it from a vendor (rack.csv), and answers of BMCs. Nothing of a rack
// outlives Down.
//
// One process owns it all, cmd/muster-rack, which package rackd is; Up starts it in the background. Clients speak to it by a
// socket in the rack's folder (Folder), or as to a real rack: magic packets, IPMI, Redfish, inside the rack's network namespace.
// QEMU, taps and BMCs end with that process, however it ends; what a killed one leaves in its folder, the next Up or Down clears.
package rack

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"muster/internal/inventory"
)

// Shape is what a rack is made of.
type Shape struct {
	Name      string `json:"name"` // of its network; machines are NAME-1, NAME-2 …
	Machines  int    `json:"machines"`
	Firmware  string `json:"firmware"` // bios, uefi, or mixed: by turns
	Power     string `json:"power"`    // wol, ipmi, redfish, or mixed: by turns
	CPUs      int    `json:"cpus"`
	MemoryMiB int    `json:"memory_mib"`
	Disks     int    `json:"disks"`
	DiskMiB   int    `json:"disk_mib"`
	DiskKind  string `json:"disk_kind"` // virtio or nvme
	NICs      int    `json:"nics"`
	Accel     string `json:"accel"` // kvm, tcg, or auto: KVM if it works here
}

// What a Shape's words may be.
const (
	BIOS    = "bios"
	UEFI    = "uefi"
	WoL     = "wol"
	IPMI    = "ipmi"
	Redfish = "redfish"
	Mixed   = "mixed"
	Virtio  = "virtio"
	NVMe    = "nvme"
	KVM     = "kvm"
	TCG     = "tcg"
	Auto    = "auto"
)

// Firmwares, Powers, DiskKinds and Accels are the words that a Shape may hold.
func Firmwares() []string { return []string{BIOS, UEFI, Mixed} }

// Powers is described at Firmwares.
func Powers() []string { return []string{WoL, IPMI, Redfish, Mixed} }

// DiskKinds is described at Firmwares.
func DiskKinds() []string { return []string{Virtio, NVMe} }

// Accels is described at Firmwares.
func Accels() []string { return []string{Auto, KVM, TCG} }

// most machines of a rack: their numbers fit into the last byte of a BMC's address.
const most = 250

// Validate says what is wrong with a shape, in the words of the command line's options.
func (s Shape) Validate() error {
	if !regexp.MustCompile(`^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$`).MatchString(s.Name) {
		return fmt.Errorf("name: %q; use lower-case letters, digits and -, at most 32", s.Name)
	}
	for _, n := range []struct {
		what       string
		have       int
		least, top int
	}{
		{"machines", s.Machines, 1, most}, {"cpus", s.CPUs, 1, 255}, {"memory (MiB)", s.MemoryMiB, 64, 1 << 20},
		{"disks", s.Disks, 0, 8}, {"disk size (MiB)", s.DiskMiB, 1, 16 << 20}, {"nics", s.NICs, 1, 8},
	} {
		if n.have < n.least || n.have > n.top {
			return fmt.Errorf("%s: %d; use %d to %d", n.what, n.have, n.least, n.top)
		}
	}
	for _, w := range []struct {
		what, have string
		may        []string
	}{{"firmware", s.Firmware, Firmwares()}, {"power", s.Power, Powers()}, {"disk kind", s.DiskKind, DiskKinds()},
		{"accel", s.Accel, Accels()}} {
		if !slices.Contains(w.may, w.have) {
			return fmt.Errorf("%s: %q; use %s", w.what, w.have, strings.Join(w.may, ", "))
		}
	}
	return nil
}

// Machine is one machine of a rack as it was built; nothing of it changes.
type Machine struct {
	Number   int        `json:"number"` // from 1
	Name     string     `json:"name"`
	Firmware string     `json:"firmware"`
	Power    string     `json:"power"`
	MACs     []string   `json:"macs"`
	Ports    []string   `json:"ports"`        // of the rack's switch, one for each of MACs
	BMC      netip.Addr `json:"bmc,omitzero"` // in the rack's namespace; zero without one
}

// Plan lists the machines of a shape.
func (s Shape) Plan() []Machine {
	turn := func(word string, of []string, i int) string {
		if word == Mixed {
			return of[i%(len(of)-1)] // mixed is the last one
		}
		return word
	}
	var machines []Machine
	for i := range s.Machines {
		m := Machine{
			Number: i + 1, Name: fmt.Sprintf("%s-%d", s.Name, i+1),
			Firmware: turn(s.Firmware, Firmwares(), i), Power: turn(s.Power, Powers(), i),
		}
		for nic := range s.NICs {
			// 52:54:00 is the prefix of QEMU's machines.
			m.MACs = append(m.MACs, fmt.Sprintf("52:54:00:%02x:%02x:%02x", m.Number>>8, m.Number&0xff, nic))
			m.Ports = append(m.Ports, fmt.Sprintf("m%dn%d", m.Number, nic))
		}
		if m.Power != WoL {
			m.BMC = netip.AddrFrom4([4]byte{10, 79, 0, byte(m.Number)})
		}
		machines = append(machines, m)
	}
	return machines
}

// Control is the machine's power control as inventory.Power has it; certificate is the hexadecimal SHA-256 of that which
// the BMCs show.
func (m Machine) Control(certificate string) string {
	switch m.Power {
	case IPMI:
		return "ipmi://" + m.BMC.String()
	case Redfish:
		return fmt.Sprintf("redfish://%s/redfish/v1/Systems/%s?certificate=sha256:%s", m.BMC, m.Name, certificate)
	}
	return WoL
}

// Bridge is the switch of a rack, in its network namespace.
const Bridge = "br0"

// Network is where the machines of the rack boot, by the name of its shape, as a controller on this host sees it.
func (f Folder) Network(name string) inventory.Network {
	return inventory.Network{
		Name: name, Namespace: f.Netns(), Interface: Bridge, Address: netip.MustParsePrefix("10.78.0.1/16"),
		Mode: inventory.ModeOwn, First: netip.MustParseAddr("10.78.0.10"), Last: netip.MustParseAddr("10.78.255.250"),
		Unknown: inventory.UnknownEnrol, Switch: "bridge",
	}
}

// List is the rack as `machines import` reads it: a line a machine below a heading.
func List(network, credentials, certificate string, machines []Machine) []byte {
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	_ = w.Write([]string{"name", "macs", "network", "power", "credentials", "ports"}) // a bytes.Buffer takes all
	for _, m := range machines {
		reference := ""
		if m.Power != WoL {
			reference = "file:" + credentials
		}
		_ = w.Write([]string{m.Name, strings.Join(m.MACs, " "), network, m.Control(certificate), reference,
			strings.Join(m.Ports, " ")})
	}
	w.Flush()
	return text.Bytes()
}
