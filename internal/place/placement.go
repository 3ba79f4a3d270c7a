// Package place chooses machines, and parts of machines for guests: pure functions, no I/O, the same answer for the same
// question.
//
// What enters: which nodes are wanted and which machines are free; what a guest asks and what its host has. What leaves: a
// machine for every node, or which class is short by how many; the exact cores, memory and devices of a guest, or why not.
package place

import (
	"cmp"
	"fmt"
	"slices"

	"muster/internal/inventory"
	"muster/internal/kit/lists"
	"muster/internal/kit/words"
	"muster/internal/place/topology"
)

// Want is a number of nodes of one class.
type Want struct {
	Class  inventory.Class
	Nodes  int
	Policy Policy        // how they are to lie in the network; "": anywhere
	Map    *topology.Map // of the network that the policy speaks of; nil: where machines are is not known
	Beside []string      // IDs of the machines of nodes that are there, with which they are to lie so
	Group  string        // wants of one group lie so together; "": of none
}

// Shortage says that a class cannot give what is asked of it, even with the best sharing between classes that overlap.
type Shortage struct {
	Class string
	Asked int // in all wants of the class
	Free  int // machines of the class that are free and not needed by wants that are scarcer
	Lacks int // nodes that the want lacks which is short
}

func (s *Shortage) Error() string {
	return fmt.Sprintf("class %s: %d asked, %d free", s.Class, s.Asked, s.Free)
}

// Choose gives every want its machines, in the wants' order. Machines are taken in the order of their names, so that clusters
// lie together and the choice can be foreseen; those that a policy chose are place by place. Classes may overlap: a machine
// goes to the want that has fewer others to choose from, and is handed on when a later want can use nothing else. A policy
// chooses among what is left to a want by that: no want goes without for it, but one for a single switch goes without where there
// is none.
//
// The error is a *Shortage, an *Apart, or ErrLooks. Cost: classes × free machines, plus, only when classes overlap and run
// short, one search over the wants per node, plus, of wants with a policy, about nodes × free machines.
func Choose(wants []Want, free []inventory.Machine, looks *Looks) ([][]inventory.Machine, error) {
	if !looks.Take(perSorted * len(free)) {
		return nil, ErrLooks
	}
	m := matching{wants: slices.Clone(wants), free: slices.Clone(free), owner: make([]int, len(free)),
		held: make([]int, len(wants)), laid: make([][]int, len(wants)), looks: looks}
	slices.SortFunc(m.free, func(a, b inventory.Machine) int { return words.Naturally(a.Name, b.Name) })
	m.candidates()
	err := m.fill()
	if err == nil {
		err = m.narrow()
	}
	switch {
	case looks.Spent():
		return nil, ErrLooks
	case err != nil:
		return nil, err
	}
	if m.arrange(); looks.Spent() {
		return nil, ErrLooks
	}
	return m.result(), nil
}

// fill gives every want as many machines as it asks for, whichever, and forgets what was given before. The error is a *Shortage.
func (m *matching) fill() error {
	m.next = make([]int, len(m.wants))
	clear(m.held)
	for i := range m.owner {
		m.owner[i] = nobody
	}
	order := make([]int, len(m.wants)) // scarcest first
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(m.fits[a]), len(m.fits[b])) })
	for _, w := range order {
		for m.held[w] < m.wants[w].Nodes {
			if !m.take(w) && !m.handOn(w) {
				return m.shortage(w)
			}
		}
	}
	return nil
}

const nobody = -1

// matching is the state of one choice.
type matching struct {
	wants []Want
	free  []inventory.Machine
	fits  [][]int // want → machines of its class
	owner []int   // machine → want, or `nobody`
	held  []int   // want → how many machines it has
	next  []int   // want → where to look for the next free machine in fits
	laid  [][]int // want → its machines place by place, where its policy chose them
	looks *Looks
	lands map[*topology.Map]*landscape // maps with nothing on them
}

// candidates finds the machines of every want's class, once for wants that select alike.
func (m *matching) candidates() {
	m.fits = make([][]int, len(m.wants))
	summaries := lists.Map(m.free, func(machine inventory.Machine) inventory.Summary { return machine.Facts.Summary() })
	for w, want := range m.wants {
		alike := slices.IndexFunc(m.wants[:w], func(other Want) bool {
			return slices.Equal(other.Class.Select, want.Class.Select)
		})
		if alike >= 0 {
			m.fits[w] = m.fits[alike]
			continue
		}
		if !m.looks.Take(w + PerMachine*len(m.free)) {
			return
		}
		for i, machine := range m.free {
			if want.Class.Selects(machine, summaries[i]) {
				m.fits[w] = append(m.fits[w], i)
			}
		}
	}
}

// take gives want w the next machine that no want owns.
func (m *matching) take(w int) bool {
	for ; m.next[w] < len(m.fits[w]) && m.looks.Take(1); m.next[w]++ {
		if i := m.fits[w][m.next[w]]; m.owner[i] == nobody {
			m.owner[i] = w
			m.held[w]++
			return true
		}
	}
	return false
}

// handOn finds a chain of wants, from w to one that can take a fresh machine, in which each can use a machine of the
// next, and moves one machine along it: a shortest augmenting path.
func (m *matching) handOn(w int) bool {
	type step struct{ from, machine int }
	came := map[int]step{w: {nobody, nobody}}
	queue := []int{w}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if !m.looks.Take(len(m.fits[at])) {
			return false
		}
		for _, i := range m.fits[at] {
			other := m.owner[i]
			if _, seen := came[other]; seen {
				continue
			}
			came[other] = step{at, i}
			if !m.take(other) {
				queue = append(queue, other)
				continue
			}
			m.held[w]++
			for at := other; at != w; at = came[at].from {
				m.owner[came[at].machine] = came[at].from
			}
			m.held[other]--
			return true
		}
	}
	return false
}

func (m *matching) shortage(w int) *Shortage {
	s := &Shortage{Class: m.wants[w].Class.Name, Lacks: m.wants[w].Nodes - m.held[w]}
	for i, want := range m.wants {
		if want.Class.Name == s.Class {
			s.Asked += want.Nodes
			s.Free += m.held[i]
		}
	}
	return s
}

func (m *matching) result() [][]inventory.Machine {
	chosen := make([][]inventory.Machine, len(m.wants))
	for i, w := range m.owner {
		if w != nobody && m.laid[w] == nil {
			chosen[w] = append(chosen[w], m.free[i])
		}
	}
	for w, machines := range m.laid {
		for _, i := range machines {
			chosen[w] = append(chosen[w], m.free[i])
		}
	}
	return chosen
}
