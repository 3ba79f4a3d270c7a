package inspection

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/inventory"
)

func TestCheckOfNICs(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, m *machine)
		ok     bool
		text   string
	}{
		{"as it should be", func(*testing.T, *machine) {}, true, "eth0 runs at 25000 of 50000 Mb/s; 2 of 3 NICs have a link"},
		{"no link where it booted from", func(t *testing.T, m *machine) {
			write(t, m.Path("sys/class/net/eth0/carrier"), "0\n")
		}, false, "eth0, which the machine booted from, has no link; 1 of 3 NICs have a link"},
		{"half duplex", func(t *testing.T, m *machine) {
			write(t, m.Path("sys/class/net/eth0/duplex"), "half\n")
		}, false, "eth0 runs at half duplex: check its cable and its switch port; eth0 runs at 25000 of 50000 Mb/s; 2 of 3 " +
			"NICs have a link"},
		{"the NIC that it booted from is gone", func(t *testing.T, m *machine) {
			must(t, os.RemoveAll(m.Path("sys/class/net/eth0")))
		}, false, "no NIC has the address 0c:42:a1:00:00:11, which the machine booted from; 1 of 2 NICs have a link"},
		{"not booted from the network, no link", func(t *testing.T, m *machine) {
			write(t, m.Path("proc/cmdline"), "quiet\n")
			write(t, m.Path("sys/class/net/eth0/carrier"), "0\n")
			write(t, m.Path("sys/class/net/ib0/carrier"), "0\n")
		}, false, "none of 3 NICs has a link; 0 of 3 NICs have a link"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := quiet(t, "server")
			c.change(t, m)
			check := m.checkNICs(t.Context(), m.nics())
			if check.OK != c.ok || check.Text != c.text {
				t.Errorf("%v %q, want %v %q", check.OK, check.Text, c.ok, c.text)
			}
		})
	}
}

func TestCheckOfErrorsThatTheHardwareCounted(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, m *machine)
		ok     bool
		text   string
	}{
		{"corrected errors and heat are told", func(*testing.T, *machine) {}, true,
			"3 corrected memory errors; CPUs were slowed down 7 times because of heat"},
		{"uncorrectable errors fail", func(t *testing.T, m *machine) {
			write(t, m.Path("sys/devices/system/edac/mc/mc1/ue_count"), "2\n")
			write(t, m.Path("sys/devices/system/edac/mc/mc1/dimm3/dimm_ue_count"), "2\n")
			write(t, m.Path("sys/devices/system/edac/mc/mc1/dimm3/dimm_label"), "P1_DIMMC1\n")
		}, false, "2 uncorrectable memory errors at P1_DIMMC1; 3 corrected memory errors; CPUs were slowed down 7 times " +
			"because of heat"},
		{"machine check exceptions fail", func(t *testing.T, m *machine) {
			write(t, m.Path("proc/interrupts"),
				"           CPU0       CPU1\nMCE:          0          1   Machine check exceptions\nMCP:         12         "+
					"12   Machine check polls\n")
		}, false, "1 machine check exceptions: the kernel's log tells more; 3 corrected memory errors; CPUs were slowed down " +
			"7 times because of heat"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := quiet(t, "server")
			c.change(t, m)
			check := m.checkErrors()
			if check.OK != c.ok || check.Text != c.text {
				t.Errorf("%v %q, want %v %q", check.OK, check.Text, c.ok, c.text)
			}
		})
	}
}

func TestCheckOfDisksReadsOverAllOfThem(t *testing.T) {
	good, bad := newMemoryDisk(64*mib), newMemoryDisk(64*mib)
	reads := []int64{}
	good.read = func(offset int64, _ int) error { reads = append(reads, offset); return nil }
	bad.read = func(offset int64, _ int) error {
		if offset > 32*mib {
			return errDisk
		}
		return nil
	}
	m := newMachine(Options{Root: "/nonexistent", Tools: answers{}}, io.Discard)
	m.open = func(d disk, _ bool) (device, error) {
		return map[string]device{"good": good, "bad": bad}[d.Name], nil
	}
	worn := good.disk("good", "sata", "ssd")
	worn.Healthy, worn.Health = false, "SMART failed"
	check := m.checkDisks(t.Context(), []disk{bad.disk("bad", "sata", "ssd"), worn}, readMost)
	if check.OK || !strings.HasPrefix(check.Text, "bad: 8 of ") ||
		!strings.Contains(check.Text, "reads failed, the first: read at 47 MiB") ||
		!strings.Contains(check.Text, "good: SMART failed") || !strings.Contains(check.Text, "good: 256 places read at ") {
		t.Errorf("%v %q", check.OK, check.Text)
	}
	if first, last := slices.Min(reads), slices.Max(reads); first != 0 || last != 63*mib {
		t.Errorf("read from %d to %d of 64 MiB", first, last)
	}
	early := slices.Sorted(slices.Values(reads[:16]))
	for i := range early[1:] {
		if gap := early[i+1] - early[i]; gap > 4*mib {
			t.Errorf("16 reads left a gap of %d bytes after %d", gap, early[i])
		}
	}
}

func TestACPUIsSlowIfItStaysSlowAlone(t *testing.T) {
	measured := rates{[]int{0, 1, 2}, []float64{1000, 1000, 1}}
	for _, c := range []struct {
		name  string
		turns map[int][]float64 // what each CPU alone reaches, turn by turn, again and again
		ok    bool
	}{
		{"held up once", map[int][]float64{2: {900, 900, 900, 900, 900, 900}, 0: {1000, 1000, 1000, 1000, 1000, 1000}}, true},
		{"held up, and again", map[int][]float64{2: {1, 1, 1, 800, 1, 1}, 0: {1000, 1000, 1000, 1000, 1000, 1000}}, true},
		{"held up for long", map[int][]float64{2: {1, 1, 1, 1, 1, 1, 1, 1, 800}, 0: {1000}}, true},
		{"all are slower now", map[int][]float64{2: {100, 100, 100, 100, 100, 100}, 0: {110, 110, 110, 110, 110, 110}}, true},
		{"slow", map[int][]float64{2: {400, 400, 410, 400, 400, 400}, 0: {1, 1000, 1, 1000, 1, 1}}, false},
	} {
		turn := map[int]int{}
		check := measured.check(t.Context(), func(cpu int) float64 {
			defer func() { turn[cpu]++ }()
			return c.turns[cpu][turn[cpu]%len(c.turns[cpu])]
		})
		if check.OK != c.ok || !c.ok && !strings.Contains(check.Text, "CPU 2 is slow: 41 % of the median") {
			t.Errorf("%s: %v %s", c.name, check.OK, check.Text)
		}
	}
}

func TestAWordThatDoesNotHoldItsPatternIsFound(t *testing.T) {
	for _, p := range []pattern{{0x5555555555555555, 0}, {0xaaaaaaaaaaaaaaaa, 0}, {12345, 0x9e3779b97f4a7c15}} {
		c := chunk{make([]uint64, 1000), p}
		c.fill()
		if wrong, _ := c.verify(); wrong != 0 {
			t.Errorf("%x: %d words are wrong that nobody changed", p.start, wrong)
		}
		c.words[500] ^= 1 << 13
		c.words[501] = c.words[499]
		wrong, example := c.verify()
		want := int64(2)
		if p.step == 0 {
			want = 1 // one word is like another
		}
		if wrong != want || !strings.Contains(example, " instead of 0x") {
			t.Errorf("%x: %d words are wrong, want %d: %s", p.start, wrong, want, example)
		}
	}
}

func TestBadMemoryFailsItsCheck(t *testing.T) {
	var test memoryTest
	good := chunk{make([]uint64, 1000), pattern{7, 3}}
	good.fill()
	bad := chunk{make([]uint64, 1000), pattern{7, 3}}
	bad.fill()
	bad.words[999]++
	test.chunks = []chunk{good, bad}
	for cpu := range 3 {
		test.lookAgain(t.Context(), cpu, 3)
	}
	if test.wrong != 1 {
		t.Errorf("%d words are wrong, want 1", test.wrong)
	}
}

// measured is a machine with the real memory's figures cut to size.
func measured(t *testing.T, availableKiB string) *machine {
	m := quiet(t, "minimal")
	write(t, m.Path("proc/meminfo"), "MemTotal: 2000000 kB\nMemAvailable: "+availableKiB+" kB\n")
	return m
}

func TestMemoryIsTestedWithinItsTimeAndItsShare(t *testing.T) {
	m := measured(t, "300000") // 292 MiB, and 128 MiB of them stay free: five pieces
	check := m.checkMemory(t.Context(), []int{0, 1}, 30*time.Second, func(string) {})
	if !check.OK || !strings.HasPrefix(check.Text, "160 of 1953 MiB tested at ") {
		t.Errorf("%v %q", check.OK, check.Text)
	}
	began := time.Now()
	check = measured(t, "1500000").checkMemory(t.Context(), []int{0, 1}, 250*time.Millisecond, func(string) {})
	if took := time.Since(began); !check.OK || took > time.Minute {
		t.Errorf("%v %q after %v", check.OK, check.Text, took)
	}
	check = measured(t, "40000").checkMemory(t.Context(), []int{0}, time.Second, func(string) {})
	if !check.OK || !strings.HasPrefix(check.Text, "left out: ") {
		t.Errorf("%v %q", check.OK, check.Text)
	}
}

func TestTriadCountsWhatItMoves(t *testing.T) {
	result := measured(t, "400000").triad(t.Context(), []int{0, 1}, 300*time.Millisecond)
	// Far below and far above what any machine has: the unit is right.
	if result.impossible != nil || result.gbs < 0.01 || result.gbs > 20000 || result.mib != 16 {
		t.Errorf("%+v", result)
	}
	few := measured(t, "40000").triad(t.Context(), []int{0, 1}, 200*time.Millisecond)
	if check := few.check(); !few.small || !strings.Contains(check.Text, "caches help") {
		t.Errorf("%+v: %s", few, check.Text)
	}
}

func TestCachesOfAllSocketsAreCountedOnce(t *testing.T) {
	if got := quiet(t, "server").LastLevelCaches(); got != 256<<20 {
		t.Errorf("%d MiB of last-level caches, want 256", got>>20)
	}
}

func TestChecksWithoutTimeAreLeftOut(t *testing.T) {
	m := quiet(t, "qemu")
	m.open = func(disk, bool) (device, error) { return newMemoryDisk(4 * mib), nil }
	var facts inventory.Facts
	facts.NICs = m.nics()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	checks := m.check(ctx, time.Millisecond, m.disks(ctx), &facts, newProgress())
	var names []string
	for _, c := range checks {
		names = append(names, c.Name)
		if !c.OK {
			t.Errorf("%s failed: %s", c.Name, c.Text)
		}
		if slices.Contains([]string{"memory", "cpu", "bandwidth"}, c.Name) && !strings.Contains(c.Text, "left out") {
			t.Errorf("%s: %s", c.Name, c.Text)
		}
	}
	if want := []string{"memory", "disks", "nics", "cpu", "bandwidth", "errors"}; !slices.Equal(names, want) {
		t.Errorf("checks %v, want %v", names, want)
	}
}
