package life

import (
	"sync"
	"time"
)

// How many copies of clusters' files may go on at the same time: each holds one of the engine's workers, for hours perhaps.
const (
	copiesOfOne = 2 // project
	copiesOfAll = 16
)

// TurnAgain is how long a copy that has no turn waits until it asks again.
const TurnAgain = time.Second

// Turns are those of copies. Nil lets all go on.
type Turns struct {
	mu  sync.Mutex
	all int
	of  map[string]int
}

// Take takes a turn for a project, if there is one; leave gives it back.
func (t *Turns) Take(project string) (leave func(), ok bool) {
	if t == nil {
		return func() {}, true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all >= copiesOfAll || t.of[project] >= copiesOfOne {
		return nil, false
	}
	if t.of == nil {
		t.of = map[string]int{}
	}
	t.all++
	t.of[project]++
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.all--
		if t.of[project]--; t.of[project] == 0 {
			delete(t.of, project)
		}
	}), true
}
