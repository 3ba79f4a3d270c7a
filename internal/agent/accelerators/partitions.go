package accelerators

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/internal/agent/protocol"
)

// Partitions says in words which InfiniBand ports that are up lack their cluster's key, or hold one that they may not hold; nil if
// all is well. keys are protocol.Config's: only ports that it names are looked at. The default partition is everybody's, as a limited member: who is a full one hears all others.
func Partitions(ports []protocol.Port, keys map[string][]uint16) error {
	const defaultKey, full = 0x7fff, 0x8000
	of := map[string][]uint16{}
	for port, may := range keys {
		of[digits(port)] = may
	}
	var wrong []string
	for _, p := range ports {
		may := of[digits(p.GUID)]
		if p.Layer != "InfiniBand" || p.State != "Active" || len(may) == 0 {
			continue // one that is down has nothing to say
		}
		own := false
		var strange []string
		for _, text := range p.PKeys {
			entry, err := strconv.ParseUint(text, 0, 16)
			key := uint16(entry) &^ full
			switch {
			case err != nil:
				strange = append(strange, text)
			case slices.Contains(may, key):
				own = own || key == may[0]
			case key != defaultKey || entry&full != 0:
				strange = append(strange, text)
			}
		}
		name := fmt.Sprintf("%s port %d", p.Device, p.Port)
		if !own {
			wrong = append(wrong, fmt.Sprintf("%s is not in its cluster's partition 0x%04x", name, may[0]))
		}
		if len(strange) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s holds %s, which is not its cluster's", name, strings.Join(strange, ", ")))
		}
	}
	return joined(wrong)
}

// digits are a GUID's, however it is spelled: "0002:c903:000a:0b0c", "0x0002c903000a0b0c".
func digits(guid string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(guid, "0x"), ":", ""))
}
