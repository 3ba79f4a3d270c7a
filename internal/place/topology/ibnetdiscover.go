package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/internal/fabric"
	"muster/internal/kit/pattern"
)

// The lines that count of what ibnetdiscover(8) prints. A node has a head, below which stands a line for every port that
// has a cable: its number, its GUID where it is a host's, the other end, and in a comment how the other end calls itself.
// Everything else is properties, chassis, comments and empty lines.
var (
	headLine = pattern.New(`^(Switch|Ca|Hca|Rt)\s+\d+\s+"([SHR])-([0-9a-fA-F]{1,16})"\s*(?:#\s*"(.*)".*)?$`)
	portLine = pattern.New(`^\[(\d{1,3})\](?:\[ext \d+\])?(?:\(([0-9a-fA-F]{1,16})\))?\s+"([SHR])-([0-9a-fA-F]{1,16})"\[(\d{1,3})\](?:\[ext \d+\])?(?:\(([0-9a-fA-F]{1,16})\))?\s*(?:#.*)?$`)
	idleLine = pattern.New(`^(#.*|[a-z]+guid=0x[0-9a-fA-F]+(\([0-9a-fA-F]+\))?|(vendid|devid)=0x[0-9a-fA-F]+|Chassis\b.*|Non-Chassis Nodes.*|)$`)
)

// end is one end of a cable: a node and its port.
type end struct {
	node string // "S-" or "H-" and sixteen digits
	port int
}

func (e end) String() string { return fmt.Sprintf("%s[%d]", e.node, e.port) }

// cable is what one end says of it.
type cable struct {
	to   end
	guid string // of this end's port, or ""
	line int
}

// discovery is what has been read so far.
type discovery struct {
	names  map[string]string // node → description
	nodes  []string          // in their order
	cables map[end]cable
	ends   []end // in their order
}

// Parse reads the output of ibnetdiscover, run without options or with -g; ibsim's networks are written so, too. A text that
// was cut off is refused: every cable must be told of by both its ends. Errors name the line.
func Parse(text string) (*Graph, error) {
	d := discovery{names: map[string]string{}, cables: map[end]cable{}}
	at, number := "", 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if m := headLine.FindStringSubmatch(line); m != nil {
			at = nodeID(m[2], m[3])
			if _, twice := d.names[at]; twice {
				return nil, fmt.Errorf("line %d: node %s is described twice", number, at)
			}
			d.names[at] = strings.TrimSpace(m[4])
			d.nodes = append(d.nodes, at)
			continue
		}
		if m := portLine.FindStringSubmatch(line); m != nil {
			if at == "" {
				return nil, fmt.Errorf("line %d: a port before any node", number)
			}
			if err := d.cable(at, m, number); err != nil {
				return nil, err
			}
			continue
		}
		if !idleLine.MatchString(line) {
			return nil, fmt.Errorf("line %d: %.60q is not output of ibnetdiscover", number, line)
		}
	}
	if len(d.nodes) == 0 {
		return nil, fmt.Errorf("line %d: no node before the end of the text; it should be the output of `ibnetdiscover`",
			max(1, number))
	}
	return d.graph()
}

func nodeID(kind, digits string) string {
	return kind + "-" + strings.Repeat("0", 16-len(digits)) + strings.ToLower(digits)
}

func (d *discovery) cable(at string, m []string, line int) error {
	mine, err1 := strconv.Atoi(m[1])
	theirs, err2 := strconv.Atoi(m[5])
	if err1 != nil || err2 != nil || mine > 255 || theirs > 255 {
		return fmt.Errorf("line %d: a port's number is at most 255", line)
	}
	here := end{at, mine}
	if _, twice := d.cables[here]; twice {
		return fmt.Errorf("line %d: port %s has a second cable", line, here)
	}
	d.cables[here] = cable{to: end{nodeID(m[3], m[4]), theirs}, guid: m[2], line: line}
	d.ends = append(d.ends, here)
	return nil
}

// graph puts the two ends of all cables together.
func (d *discovery) graph() (*Graph, error) {
	g := &Graph{}
	switches := map[string]int{}
	for _, id := range slices.Sorted(slices.Values(d.nodes)) {
		if strings.HasPrefix(id, "S-") {
			switches[id] = len(g.Switches)
			g.Switches = append(g.Switches, Switch{ID: "0x" + id[2:], Name: d.names[id]})
		}
	}
	links := map[[2]int]int{}
	for _, here := range d.ends {
		c := d.cables[here]
		back, told := d.cables[c.to]
		switch {
		case !told:
			return nil, fmt.Errorf("line %d: %s has a cable to %s, which is not in the text: was it cut off?", c.line, here, c.to)
		case back.to != here:
			return nil, fmt.Errorf("line %d: %s has a cable to %s, which line %d says has one to %s", c.line, here, c.to,
				back.line, back.to)
		}
		mine, isSwitch := switches[here.node]
		theirs, ofSwitch := switches[c.to.node]
		switch {
		case isSwitch && ofSwitch && mine < theirs:
			links[[2]int{mine, theirs}]++
		case !isSwitch && ofSwitch && strings.HasPrefix(here.node, "H-"):
			if err := d.port(g, here, c, theirs); err != nil {
				return nil, err
			}
		}
	}
	for pair, n := range links {
		g.Links = append(g.Links, Link{pair[0], pair[1], n})
	}
	g.order(func(p Port) string { return p.Interface })
	return g, nil
}

// port adds a host's port.
func (d *discovery) port(g *Graph, here end, c cable, leaf int) error {
	adapter, err := fabric.ParseGUID("0x" + here.node[2:])
	if err != nil {
		return fmt.Errorf("line %d: node %s: %w", c.line, here.node, err)
	}
	if c.guid == "" {
		return fmt.Errorf("line %d: port %s has no GUID in parentheses", c.line, here)
	}
	guid, err := fabric.ParseGUID("0x" + strings.Repeat("0", 16-len(c.guid)) + c.guid)
	if err != nil {
		return fmt.Errorf("line %d: port %s: %w", c.line, here, err)
	}
	// rdma-ndd describes an adapter as "host device"; adapters that it did not describe have their maker's words.
	host, device, _ := strings.Cut(d.names[here.node], " ")
	if host == "" || strings.HasPrefix(host, "MT") || strings.Contains(device, " ") {
		host, device = adapter.String(), ""
	}
	g.Ports = append(g.Ports, Port{GUID: guid, Adapter: adapter, Host: host, Interface: fmt.Sprintf("%s/%d", device, here.port),
		Switch: leaf, At: strconv.Itoa(c.to.port)})
	return nil
}
