package ovs

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// ovsPort is a row of Open vSwitch's table of ports.
type ovsPort struct {
	name      string
	tag       int    // 0: none
	mode      string // "": not set
	protected bool
}

// parsePorts reads what `ovs-vsctl --format=json --columns=name,tag,vlan_mode,protected list Port` prints: headings and rows
// (ovs-vsctl(8), "Table Formatting Options"). A value that may be missing is an empty set then (RFC 7047, 5.1).
func parsePorts(text []byte) ([]ovsPort, error) {
	var table struct {
		Headings []string            `json:"headings"`
		Data     [][]json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(text, &table); err != nil {
		return nil, fmt.Errorf("what ovs-vsctl says: %w", err)
	}
	column := map[string]int{}
	for i, h := range table.Headings {
		column[h] = i
	}
	for _, needed := range []string{"name", "tag", "vlan_mode", "protected"} {
		if _, there := column[needed]; !there {
			return nil, fmt.Errorf("what ovs-vsctl says has no column %s", needed)
		}
	}
	var all []ovsPort
	for _, row := range table.Data {
		if len(row) != len(table.Headings) {
			return nil, fmt.Errorf("what ovs-vsctl says has a row of %d values below %d headings", len(row), len(table.Headings))
		}
		var p ovsPort
		for name, into := range map[string]any{"name": &p.name, "tag": &p.tag, "vlan_mode": &p.mode, "protected": &p.protected} {
			if err := optional(row[column[name]], into); err != nil {
				return nil, fmt.Errorf("what ovs-vsctl says of a port's %s: %w", name, err)
			}
		}
		if p.name == "" {
			return nil, fmt.Errorf("what ovs-vsctl says has a port without a name")
		}
		all = append(all, p)
	}
	return all, nil
}

// optional reads a value, or a set of none or one.
func optional(text json.RawMessage, into any) error {
	var set []json.RawMessage
	if json.Unmarshal(text, &set) != nil {
		return json.Unmarshal(text, into)
	}
	var kind string
	var members []json.RawMessage
	if len(set) != 2 || json.Unmarshal(set[0], &kind) != nil || kind != "set" || json.Unmarshal(set[1], &members) != nil ||
		len(members) > 1 {
		return fmt.Errorf("%s is neither a value nor a set of one at most", text)
	}
	if len(members) == 0 {
		return nil
	}
	return json.Unmarshal(members[0], into)
}

// pinned is a MAC that a switch does not learn, in a VLAN.
type pinned struct {
	vlan int
	mac  string // as net.HardwareAddr writes it
}

// parsePins reads what `ovs-appctl fdb/show` prints of entries that somebody made: port, VLAN, MAC, "static". Others are left
// out.
func parsePins(text []byte) map[pinned]bool {
	all := map[pinned]bool{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) != 4 || words[3] != "static" {
			continue
		}
		number, err1 := strconv.Atoi(words[1])
		mac, err2 := net.ParseMAC(words[2])
		if err1 == nil && err2 == nil {
			all[pinned{number, mac.String()}] = true
		}
	}
	return all
}
