package diags

import (
	"fmt"
	"strconv"
	"strings"

	"muster/internal/fabric"
	"muster/internal/kit/pattern"
)

// Place is where an adapter's port is on the fabric.
type Place struct {
	Node string // as the simulator names it
	LID  uint16
}

var (
	adapterLine = pattern.New(`^Ca\s+\d+\s+"(H-[0-9a-f]{16})"`)
	portLine    = pattern.New(`^\[\d+\]\(([0-9a-f]{1,16})\)\s+"[SHR]-[0-9a-f]{16}"\[\d+\](?:\([0-9a-f]+\))?\s+# lid (\d+) lmc `)
)

// Places reads from what ibnetdiscover printed where each adapter's port is. Ports without a link are not in it.
func Places(text []byte) (map[fabric.GUID]Place, error) {
	places := map[fabric.GUID]Place{}
	node := ""
	for n, line := range strings.Split(string(text), "\n") {
		if line == "" {
			node = ""
		}
		if m := adapterLine.FindStringSubmatch(line); m != nil {
			node = m[1]
		}
		m := portLine.FindStringSubmatch(line)
		if m == nil || node == "" {
			continue
		}
		guid, err := fabric.ParseGUID("0x" + m[1])
		if err != nil {
			return nil, fmt.Errorf("ibnetdiscover, line %d: %w", n+1, err)
		}
		lid, err := strconv.ParseUint(m[2], 10, 16)
		if err != nil {
			return nil, fmt.Errorf("ibnetdiscover, line %d: local identifier %s is out of range", n+1, m[2])
		}
		if _, twice := places[guid]; twice {
			return nil, fmt.Errorf("ibnetdiscover, line %d: port %s is there twice, so that nobody can say which one is meant",
				n+1, guid)
		}
		places[guid] = Place{node, uint16(lid)}
	}
	if len(places) == 0 {
		return nil, fmt.Errorf("ibnetdiscover named no adapter; is the port that it asks from up?")
	}
	return places, nil
}

var (
	masterLine   = pattern.New(`(?m)^sminfo: sm lid \d+ sm guid (0x[0-9a-f]{1,16}), .* SMINFO_MASTER\s*$`)
	slotsLine    = pattern.New(`^\s*(\d+):((?: 0x[0-9a-f]{4})+)\s*$`)
	capacityLine = pattern.New(`^(\d{1,5}) pkeys capacity for this port$`)
)

// parseMaster reads from what sminfo printed which port the master manager has.
func parseMaster(text []byte) (fabric.GUID, error) {
	m := masterLine.Regexp().FindSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("sminfo names no master: %q", text)
	}
	return fabric.ParseGUID(string(m[1]))
}

// parseTable reads what `smpquery pkeys` printed of one port. It refuses a table that is not whole.
func parseTable(text string) (fabric.Port, error) {
	var p fabric.Port
	slots := 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := capacityLine.FindStringSubmatch(line); m != nil {
			capacity, err := strconv.Atoi(m[1])
			if err != nil || p.Capacity != 0 {
				return fabric.Port{}, fmt.Errorf("smpquery: %q is no table's capacity", line)
			}
			p.Capacity = capacity
			continue
		}
		m := slotsLine.FindStringSubmatch(line)
		if m == nil {
			return fabric.Port{}, fmt.Errorf("smpquery: %q is no row of a table", line)
		}
		if first, err := strconv.Atoi(m[1]); err != nil || first != slots {
			return fabric.Port{}, fmt.Errorf("smpquery: row %s follows slot %d", m[1], slots)
		}
		for _, word := range strings.Fields(m[2]) {
			value, err := strconv.ParseUint(word, 0, 16)
			if err != nil {
				return fabric.Port{}, fmt.Errorf("smpquery: %q is no entry", word)
			}
			if e := fabric.Entry(value); e.Key() != 0 {
				p.Entries = append(p.Entries, e)
			}
			slots++
		}
	}
	if p.Capacity == 0 || slots < p.Capacity {
		return fabric.Port{}, fmt.Errorf("smpquery: %d slots of %d were read", slots, p.Capacity)
	}
	return p, nil
}
