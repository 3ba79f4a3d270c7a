package bench

import (
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"muster/internal/bench/recipe"
	"muster/internal/bench/round"
	"muster/internal/kinds/task"
	"muster/internal/protocol"
)

const (
	startsIn = time.Minute // what a round takes beside its steps, at most
	longest  = 7 * 24 * time.Hour
)

// Plan is what a run does: all that it needs, so that a recipe that changes later changes no run.
type Plan struct {
	Suite    recipe.Suite              `json:"suite"`
	Recipes  map[string]*recipe.Recipe `json:"recipes"` // of the suite
	Nodes    recipe.Nodes              `json:"nodes"`
	Queue    string                    `json:"queue,omitempty"`
	Reserved string                    `json:"reserved,omitempty"` // the reservation of the cluster's that it runs in
	Rounds   int                       `json:"rounds"`             // of one that is to be precise, the most
	Seed     uint64                    `json:"seed"`               // of the orders of steps, and of turns
	Mark     string                    `json:"mark"`               // of lines in jobs' output
	Precise  float64                   `json:"precise,omitempty"`  // how far intervals may reach for it to end
	Second   bool                      `json:"second,omitempty"`   // of two runs in turns: it is side B
}

// Drawn is the plan with lots and a mark of its own.
func (p Plan) Drawn() Plan {
	var seed [8]byte
	_, _ = crand.Read(seed[:])
	p.Seed, p.Mark = binary.LittleEndian.Uint64(seed[:]), strings.ToLower(crand.Text())
	return p
}

// Turn says that a round may begin where the other side has ended so many rounds. Sides take turns, and lots say which is the
// first of a pair: so what drifts while both are measured drifts for both.
func (p Plan) Turn(number, otherEnded int) bool {
	secondFirst := rand.New(rand.NewPCG(p.Seed, ^uint64(number))).IntN(2) == 1
	if secondFirst == p.Second {
		return otherEnded >= number
	}
	return otherEnded > number
}

// Steps are the plan's steps; their numbers are those of rows.
func (p Plan) Steps() ([]recipe.Step, error) {
	l := recipe.Library{Recipes: p.Recipes}
	return l.Steps(&p.Suite, p.Nodes)
}

// Work is what the task of a round runs: all steps that can run, in an order that the plan's seed says.
func (p Plan) Work(number int) (task.Work, error) {
	steps, err := p.Steps()
	if err != nil {
		return task.Work{}, err
	}
	var order []int
	limit := startsIn
	for _, i := range rand.New(rand.NewPCG(p.Seed, uint64(number))).Perm(len(steps)) {
		if steps[i].Skip != "" {
			continue
		}
		seconds, err := steps[i].Limit()
		if err != nil {
			return task.Work{}, err
		}
		order = append(order, i)
		limit += time.Duration(seconds) * time.Second
	}
	script, err := round.Script(p.Mark, steps, order)
	switch {
	case err != nil:
		return task.Work{}, err
	case len(order) == 0:
		return task.Work{}, fmt.Errorf("nothing in it can run on these nodes: %s", steps[0].Skip)
	case len(script) > protocol.MostScript:
		return task.Work{}, fmt.Errorf("the script of a round has %d bytes, and %d are the most: leave some recipes or values out",
			len(script), protocol.MostScript)
	}
	return task.Work{Script: script, Queue: p.Queue, Nodes: p.Nodes.Nodes, Whole: true, Reservation: p.Reserved,
		Limit: min(limit, longest)}, nil
}

// Expected is how long a round should take, by what its recipes say.
func (p Plan) Expected() (all time.Duration, err error) {
	steps, err := p.Steps()
	for _, s := range steps {
		if s.Skip != "" || err != nil {
			continue
		}
		var seconds float64
		seconds, err = s.Expected()
		all += time.Duration(seconds * float64(time.Second))
	}
	return all, err
}
