package ufm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"muster/internal/fabric"
)

// partitions is what UFM says of them.
type partitions struct {
	members map[fabric.Key]members
	others  fabric.Membership // in the default partition, of ports that are not named there
}

// intent is the whole as one.
func (p partitions) intent() fabric.Intent {
	var i fabric.Intent
	for key, m := range p.members {
		if key != fabric.DefaultKey {
			i.Partitions = append(i.Partitions, fabric.Partition{Key: key, Members: m})
			continue
		}
		for g := range m {
			i.Managers = append(i.Managers, g)
		}
	}
	return i
}

// parsePartitions reads the answer to GET /resources/pkeys?guids_data=true: an object by keys. Of the default partition only
// full members are kept, since every port is a limited one.
func parsePartitions(text []byte) (partitions, error) {
	p := partitions{members: map[fabric.Key]members{}}
	var all map[string]struct {
		Membership string `json:"membership"`
		GUIDs      []struct {
			GUID       string `json:"guid"`
			Membership string `json:"membership"`
		} `json:"guids"`
	}
	if err := decode(text, &all); err != nil {
		return p, err
	}
	for name, of := range all {
		number, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(name), "0x"), 16, 16)
		key := fabric.Key(number &^ 0x8000)
		if err != nil || key == 0 {
			return p, fmt.Errorf("%q is no partition's key", name)
		}
		if p.members[key] != nil {
			return p, fmt.Errorf("partition %s is there twice", key)
		}
		if key == fabric.DefaultKey && of.Membership != "" {
			if p.others, err = parseMembership(of.Membership); err != nil {
				return p, err
			}
		}
		p.members[key] = members{}
		for _, m := range of.GUIDs {
			g, err := fabric.ParseGUID(m.GUID)
			if err != nil {
				return p, fmt.Errorf("partition %s: %w", key, err)
			}
			as, err := parseMembership(m.Membership)
			if err != nil {
				return p, fmt.Errorf("partition %s, port %s: %w", key, g, err)
			}
			if key != fabric.DefaultKey || as == fabric.Full {
				p.members[key][g] = max(as, p.members[key][g])
			}
		}
	}
	return p, nil
}

// parsePorts reads the answer to GET /resources/ports: a list. Ports of a switch share its GUID.
func parsePorts(text []byte) ([]fabric.GUID, error) {
	var all []struct {
		GUID  string `json:"guid"`
		State string `json:"logical_state"`
	}
	if err := decode(text, &all); err != nil {
		return nil, err
	}
	var up []fabric.GUID
	for _, port := range all {
		g, err := fabric.ParseGUID(port.GUID)
		if err != nil {
			return nil, err
		}
		if strings.EqualFold(port.State, "active") {
			up = append(up, g)
		}
	}
	return up, nil
}

// decode reads one value of JSON.
func decode(text []byte, to any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(to); err != nil {
		return fmt.Errorf("not the JSON that was expected: %w: %s", err, excerpt(text))
	}
	if decoder.More() {
		return errors.New("something follows its JSON")
	}
	return nil
}

func parseMembership(text string) (fabric.Membership, error) {
	switch strings.ToLower(text) {
	case "full":
		return fabric.Full, nil
	case "limited":
		return fabric.Limited, nil
	}
	return 0, fmt.Errorf("%q is no membership: full or limited", text)
}

func spellMembership(m fabric.Membership) string {
	if m == fabric.Full {
		return "full"
	}
	return "limited"
}

// spellKey is a key as UFM lists it.
func spellKey(k fabric.Key) string { return "0x" + strconv.FormatUint(uint64(k), 16) }

func spellGUIDs(ports []fabric.GUID) []string {
	all := make([]string, len(ports))
	for i, g := range ports {
		all[i] = strings.TrimPrefix(g.String(), "0x")
	}
	return all
}
