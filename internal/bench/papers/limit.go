package papers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/internal/bench/export"
)

// limits are what the nodes of a run can do at most, as far as they have said what they are, and all the same.
type limits map[string]limit // by the kind of what is measured

// limit is a bound, in a unit, with where it comes from.
type limit struct {
	unit  string
	value float64 // of a core, if each says so, else of a node
	core  bool
	why   string
}

// limitsOf reads what nodes have said: their clock and the instructions that OpenBLAS has chosen for them, their links, and the
// memory modules of their machine; at best each module has a channel of its own.
func limitsOf(r export.Run) limits {
	said := map[string]string{}
	for _, f := range export.Facts(r) {
		if len(f.Values) == 1 {
			said[f.Key] = f.Values[0].Value
		}
	}
	found := limits{}
	// double-precision operations a cycle of a core with two units for fused multiply-add, or one of each
	operations := map[string]float64{"SkylakeX": 32, "Cooperlake": 32, "Sapphirerapids": 32, "Haswell": 16, "Zen": 16,
		"Sandybridge": 8, "Bulldozer": 8, "Piledriver": 8, "Nehalem": 4, "Barcelona": 4, "Neoversen1": 8, "Neoversev1": 16}
	clock, _ := strconv.ParseFloat(said["clock-rate"], 64)
	if n := operations[said["blas"]]; n > 0 && clock > 0 {
		found["compute"] = limit{"GFLOP/s", clock * n / 1e3, true, fmt.Sprintf("%g operations a cycle at %g MHz", n, clock)}
	}
	if bytes, channels := 0.0, 0; said["host-memory"] != "" {
		for _, part := range strings.Split(said["host-memory"], ", ") {
			var count, size int
			var speed float64
			if n, _ := fmt.Sscanf(part, "%d of %d MiB at %f MT/s", &count, &size, &speed); n == 3 {
				bytes, channels = bytes+float64(count)*speed*8/1e3, channels+count
			}
		}
		if channels > 0 {
			found["memory"] = limit{"GB/s", bytes, false, fmt.Sprintf("%d memory modules, each with a channel", channels)}
		}
	}
	var links []float64
	imagined := []string{"", "veth", "virtio_net", "tun", "bridge"} // drivers whose speed says nothing
	for key, value := range said {
		var rate float64
		if name, is := strings.CutPrefix(key, "speed."); is && !slices.Contains(imagined, said["driver."+name]) {
			rate, _ = strconv.ParseFloat(value, 64)
		} else if strings.HasPrefix(key, "rate.") {
			number, _, _ := strings.Cut(value, " ") // as in 56 Gb/sec (4X FDR)
			rate, _ = strconv.ParseFloat(number, 64)
			rate *= 1e3
		}
		if rate > 0 {
			links = append(links, rate)
		}
	}
	if len(links) > 0 {
		found["link"] = limit{"Mbit/s", slices.Max(links), false, fmt.Sprintf("a link of %g Gbit/s", slices.Max(links)/1e3)}
	}
	return found
}

// of is the limit of what was measured by a choice, in the unit; false: it is not known, or there is none.
func (l limits) of(c choice, m measured, unit string) (Cell, string, bool) {
	if c.per != "" || c.best != "" {
		return Cell{}, "", false
	}
	kinds := map[string]string{"hpcc hpl": "compute", "stream-kernels copy": "memory", "stream-kernels scale": "memory",
		"stream-kernels add": "memory", "stream-kernels triad": "memory", "tcp tcp-together": "link", "tcp tcp": "link",
		"udp udp-together": "link", "udp udp": "link", "rdma write": "link", "messages bandwidth": "link"}
	found, known := l[kinds[m.recipe+" "+m.quantity]]
	by, same := factor(found.unit, unit)
	if !known || !same || unit == "" {
		return Cell{}, "", false
	}
	if cores, err := strconv.ParseFloat(m.of["cores"], 64); found.core {
		if err != nil {
			return Cell{}, "", false
		}
		by *= cores
	}
	v := found.value * by
	return Cell{Known: true, Value: v, Low: v, High: v}, found.why, true
}
