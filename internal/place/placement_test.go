package place

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/inventory"
)

func class(t interface{ Fatal(...any) }, name, condition string) inventory.Class {
	c, err := inventory.ParseCondition(condition)
	if err != nil {
		t.Fatal(err)
	}
	return inventory.Class{Name: name, Select: []inventory.Condition{c}}
}

func machines(cpus ...int) []inventory.Machine {
	var all []inventory.Machine
	for i, n := range cpus {
		name := fmt.Sprintf("m%d", i+1)
		all = append(all, inventory.Machine{ID: name, Name: name, Facts: inventory.Facts{CPUs: n}})
	}
	return all
}

func names(chosen [][]inventory.Machine) string {
	text := ""
	for _, group := range chosen {
		for _, m := range group {
			text += m.Name + " "
		}
		text += "| "
	}
	return text
}

func TestMachinesAreTakenInTheOrderOfTheirNumbers(t *testing.T) {
	any := class(t, "any", "cpus >= 1")
	all := machines(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	all[0], all[10] = all[10], all[0]
	chosen, err := Choose([]Want{{Class: any, Nodes: 1}, {Class: any, Nodes: 2}}, all, nil)
	if err != nil || names(chosen) != "m1 | m2 m3 | " {
		t.Fatal(names(chosen), err)
	}
}

func TestTheScarcerClassIsServedFirst(t *testing.T) {
	big, any := class(t, "big", "cpus >= 8"), class(t, "any", "cpus >= 1")
	chosen, err := Choose([]Want{{Class: any, Nodes: 2}, {Class: big, Nodes: 2}}, machines(8, 8, 1, 1), nil)
	if err != nil || names(chosen) != "m3 m4 | m1 m2 | " {
		t.Fatal(names(chosen), err)
	}
}

func TestAMachineIsHandedOnWhenNothingElseFits(t *testing.T) {
	low, middle, high := class(t, "low", "cpus <= 5"), class(t, "middle", "cpus >= 3"), class(t, "high", "cpus >= 6")
	chosen, err := Choose([]Want{{Class: middle, Nodes: 1}, {Class: low, Nodes: 2}, {Class: high, Nodes: 1}},
		machines(1, 4, 4, 8), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(chosen); got != "m3 | m1 m2 | m4 | " && got != "m2 | m1 m3 | m4 | " {
		t.Fatal(got)
	}
}

func TestAShortageNamesTheClassAndTheNumbers(t *testing.T) {
	big := class(t, "big", "cpus >= 8")
	_, err := Choose([]Want{{Class: big, Nodes: 1}, {Class: big, Nodes: 3}}, machines(8, 8, 1), nil)
	var short *Shortage
	if !errors.As(err, &short) || *short != (Shortage{"big", 4, 2, 2}) {
		t.Fatal(err)
	}
}

// The oracle: every assignment of machines to wants, tried one by one.
func possible(wants []Want, free []inventory.Machine) bool {
	if len(free) == 0 {
		for _, w := range wants {
			if w.Nodes > 0 {
				return false
			}
		}
		return true
	}
	for i := range wants {
		if wants[i].Nodes > 0 && wants[i].Class.Has(free[0]) {
			wants[i].Nodes--
			ok := possible(wants, free[1:])
			wants[i].Nodes++
			if ok {
				return true
			}
		}
	}
	return possible(wants, free[1:])
}

func TestChooseFindsAnAnswerExactlyWhenThereIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cpus := rapid.SliceOfN(rapid.IntRange(1, 6), 0, 6).Draw(t, "cpus")
		var wants []Want
		for i := range rapid.IntRange(1, 3).Draw(t, "wants") {
			op := rapid.SampledFrom([]string{">=", "<=", "=", "!="}).Draw(t, "op")
			c := class(t, fmt.Sprintf("c%d", i), fmt.Sprintf("cpus %s %d", op, rapid.IntRange(1, 6).Draw(t, "value")))
			wants = append(wants, Want{Class: c, Nodes: rapid.IntRange(0, 3).Draw(t, "nodes")})
		}
		free := machines(cpus...)
		chosen, err := Choose(wants, free, nil)
		if (err == nil) != possible(wants, free) {
			t.Fatalf("wants %v of %v: %v", wants, cpus, err)
		}
		if err != nil {
			return
		}
		used := map[string]bool{}
		for i, group := range chosen {
			if len(group) != wants[i].Nodes {
				t.Fatalf("want %d got %d machines", wants[i].Nodes, len(group))
			}
			for _, m := range group {
				if used[m.ID] || !wants[i].Class.Has(m) {
					t.Fatalf("machine %s used twice or of the wrong class", m.Name)
				}
				used[m.ID] = true
			}
		}
	})
}

func BenchmarkChoose1000Of10000(b *testing.B) {
	free := make([]inventory.Machine, 10000)
	for i := range free {
		free[i] = inventory.Machine{ID: fmt.Sprint(i), Name: fmt.Sprintf("r%02dn%03d", i/100, i%100),
			Facts: inventory.Facts{CPUs: 64}}
	}
	wants := []Want{{Class: class(b, "any", "cpus >= 1"), Nodes: 1}, {Class: class(b, "epyc", "cpus >= 64"), Nodes: 1000}}
	for b.Loop() {
		if _, err := Choose(wants, free, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// A choice for which there is too much to look at ends, wherever it has come to, and says so; with as much as it needs it is
// made.
func TestAChoiceLooksAtSoMuchOnly(t *testing.T) {
	any, big := class(t, "any", "cpus >= 1"), class(t, "big", "cpus >= 8")
	all := machines(8, 8, 1, 1)
	wants := []Want{{Class: any, Nodes: 2}, {Class: big, Nodes: 2}}
	enough := 0
	for ; ; enough++ {
		chosen, err := Choose(wants, all, NewLooks(enough))
		if err == nil {
			if names(chosen) != "m3 m4 | m1 m2 | " {
				t.Error(names(chosen))
			}
			break
		}
		if !errors.Is(err, ErrLooks) {
			t.Fatalf("with %d steps: %v", enough, err)
		}
	}
	if least := (perSorted + 2*PerMachine) * len(all); enough < least || enough > 2*least {
		t.Errorf("%d steps for two classes and four machines", enough)
	}
	for range 100 { // which select alike, and cost no look at the machines
		wants = append(wants, Want{Class: big})
	}
	if _, err := Choose(wants, all, NewLooks(2*enough)); err != nil {
		t.Error(err)
	}
}
