package measure

import (
	"slices"
	"testing"
	"time"
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
	for _, rate := range Hashes(t.Context(), cpus[:1], time.Millisecond) {
		if rate < 100 || rate > 1e9 {
			t.Errorf("%.0f blocks a second", rate)
		}
	}
	gbs, err := Triad(t.Context(), cpus[:1], 4<<20, time.Millisecond)
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
	if _, err := Triad(t.Context(), []int{0}, 0, time.Millisecond); err == nil {
		t.Error("no memory and no error")
	}
}
