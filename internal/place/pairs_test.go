package place

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// everyWay tries all numbers of GPUs and HCAs below the first port, with all below the second, and so on.
func everyWay(ports []port, gpus, hcas int) (best pairing, found bool) {
	if len(ports) == 0 {
		return pairing{}, gpus == 0 && hcas == 0
	}
	p := ports[0]
	for g := range min(gpus, p.gpus+p.farGPUs) + 1 {
		for h := range min(hcas, p.hcas+p.farHCAs) + 1 {
			rest, ok := everyWay(ports[1:], gpus-g, hcas-h)
			if !ok || g > 0 && h == 0 {
				continue
			}
			sum := portion{g, h}.below(p)
			for i := range sum {
				sum[i] += rest[i]
			}
			if !found || slices.Compare(sum[:], best[:]) < 0 {
				best, found = sum, true
			}
		}
	}
	return best, found
}

func TestPairsAreTheBestOfEveryWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.IntRange(0, 3)
		var ports []port
		for range rapid.IntRange(0, 4).Draw(t, "ports") {
			ports = append(ports, port{few.Draw(t, "gpus"), few.Draw(t, "far gpus"), few.Draw(t, "hcas"),
				few.Draw(t, "far hcas")})
		}
		gpus, hcas := rapid.IntRange(0, 8).Draw(t, "asked gpus"), rapid.IntRange(0, 8).Draw(t, "asked hcas")
		best, possible := everyWay(ports, gpus, hcas)
		take, got, ok := pair(ports, gpus, hcas)
		if ok != possible || got != best {
			t.Fatalf("%d and %d of %+v: %v %v, every way: %v %v", gpus, hcas, ports, got, ok, best, possible)
		}
		var sum pairing
		for i, p := range take {
			at := p.below(ports[i])
			for j := range sum {
				sum[j] += at[j]
			}
			gpus, hcas = gpus-p.gpus, hcas-p.hcas
		}
		if ok && (gpus != 0 || hcas != 0 || sum != got) {
			t.Fatalf("%+v of %+v: %v, said to be %v; %d and %d are missing", take, ports, sum, got, gpus, hcas)
		}
	})
}
