package gateway

import (
	"container/list"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
)

// preauthLimit is where connections stay until they have said who they are. When it is full, the one that has been there longest
// goes: who comes with a key needs a moment only, and is not kept out by many who say nothing.
type preauthLimit struct {
	limit int

	mu      sync.Mutex
	waiting list.List // of net.Conn, the oldest first
}

// enter lets a connection in, and returns what tells that it has left; that may be called again.
func (h *preauthLimit) enter(conn net.Conn) (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting.Len() >= h.limit {
		oldest := h.waiting.Front()
		h.waiting.Remove(oldest)
		_ = oldest.Value.(net.Conn).Close()
	}
	place := h.waiting.PushBack(conn)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.waiting.Remove(place) // does nothing for one that was put out
	}
}

// visitors are those who are in.
type visitors struct {
	limit int // of one person

	mu  sync.Mutex
	all map[string][]*visit // by person
}

// enter lets a visit in, if its person has not too many.
func (g *visitors) enter(v *visit) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.all[v.who.caller.Name]) >= g.limit {
		return &Refusal{Text: fmt.Sprintf("%s has %d connections open, the most that one person may have", v.who.caller.Name,
			g.limit), Hint: "close some; ssh's ControlMaster carries many sessions over one"}
	}
	if g.all == nil {
		g.all = map[string][]*visit{}
	}
	g.all[v.who.caller.Name] = append(g.all[v.who.caller.Name], v)
	return nil
}

func (g *visitors) leave(v *visit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := v.who.caller.Name
	g.all[name] = slices.DeleteFunc(g.all[name], func(one *visit) bool { return one == v })
	if len(g.all[name]) == 0 {
		delete(g.all, name)
	}
}

// list is everybody who is in now.
func (g *visitors) list() []*visit {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Concat(slices.Collect(maps.Values(g.all))...)
}
