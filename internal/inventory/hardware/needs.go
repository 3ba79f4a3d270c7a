package hardware

import (
	"strconv"
	"strings"
)

// What a machine needs its own devices for.
const (
	needsRoot       = "root file system"
	needsFiles      = "file system on " // and where
	needsSwap       = "swap"
	needsVolume     = "part of volume " // and which
	needsController = "its link to the controller"
	needsRoute      = "its default route"
	needsAddress    = "an address of its own"
	needsBoard      = "part of its board"
)

// needs says what the machine itself needs PCI functions for, by their addresses. A function that it needs for two things
// is said to be needed for the first of: root, another file system, swap, a volume, its link to the controller, its
// default route, an address. A file system without block devices under it that sysfs tells of, as ZFS, is not seen.
func (t Tree) needs() map[string]string {
	n := needs{t, map[string]string{}, map[string]bool{}}
	for _, m := range mounts(t.ofInit("mountinfo")) {
		if m.point == "/" {
			n.block(m.block(t), needsRoot)
		}
	}
	for _, m := range mounts(t.ofInit("mountinfo")) {
		n.block(m.block(t), needsFiles+m.point)
	}
	for _, uuid := range t.Names("sys/fs/btrfs") { // its mounts name one of its disks only
		for _, name := range t.Names("sys/fs/btrfs", uuid, "devices") {
			n.block(name, needsFiles+"several disks")
		}
	}
	for _, name := range swaps(t.Text("proc/swaps")) {
		n.block(t.blockName(name), needsSwap)
	}
	for _, name := range t.Names("sys/class/block") {
		if over := t.Names("sys/class/block", name, "holders"); len(over) > 0 {
			n.block(name, needsVolume+over[0])
		}
	}
	boot := t.BootMAC()
	for _, name := range t.Names("sys/class/net") {
		if boot != "" && strings.EqualFold(t.Text("sys/class/net", name, "address"), boot) {
			n.link(name, needsController)
		}
	}
	usual, others := routes(t.ofInit("net/route"), t.ofInit("net/ipv6_route"))
	for _, name := range usual {
		n.link(name, needsRoute)
	}
	for _, name := range others {
		n.link(name, needsAddress)
	}
	return n.of
}

// ofInit reads a file of procfs as the first process sees it, whose mounts and network are the machine's; or as this
// process does, where that is not allowed.
func (t Tree) ofInit(file string) string {
	if text := t.Text("proc/1", file); text != "" {
		return text
	}
	return t.Text("proc/self", file)
}

// needs collects what is needed. What lies on others leads down to them; what was looked at once is not again, so that
// no circle holds it.
type needs struct {
	tree Tree
	of   map[string]string // by PCI address
	seen map[string]bool   // "block sda1", "link bond0"
}

// block notes a block device and what is below it: the disk of a partition, the parts of a volume.
func (n needs) block(name, what string) {
	if name == "" || n.seen["block "+name] {
		return
	}
	n.seen["block "+name] = true
	dir := "sys/class/block/" + name
	where := n.tree.Real(dir)
	n.function(Address(where), what)
	for _, part := range n.tree.Names(dir, "slaves") {
		n.block(part, what)
	}
	// A disk with several ways to it belongs to none of its controllers in sysfs, but its subsystem names them.
	if above, below, found := strings.Cut(where, "/nvme-subsystem/"); found {
		subsystem, _, _ := strings.Cut(below, "/")
		for _, controller := range n.tree.Names(above, "nvme-subsystem", subsystem) {
			n.function(Address(n.tree.Real(above, "nvme-subsystem", subsystem, controller)), what)
		}
	}
}

// link notes a network interface and what is below it: the ports of a bridge or a bond.
func (n needs) link(name, what string) {
	if n.seen["link "+name] {
		return
	}
	n.seen["link "+name] = true
	dir := "sys/class/net/" + name
	n.function(Address(n.tree.Real(dir, "device")), what)
	for _, file := range n.tree.Names(dir) {
		if lower, is := strings.CutPrefix(file, "lower_"); is {
			n.link(lower, what)
		}
	}
}

// function notes a PCI function; what was said first stays.
func (n needs) function(address, what string) {
	if address != "" && n.of[address] == "" {
		n.of[address] = what
	}
}

// mount is a line of mountinfo (proc_pid_mountinfo(5)).
type mount struct{ device, point, source string }

// mounts reads mountinfo: number, parent, device, root, mount point, options …, "-", type, source, options.
func mounts(text string) []mount {
	var all []mount
	for line := range strings.Lines(text) {
		place, kind, _ := strings.Cut(line, " - ")
		words, source := strings.Fields(place), strings.Fields(kind)
		if len(words) < 5 || len(source) < 2 {
			continue
		}
		all = append(all, mount{device: words[2], point: unescape(words[4]), source: unescape(source[1])})
	}
	return all
}

// block is the block device of the mount; "" if it has none. A file system over several disks has a device number that
// is no disk's, but names one of them.
func (m mount) block(t Tree) string {
	if name := t.Linked("sys/dev/block", m.device); name != "" {
		return name
	}
	return t.blockName(m.source)
}

// blockName is the kernel's name of a block device that is known by a path: "/dev/mapper/root" is dm-0.
func (t Tree) blockName(file string) string {
	name, is := strings.CutPrefix(file, "/dev/")
	if !is {
		return ""
	}
	if real, is := strings.CutPrefix(t.Real("dev", name), "dev/"); is {
		name = real
	}
	name = strings.ReplaceAll(name, "/", "!") // as sysfs spells it
	if !t.Exists("sys/class/block", name) {
		return ""
	}
	return name
}

// swaps reads the files of proc_swaps(5).
func swaps(text string) []string {
	var files []string
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 && strings.HasPrefix(words[0], "/") {
			files = append(files, unescape(words[0]))
		}
	}
	return files
}

// unescape replaces "\040" and the like, which procfs writes for blanks.
func unescape(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if c, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// routes reads the kernel's tables of routes (proc_pid_net(5)): the interfaces of default routes, and those of IPv4
// routes to anywhere else.
func routes(v4, v6 string) (usual, others []string) {
	const nowhere = "00000000"
	for line := range strings.Lines(v4) {
		// Iface Destination Gateway Flags RefCnt Use Metric Mask …
		switch words := strings.Fields(line); {
		case len(words) < 8 || words[0] == "Iface":
		case words[1] == nowhere && words[7] == nowhere:
			usual = append(usual, words[0])
		default:
			others = append(others, words[0])
		}
	}
	for line := range strings.Lines(v6) {
		// destination, its length, source, its length, next hop, metric, references, use, flags, interface
		words := strings.Fields(line)
		if len(words) == 10 && words[1] == "00" && strings.Trim(words[0], "0") == "" {
			usual = append(usual, words[9])
		}
	}
	return usual, others
}

// BootMAC is the NIC that the machine booted from, by the kernel's command line; "" if that does not tell.
func (t Tree) BootMAC() string {
	for word := range strings.FieldsSeq(t.Text("proc/cmdline")) {
		if mac, is := strings.CutPrefix(word, "muster.mac="); is {
			return strings.ToLower(mac)
		}
	}
	return ""
}
