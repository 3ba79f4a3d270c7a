package fake

import (
	"context"
	"fmt"
	"slices"

	"muster/internal/drivers/substrate"
)

// fault is what happens to one start; the zero value is none.
type fault struct {
	err  error           // the start fails, half-made
	hang <-chan struct{} // the start stands still until this is closed or ctx ends
}

func (f fault) strike(ctx context.Context) error {
	if f.hang != nil {
		select {
		case <-f.hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return f.err
}

// nextFault takes the node's next fault if one is due. The caller holds mu.
func (s *Substrate) nextFault(node string, due bool) fault {
	waiting := s.faults[node]
	if !due || len(waiting) == 0 {
		return fault{}
	}
	s.faults[node] = waiting[1:]
	return waiting[0]
}

// FailEnsure makes the node's next starts fail, this many times, and leave it half-made. err nil means ErrInjected.
// Faults queue up: each start takes one.
func (s *Substrate) FailEnsure(node string, times int, err error) {
	if err == nil {
		err = ErrInjected
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[node] = append(s.faults[node], slices.Repeat([]fault{{err: err}}, times)...)
}

// HangEnsure makes the node's next start stand still until release is called or the start's ctx ends. Call it once.
func (s *Substrate) HangEnsure(node string) (release func()) {
	hang := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[node] = append(s.faults[node], fault{hang: hang})
	return func() { close(hang) }
}

// Die ends the node's first process, as a crash of the node does; detail is what Observe then says. A node that does not
// run is left alone.
func (s *Substrate) Die(r substrate.Ref, detail string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held, ok := s.nodes[nameOf(r)]; ok && held.running {
		held.running, held.detail = false, detail
	}
}

// HalfMake leaves the node as a controller does that was killed in the middle of an Ensure.
func (s *Substrate) HalfMake(n substrate.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[nameOf(n.Ref)] = &node{
		busy: make(chan struct{}, 1), highest: n.Boot, present: true, of: n, detail: "its start was not finished",
	}
}

// DieWithMachine ends all nodes of a machine at once, as a power cut does, and says how many. Those that sleep there are lost as
// well.
func (s *Substrate) DieWithMachine(machine string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	dead := 0
	for _, held := range s.nodes {
		if (held.running || held.asleep) && held.of.Machine == machine {
			held.running, held.asleep, held.detail = false, false, fmt.Sprintf("machine %s lost power", machine)
			dead++
		}
	}
	return dead
}

// Told is the node of a boot that is present, as Ensure was told of it.
func (s *Substrate) Told(r substrate.Ref) substrate.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held, there := s.nodes[nameOf(r)]; there && held.of.Boot == r.Boot {
		return held.of
	}
	return substrate.Node{}
}

// Calls returns the counts so far.
func (s *Substrate) Calls() Calls {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Violations returns what must never have happened and did, in words. A test of a controller ends by asking that there
// are none.
func (s *Substrate) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// Facts are those of a simulated machine. They have the fields that any inventory asks first.
type Facts struct {
	Machine   string `json:"machine"`
	Hostname  string `json:"hostname"`
	Arch      string `json:"arch"`
	Cores     int    `json:"cores"`
	Threads   int    `json:"threads"`
	MemoryMiB int    `json:"memory_mib"`
}

// Inspect answers for any machine, always the same.
func (s *Substrate) Inspect(ctx context.Context, machine string) (Facts, error) {
	return Facts{Machine: machine, Hostname: machine, Arch: "amd64", Cores: 16, Threads: 32, MemoryMiB: 64 << 10}, ctx.Err()
}
