// Package accelerators looks at a node's GPUs and InfiniBand ports from inside.
//
// What enters: sysfs, procfs and what nvidia-smi prints. What leaves: protocol.GPUFacts and protocol.Port. The kernel's own
// files are read wherever they tell: they are there without any program, and reading them takes no time. Only how
// much memory NVIDIA's GPUs have, and whether they answer, is asked of nvidia-smi, which takes a second.
package accelerators

import (
	"cmp"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"muster/internal/boot/kmod"
	"muster/internal/inventory"
	"muster/internal/inventory/hardware"
	"muster/internal/kit/lists"
	"muster/internal/protocol"
)

const (
	pciDir    = "sys/bus/pci/devices"
	nvidiaDir = "proc/driver/nvidia/gpus"
)

// most of a text from outside goes into a report.
const mostText = 80

// GPUs are those that the node sees, in the order of their PCI addresses. One that its driver does not have is among
// them, without a Device.
func GPUs(t hardware.Tree) []protocol.GPUFacts {
	var found []protocol.GPUFacts
	machine := hardware.Read(t)
	for _, d := range machine.Devices {
		if d.Kind != "gpu" || d.Driver == "vfio-pci" { // which keeps it for a guest
			continue
		}
		gpu := protocol.GPUFacts{PCI: d.PCI, Driver: d.Driver, CPUs: near(machine, d)}
		switch d.Driver {
		case "nvidia":
			nvidia(t, &gpu)
		case "amdgpu", "i915", "xe":
			rendering(t, &gpu)
		default: // none, or one that shows pictures only
			gpu.Lacks = lacking(t, d)
		}
		found = append(found, gpu)
	}
	slices.SortStableFunc(found, func(a, b protocol.GPUFacts) int { return inventory.ComparePCI(a.PCI, b.PCI) })
	return found[:min(len(found), protocol.MostGPUs)]
}

// lacking is the driver that the device needs and that the node's image does not have; "" if it has it.
func lacking(t hardware.Tree, d inventory.Device) string {
	driver := inventory.DriverOf(d)
	if driver == "" {
		return "any driver that is known for it"
	}
	modules, err := kmod.Read(os.DirFS(t.Path("lib/modules", t.Text("proc/sys/kernel/osrelease"))))
	if err != nil {
		return driver // there are no modules at all
	}
	if slices.ContainsFunc(inventory.DriverModules(driver), func(module string) bool { return !modules.Has(module) }) {
		return driver
	}
	return ""
}

// near are the CPUs of the device's NUMA node; "" where there is but one, or it is not known.
func near(f inventory.Facts, d inventory.Device) string {
	node, _ := lists.Find(f.NUMA, func(n inventory.NUMANode) bool { return n.ID == d.NUMA && len(f.NUMA) > 1 })
	return node.CPUs
}

// nvidia reads what NVIDIA's driver tells of a GPU (README of the driver, "The /proc Interface").
func nvidia(t hardware.Tree, g *protocol.GPUFacts) {
	info := parseInformation(t.Text(nvidiaDir, g.PCI, "information"))
	g.Model, g.UUID = short(info["Model"]), short(info["GPU UUID"])
	g.Version = short(t.Text("sys/module/nvidia/version"))
	if minor, err := strconv.ParseUint(info["Device Minor"], 10, 8); err == nil {
		g.Device = "/dev/nvidia" + strconv.FormatUint(minor, 10)
	}
}

// rendering reads what the drivers in Linux's DRM tell of a GPU: its render node is what programs compute by (Linux,
// Documentation/gpu/drm-uapi.rst), and amdgpu has files for model and memory (Documentation/gpu/amdgpu/driver-misc.rst).
func rendering(t hardware.Tree, g *protocol.GPUFacts) {
	for _, name := range t.Names(pciDir, g.PCI, "drm") {
		if number, ok := strings.CutPrefix(name, "renderD"); ok && isNumber(number) {
			g.Device = "/dev/dri/" + name
			break
		}
	}
	g.Model = short(t.Text(pciDir, g.PCI, "product_name"))
	g.UUID = short(t.Text(pciDir, g.PCI, "unique_id"))
	g.MemoryMiB = int(max(0, t.Number(0, pciDir, g.PCI, "mem_info_vram_total")>>20))
	// of the kernel, that it came with
	g.Version = short(cmp.Or(t.Text("sys/module", g.Driver, "version"), t.Text("proc/sys/kernel/osrelease")))
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// parseInformation reads lines like "Device Minor: \t 0".
func parseInformation(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, found := strings.Cut(line, ":"); found {
			fields[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return fields
}

// Ports are those of the node's adapters that do RDMA.
func Ports(t hardware.Tree) []protocol.Port {
	const dir = "sys/class/infiniband"
	var ports []protocol.Port
	for _, device := range t.Names(dir) {
		for _, number := range t.Names(dir, device, "ports") {
			n, err := strconv.ParseUint(number, 10, 8)
			if err != nil || len(ports) == protocol.MostPorts {
				continue
			}
			at := path.Join(dir, device, "ports", number)
			ports = append(ports, protocol.Port{
				Device: short(device), Port: int(n), PCI: hardware.Address(t.Real(dir, device, "device")),
				Layer: short(t.Text(at, "link_layer")), State: capital(state(t.Text(at, "state"))),
				Link: state(t.Text(at, "phys_state")), Rate: short(t.Text(at, "rate")),
				LID: lid(t.Text(at, "lid")), GUID: guid(t.Text(at, "gids/0")), PKeys: pkeys(t, at),
			})
		}
	}
	return ports
}

// state is the word of "4: ACTIVE" (Linux, Documentation/ABI/stable/sysfs-class-infiniband).
func state(text string) string {
	_, word, _ := strings.Cut(text, ":")
	return short(strings.TrimSpace(word))
}

// capital is ACTIVE as Active. Only letters of ASCII change, so that a word never grows.
func capital(word string) string {
	text := []byte(word)
	for i := 1; i < len(text); i++ {
		if 'A' <= text[i] && text[i] <= 'Z' {
			text[i] += 'a' - 'A'
		}
	}
	return string(text)
}

// lid reads "0x1a"; 0 is none, as on Ethernet.
func lid(text string) int {
	n, err := strconv.ParseUint(text, 0, 16)
	if err != nil {
		return 0
	}
	return int(n)
}

// guid is the second half of a port's first GID, "fe80:0000:0000:0000:b83f:d203:00c4:98b4".
func guid(gid string) string {
	words := strings.Split(gid, ":")
	if len(words) != 8 {
		return ""
	}
	return short(strings.Join(words[4:], ":"))
}

// pkeys are the partitions that the port is a member of.
func pkeys(t hardware.Tree, port string) []string {
	var keys []string
	for _, index := range t.Names(port, "pkeys") {
		key, err := strconv.ParseUint(t.Text(port, "pkeys", index), 0, 16)
		if err == nil && key != 0 && len(keys) < protocol.MostPKeys {
			keys = append(keys, "0x"+strconv.FormatUint(key|1<<16, 16)[1:])
		}
	}
	return keys
}

// short keeps a text from outside printable and bounded.
func short(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return -1
		}
		return r
	}, text)
	if len(text) > mostText {
		text = strings.ToValidUTF8(text[:mostText], "")
	}
	return text
}
