package round

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Look is what a round's nodes said of themselves, by node and key.
type Look map[string]map[string]string

// What is read of a look.
const (
	mostNodes = 4096
	mostKeys  = 128 // of a node
	mostValue = 500 // bytes
)

// readLook reads lines NODE KEY VALUE. Others are ignored.
func readLook(text string) Look {
	all := Look{}
	for line := range strings.Lines(text) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(words) < 3 || len(words[0]) > 100 || len(words[1]) > 100 {
			continue
		}
		of := all[words[0]]
		if of == nil && len(all) < mostNodes {
			of = map[string]string{}
			all[words[0]] = of
		}
		if _, has := of[words[1]]; of != nil && (has || len(of) < mostKeys) {
			of[words[1]] = strings.ToValidUTF8(words[2][:min(len(words[2]), mostValue)], "")
		}
	}
	return all
}

// A hypervisor may give others this part of all CPU time while a round runs, and at least so many ticks, which are a hundredth of
// a second: a short round has few.
const (
	mostStolen = 0.01
	fewTicks   = 10
)

// Disturbed says which of a round's nodes were disturbed from outside while it ran, and by what, as far as can be seen without a
// look at its values; "": none was.
func (l Left) Disturbed() string {
	var found []string
	for _, node := range slices.Sorted(maps.Keys(l.After)) {
		before, after := l.Before[node], l.After[node]
		if part := stolen(before["stat"], after["stat"]); part > mostStolen {
			found = append(found, fmt.Sprintf("%s: %.1f %% of its CPU time were given to others by the hypervisor", node, part*100))
		}
		for _, key := range slices.Sorted(maps.Keys(after)) {
			if key != "throttled" && !strings.HasPrefix(key, "link.") {
				continue
			}
			first, err1 := strconv.ParseUint(before[key], 10, 64)
			last, err2 := strconv.ParseUint(after[key], 10, 64)
			if err1 == nil && err2 == nil && last > first {
				what := "was throttled " + fmt.Sprint(last-first) + " times"
				if link, is := strings.CutPrefix(key, "link."); is {
					what = fmt.Sprintf("has %d errors more at %s", last-first, link)
				}
				found = append(found, node+" "+what)
			}
		}
	}
	return strings.Join(found, "; ")
}

// stolen is the part of the CPU time between two first lines of /proc/stat that was others' (proc_stat(5)).
func stolen(before, after string) float64 {
	const fields = 8 // user to steal; what guests had is in user
	a, b := strings.Fields(before), strings.Fields(after)
	if len(a) <= fields || len(b) <= fields {
		return 0
	}
	all, steal := 0.0, 0.0
	for i := 1; i <= fields; i++ {
		first, err1 := strconv.ParseUint(a[i], 10, 64)
		last, err2 := strconv.ParseUint(b[i], 10, 64)
		if err1 != nil || err2 != nil || last < first {
			return 0
		}
		steal = float64(last - first)
		all += steal
	}
	if steal <= fewTicks {
		return 0
	}
	return steal / all
}
