package inspection

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"muster/internal/inventory"
	"muster/internal/protocol"
)

// Shares of the time for all tests. What the others don't need is the memory's, which can always use more.
const (
	measureMost = time.Second // each, for the CPUs and for the bandwidth
	readMost    = 10 * time.Second
	checkLeast  = 200 * time.Millisecond // a test with less time than that is left out
)

// check tests the machine, for at most within, and writes what it measured into facts. Only what is broken for certain
// fails; whether a machine is slower than its like is for those to judge who know the others.
func (m *machine) check(ctx context.Context, within time.Duration, disks []disk, facts *inventory.Facts,
	p *progress) []protocol.Check {
	deadline := time.Now().Add(within)
	measure := min(measureMost, within/8)
	nics := m.checkNICs(ctx, facts.NICs)

	p.say("machine", "testing disks")
	read := m.checkDisks(ctx, disks, min(readMost, within/4))

	p.say("machine", "testing memory")
	const after = 3 // measures: one for each of the two below, one for what they prepare
	cpus := m.OnlineCPUs()
	memory := m.checkMemory(ctx, cpus, time.Until(deadline)-after*measure, func(done string) {
		p.say("machine", "testing memory: "+done)
	})

	p.say("machine", "testing CPUs")
	rates := rateCPUs(ctx, cpus, measure)
	facts.CPUMops = rates.thousands()
	cpu := rates.check(ctx, func(cpu int) float64 { return rateCPUs(ctx, []int{cpu}, checkLeast).second[0] })

	p.say("machine", "testing memory bandwidth")
	triad := m.triad(ctx, cpus, measure)
	facts.TriadGBs = triad.gbs
	bandwidth := triad.check()

	checks := []protocol.Check{memory, read, nics, cpu, bandwidth, m.checkErrors()} // errors last: tests bring them out
	for _, c := range checks {
		result := "passed"
		if !c.OK {
			result = "FAILED"
		}
		m.logf("check %s %s: %s", c.Name, result, c.Text)
	}
	return checks
}

// notes collects what a check has to say: failures come first.
type notes struct{ failures, remarks []string }

func (n *notes) fail(format string, args ...any) {
	n.failures = append(n.failures, fmt.Sprintf(format, args...))
}

func (n *notes) remark(format string, args ...any) {
	n.remarks = append(n.remarks, fmt.Sprintf(format, args...))
}

func (n *notes) check(name string) protocol.Check {
	return protocol.Check{Name: name, OK: len(n.failures) == 0, Text: strings.Join(append(n.failures, n.remarks...), "; ")}
}

// checkNICs wants a link where the machine booted from, or at least one where that is not known, and no link at half
// duplex, which between today's devices means that they have not agreed.
func (m *machine) checkNICs(ctx context.Context, nics []inventory.NIC) protocol.Check {
	var n notes
	boot, found, up := m.BootMAC(), false, 0
	for _, nic := range nics {
		if nic.Up {
			up++
		}
		if nic.MAC == boot {
			found = true
			if !nic.Up {
				n.fail("%s, which the machine booted from, has no link", nic.Name)
			}
		}
		if !nic.Up {
			continue
		}
		if m.Text("sys/class/net", nic.Name, "duplex") == "half" {
			n.fail("%s runs at half duplex: check its cable and its switch port", nic.Name)
		}
		if best := m.bestSpeed(ctx, nic.Name); nic.SpeedMbps > 0 && nic.SpeedMbps < best {
			n.remark("%s runs at %d of %d Mb/s", nic.Name, nic.SpeedMbps, best)
		}
	}
	switch {
	case boot != "" && !found:
		n.fail("no NIC has the address %s, which the machine booted from", boot)
	case boot == "" && up == 0:
		n.fail("none of %d NICs has a link", len(nics))
	}
	n.remark("%d of %d NICs have a link", up, len(nics))
	return n.check("nics")
}

// bestSpeed is the fastest that the NIC supports, in Mb/s; 0 if it does not say.
func (m *machine) bestSpeed(ctx context.Context, name string) int {
	out, err := m.run(ctx, 5*time.Second, "ethtool", name)
	if err != nil {
		return 0
	}
	return parseEthtool(string(out))
}

// parseEthtool finds the fastest of ethtool's "Supported link modes: 1000baseT/Full 10000baseT/Full".
func parseEthtool(text string) int {
	_, supported, found := strings.Cut(text, "Supported link modes:")
	if !found {
		return 0
	}
	supported, _, _ = strings.Cut(supported, ":") // the next field
	best := 0
	for _, match := range regexp.MustCompile(`(\d{1,7})base`).FindAllStringSubmatch(supported, -1) {
		speed, _ := strconv.Atoi(match[1]) // the expression lets nothing else in
		best = max(best, speed)
	}
	return best
}

// checkErrors reads what the hardware has counted since the machine was switched on: uncorrectable errors of memory
// (EDAC) and machine check exceptions fail. Corrected ones and throttling are told.
func (m *machine) checkErrors() protocol.Check {
	var n notes
	const edac = "sys/devices/system/edac/mc"
	corrected := int64(0)
	controllers := 0
	for _, mc := range m.Names(edac) {
		if !m.Exists(edac, mc, "ue_count") {
			continue
		}
		controllers++
		if count := m.Number(0, edac, mc, "ue_count"); count > 0 {
			n.fail("%d uncorrectable memory errors at %s", count, m.badDIMM(edac, mc))
		}
		corrected += m.Number(0, edac, mc, "ce_count")
	}
	if corrected > 0 {
		n.remark("%d corrected memory errors", corrected)
	}
	interrupts := m.Text("proc/interrupts")
	if count := interruptCount(interrupts, "MCE"); count > 0 {
		n.fail("%d machine check exceptions: the kernel's log tells more", count)
	}
	throttled := int64(0)
	for _, cpu := range m.OnlineCPUs() {
		throttled += m.Number(0, fmt.Sprintf("sys/devices/system/cpu/cpu%d/thermal_throttle/core_throttle_count", cpu))
	}
	if throttled > 0 {
		n.remark("CPUs were slowed down %d times because of heat", throttled)
	}
	if controllers == 0 {
		n.remark("the machine does not count memory errors")
	} else if len(n.failures) == 0 && corrected == 0 {
		n.remark("no memory errors counted")
	}
	return n.check("errors")
}

// badDIMM is the label of the module with uncorrectable errors, or the controller's name.
func (m *machine) badDIMM(edac, mc string) string {
	for _, name := range m.Names(edac, mc) {
		if m.Number(0, edac, mc, name, "dimm_ue_count") > 0 {
			if label := m.Text(edac, mc, name, "dimm_label"); label != "" {
				return label
			}
			return mc + " " + name
		}
	}
	return mc
}

// interruptCount is the sum over all CPUs of a line of /proc/interrupts, "MCE:  0  0  Machine check exceptions".
func interruptCount(text, name string) int64 {
	total := int64(0)
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != name+":" {
			continue
		}
		for _, word := range words[1:] {
			n, err := strconv.ParseInt(word, 10, 48)
			if err != nil {
				break
			}
			total += n
		}
	}
	return total
}
