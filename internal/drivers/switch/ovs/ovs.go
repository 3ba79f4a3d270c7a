// Package ovs isolates machines whose network's switch is Open vSwitch on the controller's host.
//
// What enters: segments and ports, as package switch describes them. What leaves: transactions for the vSwitch's database (OVSDB,
// RFC 7047), and which ports are where.
package ovs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"

	switches "muster/internal/drivers/switch"
	"muster/internal/drivers/switch/uplink"
	"muster/internal/inventory"
	"muster/internal/kit/lists"
	"muster/internal/kit/netns"
	"muster/internal/kit/pattern"
	"muster/internal/kit/wrap"
)

// database is where Debian's Open vSwitch has its own.
const database = "unix:/run/openvswitch/db.sock"

// databaseForm is one socket of this host: Open vSwitch's programs take several places, hosts among them, with commas between.
var databaseForm = pattern.New(`^unix:(/[A-Za-z0-9_@+=-][A-Za-z0-9._@+=-]*)+$`)

// Factory declares the driver.
func Factory() switches.Factory {
	return switches.Factory{
		Name: "ovs", Isolates: true, Database: database,
		Check: func(n inventory.Network) error {
			switch {
			case n.SwitchBridge == "":
				return errors.New("switch_bridge: missing; say which bridge of Open vSwitch has the machines' ports")
			case !databaseForm.MatchString(n.SwitchDatabase):
				return fmt.Errorf("switch_database: %q; use unix:/PATH, as in %s", n.SwitchDatabase, database)
			}
			return nil
		},
		Open: func(n inventory.Network) switches.Switch {
			return ovs{Uplink: uplink.Uplink{Namespace: n.Namespace, Common: n.Interface}, bridge: n.SwitchBridge,
				database: n.SwitchDatabase}
		},
	}
}

// ovs is Open vSwitch on the controller's host, with any of its datapaths. A port is in the segment whose VLAN it is an
// access port of; those of the common one are protected from each other (ovs-vswitchd.conf.db(5), Port, "tag" and
// "protected"). Each segment's bridge of the uplink has a cable to an access port of the same VLAN.
type ovs struct {
	uplink.Uplink
	bridge   string
	database string
}

// VLANs of segments; clusters' are their numbers.
const (
	vlanCommon  = 4094
	vlanHosts   = 4093
	lastCluster = 4092
	vlanNone    = 4095 // reserved by IEEE 802.1Q: no frame is in it
)

// vlan is a segment's VLAN.
func vlan(s switches.Segment) (int, error) {
	switch {
	case s == switches.Common:
		return vlanCommon, nil
	case s == switches.Hosts:
		return vlanHosts, nil
	case s > 0 && s <= lastCluster:
		return int(s), nil
	}
	return 0, fmt.Errorf("%s has no VLAN: there are %d for clusters, and each takes the lowest number that is free; delete "+
		"clusters that nobody needs", s, lastCluster)
}

// segmentOf is the segment of an access port.
func segmentOf(p ovsPort) switches.Segment {
	switch {
	case p.mode != "" && p.mode != "access" || p.protected != (p.tag == vlanCommon):
		return switches.Nowhere
	case p.tag == vlanCommon:
		return switches.Common
	case p.tag == vlanHosts:
		return switches.Hosts
	case p.tag >= 1 && p.tag <= lastCluster:
		return switches.Segment(p.tag)
	}
	return switches.Nowhere
}

// tell runs ovs-vsctl, which does all that it is told in one transaction and returns when the switch has taken it over.
func (o ovs) tell(ctx context.Context, args ...string) ([]byte, error) {
	return o.run(ctx, "ovs-vsctl", append([]string{"--db=" + o.database, "--timeout=20"}, args...)...)
}

// daemon speaks to ovs-vswitchd, whose socket lies beside the database's.
func (o ovs) daemon(ctx context.Context, args ...string) ([]byte, error) {
	return o.run(ctx, "ovs-appctl", append([]string{"--timeout=20", "-t", "ovs-vswitchd"}, args...)...)
}

// ofTheSystem refuses a socket that a user of this host may have put there: who answers it says what the switch is.
func ofTheSystem(socket string) error {
	const firstUser = 1000 // Debian Policy, section 9.2.2
	for _, p := range []string{filepath.Dir(socket), socket} {
		info, err := os.Lstat(p)
		if err != nil {
			return fmt.Errorf("the switch's database: %w; does Open vSwitch run there? `muster networks add` takes its place "+
				"with --switch-database", err)
		}
		owner := info.Sys().(*syscall.Stat_t).Uid
		if mode := info.Mode(); owner >= firstUser || mode.IsDir() && mode.Perm()&0o002 != 0 || mode&os.ModeSymlink != 0 {
			return fmt.Errorf("the switch's database: %s is not the system's alone: it belongs to user %d and has mode %s", p,
				owner, mode)
		}
	}
	return nil
}

func (o ovs) run(ctx context.Context, program string, args ...string) ([]byte, error) {
	if err := ofTheSystem(strings.TrimPrefix(o.database, "unix:")); err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, program, args...)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "OVS_RUNDIR=" + filepath.Dir(strings.TrimPrefix(o.database, "unix:"))}
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%s is not installed; on Debian: apt-get install openvswitch-switch", program)
	}
	if err != nil {
		hint := ""
		if strings.Contains(said.String(), "database connection failed") {
			hint = "; does Open vSwitch run there? `muster networks add` takes its place with --switch-database"
		}
		return nil, fmt.Errorf("%s: %w: %s%s", program, err, strings.TrimSpace(said.String()), hint)
	}
	return out, nil
}

// ends makes a segment's bridge with its cable to the switch.
func (o ovs) ends(ctx context.Context, s switches.Segment) error {
	number, err := vlan(s)
	if err != nil {
		return err
	}
	inner, outer := o.Name(uplink.KindInner, s), o.Name(uplink.KindOuter, s)
	if err := o.Do(func(links *netlink.Handle) error {
		to, err := o.Uplink.Open(links, s)
		if err != nil {
			return err
		}
		return errors.Join(uplink.Cable(links, uplink.End{Name: inner, Bridge: to, Isolated: s == switches.Common},
			uplink.End{Name: outer}), uplink.Checksums(inner))
	}); err != nil {
		return err
	}
	_, err = o.tell(ctx, "--may-exist", "add-port", o.bridge, outer, "--", "set", "Port", outer, "vlan_mode=access",
		"tag="+strconv.Itoa(number), "protected=false")
	return err
}

// Put takes the port out of its VLAN, has the switch forget how it forwarded for it, and then puts it into the other one.
func (o ovs) Put(ctx context.Context, p switches.Port, s switches.Segment) error {
	return wrap.Errorf(o.put(ctx, p, s), "put port %s into %s", p.Name, s)
}

func (o ovs) put(ctx context.Context, p switches.Port, s switches.Segment) error {
	number, err := vlan(s)
	if err != nil {
		return err
	}
	now, err := o.Ports(ctx)
	if err != nil {
		return err
	}
	if _, there := now[p.Name]; !there {
		return fmt.Errorf("%w; `ovs-vsctl list-ports %s` lists those there are", switches.ErrNoPort, o.bridge)
	}
	if err := o.ends(ctx, s); err != nil {
		return err
	}
	// A datapath in user space listens beside the kernel, which hears what comes to the port as well.
	if err := o.Do(func(links *netlink.Handle) error {
		link, err := netns.Find(links, p.Name)
		if err != nil || link == nil { // a port of the datapath's own
			return err
		}
		return uplink.Mute(links, link)
	}); err != nil {
		return err
	}
	if now[p.Name] != s {
		if err := o.forget(ctx, p, now[p.Name]); err != nil {
			return err
		}
		// What the switch remembers of its decisions goes by and by once they change; so does what it has learnt.
		for _, tag := range []int{vlanNone, number} {
			if _, err := o.tell(ctx, "set", "Port", p.Name, "vlan_mode=access", "tag="+strconv.Itoa(tag), "trunks=[]",
				"protected="+strconv.FormatBool(tag == vlanCommon)); err != nil {
				return err
			}
			if _, err := o.daemon(ctx, "revalidator/wait"); err != nil {
				return err
			}
		}
		if now, err = o.Ports(ctx); err != nil {
			return err
		}
		if now[p.Name] != s {
			return fmt.Errorf("it was put there, and is in %s", now[p.Name])
		}
	}
	return o.settle(ctx, p, s, number)
}

// forget ends what settle did in another segment.
func (o ovs) forget(ctx context.Context, p switches.Port, was switches.Segment) error {
	number, err := vlan(was)
	if err != nil {
		return nil // it was in none
	}
	for _, mac := range p.MACs {
		if _, err := o.daemon(ctx, "fdb/del", o.bridge, strconv.Itoa(number), mac.String()); err != nil &&
			!strings.Contains(err.Error(), "could not find") {
			return err
		}
	}
	return nil
}

// settle makes the controller's answers go to the machine's port and to no other.
func (o ovs) settle(ctx context.Context, p switches.Port, s switches.Segment, number int) error {
	for _, mac := range p.MACs {
		if _, err := o.daemon(ctx, "fdb/add", o.bridge, p.Name, strconv.Itoa(number), mac.String()); err != nil {
			return err
		}
	}
	way := o.Name(uplink.KindInner, s)
	if s != switches.Common {
		way = o.Name(uplink.KindFar, s)
	}
	return o.Do(func(links *netlink.Handle) error { return uplink.Pin(links, way, p.MACs) })
}

// Forgotten reads what the daemon has, which it keeps in memory alone.
func (o ovs) Forgotten(ctx context.Context, placed []switches.Placed) ([]switches.Placed, error) {
	text, err := o.daemon(ctx, "fdb/show", o.bridge)
	if err != nil {
		return nil, err
	}
	known := parsePins(text)
	var all []switches.Placed
	for _, p := range placed {
		number, err := vlan(p.In)
		if err == nil && slices.ContainsFunc(p.MACs, func(mac net.HardwareAddr) bool {
			return !known[pinned{number, mac.String()}]
		}) {
			all = append(all, p)
		}
	}
	return all, nil
}

// Remind does what follows when a port was put.
func (o ovs) Remind(ctx context.Context, p switches.Placed) error {
	number, err := vlan(p.In)
	if err != nil {
		return err
	}
	return o.settle(ctx, p.Port, p.In, number)
}

// Ports reads the switch's database, which says what the switch has, and which of it works.
func (o ovs) Ports(ctx context.Context) (map[string]switches.Segment, error) {
	list, err := o.list(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]switches.Segment{}
	for _, p := range list {
		all[p.name] = segmentOf(p)
	}
	return all, nil
}

// Isolate puts ports into the common segment that are in none: a port of Open vSwitch is a trunk of all VLANs at first. The
// bridge at which the common segment ends here may have ports of its own.
func (o ovs) Isolate(ctx context.Context, named []string) ([]string, error) {
	isolated, err := o.Uplink.Isolate(named)
	ports, failed := o.Ports(ctx)
	err = errors.Join(err, failed)
	for name, in := range ports {
		if in != switches.Nowhere || slices.Contains(named, name) {
			continue
		}
		trusted, failed := o.Trusted(name)
		if failed == nil && trusted {
			continue
		}
		if failed == nil {
			failed = o.Put(ctx, switches.Port{Name: name}, switches.Common)
		}
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		isolated = append(isolated, name)
	}
	slices.Sort(isolated)
	return isolated, err
}

// list is the bridge's ports but for the controller's own.
func (o ovs) list(ctx context.Context) ([]ovsPort, error) {
	names, err := o.tell(ctx, "list-ports", o.bridge)
	if err != nil {
		return nil, fmt.Errorf("read the ports of %s: %w", o.bridge, err)
	}
	text, err := o.tell(ctx, "--format=json", "--columns=name,tag,vlan_mode,protected", "list", "Port")
	if err != nil {
		return nil, fmt.Errorf("read the ports of %s: %w", o.bridge, err)
	}
	ports, err := parsePorts(text)
	if err != nil {
		return nil, fmt.Errorf("read the ports of %s: %w", o.bridge, err)
	}
	here := lists.Set(strings.Fields(string(names)))
	return lists.Filter(ports, func(p ovsPort) bool { return here[p.name] && !o.Own(uplink.KindOuter).MatchString(p.name) }), nil
}

// Open makes the segment's bridge and its cables.
func (o ovs) Open(ctx context.Context, s switches.Segment) (string, error) {
	if err := o.ends(ctx, s); err != nil {
		return "", fmt.Errorf("open %s: %w", s, err)
	}
	return o.BridgeOf(s), nil
}

// Close takes the segment's cables and bridge away.
func (o ovs) Close(ctx context.Context, s switches.Segment) error {
	if s == switches.Common {
		return nil
	}
	ports, err := o.Ports(ctx)
	for name, in := range ports {
		if in == s && err == nil {
			err = fmt.Errorf("%w: %s", switches.ErrInUse, name)
		}
	}
	if err == nil {
		_, err = o.tell(ctx, "--if-exists", "del-port", o.bridge, o.Name(uplink.KindOuter, s))
	}
	if err == nil {
		err = o.Do(func(links *netlink.Handle) error {
			return uplink.Remove(links, o.Name(uplink.KindInner, s), o.Name(uplink.KindNear, s), o.BridgeOf(s))
		})
	}
	return wrap.Errorf(err, "close %s", s)
}

// Opened reads the kernel's list of interfaces.
func (o ovs) Opened(context.Context) ([]switches.Segment, error) { return o.Uplink.Opened() }
