package measure

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestATriadPassIsWhatItsNameSays(t *testing.T) {
	a, b, c := make([]float64, 5), []float64{1, 2, 3, 4, 5}, []float64{10, 20, 30, 40, 50}
	triadPass(a, b, c, 3)
	if !slices.Equal(a, []float64{31, 62, 93, 124, 155}) {
		t.Errorf("%v", a)
	}
}

func TestRatesAreThoseOfAMachine(t *testing.T) {
	cpus := CPUs()
	if len(cpus) == 0 {
		t.Fatal("there is a CPU that runs this")
	}
	// Far below and far above what any CPU has: the units are right.
	for _, rate := range Hashes(t.Context(), cpus[:1], Own(), time.Millisecond) {
		if rate < 100 || rate > 1e9 {
			t.Errorf("%.0f blocks a second", rate)
		}
	}
	gbs, err := Triad(t.Context(), cpus[:1], 4<<20, Wall(), time.Millisecond)
	if err != nil || gbs < 0.001 || gbs > 20000 {
		t.Errorf("%f GB/s, %v", gbs, err)
	}
}

func TestArraysKeepToTheFreeMemory(t *testing.T) {
	for _, c := range []struct {
		cpus               int
		caches, free, size int64
		small              bool
	}{
		{2, 0, 1 << 40, 16 << 20, false},
		{2, 256 << 20, 1 << 40, 1 << 30, false},
		{2, 256 << 20, 60 << 20, 10 << 20, true},
		{1, 0, 0, 0, true},
	} {
		if size, small := ArraySize(c.cpus, c.caches, c.free); size != c.size || small != c.small {
			t.Errorf("%+v: %d %v", c, size, small)
		}
	}
	if _, err := Triad(t.Context(), []int{0}, 0, Wall(), time.Millisecond); err == nil {
		t.Error("no memory and no error")
	}
}

// TestARateIsTakenOfItsClockAlone, whatever other clocks say meanwhile.
func TestARateIsTakenOfItsClockAlone(t *testing.T) {
	now := time.Duration(0)
	ticks := func() time.Duration { now += time.Second; return now }
	if rate := hashRate(t.Context(), ticks, 4*time.Second); rate != 64 {
		t.Errorf("64 blocks a tick, and a rate of %f", rate)
	}
	gbs, err := Triad(t.Context(), CPUs()[:1], 8000, ticks, 4*time.Second)
	if err != nil || gbs != 24e-6 { // 1,000 elements
		t.Errorf("%g GB/s, %v", gbs, err)
	}
}

// TestTimeWithoutACPUIsNotOnesOwn: a test that others keep from a CPU is not slower for that.
func TestTimeWithoutACPUIsNotOnesOwn(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, wall := Own(), Wall()
	ownBefore, wallBefore := own(), wall()
	nap := unix.NsecToTimespec((100 * time.Millisecond).Nanoseconds())
	for unix.Nanosleep(&nap, &nap) == unix.EINTR {
	}
	if took := wall() - wallBefore; took < 100*time.Millisecond {
		t.Errorf("everybody's time went on by %v", took)
	}
	if took := own() - ownBefore; took <= 0 || took > 50*time.Millisecond {
		t.Errorf("its own time went on by %v", took)
	}
}
