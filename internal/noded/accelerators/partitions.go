package accelerators

import (
	"fmt"
	"strconv"
	"strings"

	"muster/internal/protocol"
)

// firstSiteKey begins the keys that are no cluster's: those of the site's own partitions, and the default one's.
const firstSiteKey = 0x7000

// Partitions says in words which InfiniBand ports that are up lack their cluster's key, or hold another cluster's; nil if all
// is well. keys are protocol.Config's: only ports that it names are looked at. What ports hold of the site's own partitions,
// and of the default one, is judged by who sees them all.
func Partitions(ports []protocol.Port, keys map[string]uint16) error {
	const full = 0x8000
	of := map[string]uint16{}
	for port, key := range keys {
		of[digits(port)] = key
	}
	var wrong []string
	for _, p := range ports {
		own, named := of[digits(p.GUID)]
		if p.Layer != "InfiniBand" || p.State != "Active" || !named {
			continue // one that is down has nothing to say
		}
		has := false
		var strange []string
		for _, text := range p.PKeys {
			entry, err := strconv.ParseUint(text, 0, 16)
			key := uint16(entry) &^ full
			has = has || err == nil && key == own
			if err != nil || key != own && key < firstSiteKey {
				strange = append(strange, text)
			}
		}
		name := fmt.Sprintf("%s port %d", p.Device, p.Port)
		if !has {
			wrong = append(wrong, fmt.Sprintf("%s is not in its cluster's partition 0x%04x", name, own))
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
