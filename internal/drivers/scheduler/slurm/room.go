package slurm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
)

// Slurm refuses jobs that are too large for what their queue has at that moment: 24.11 all, earlier versions some. Queues that
// are to have more nodes than they have would not grow for them, and who submits while a node is replaced would be sent away. It
// does let such jobs wait if they begin held. So the submit script holds those that may be too large, and at its next look the
// head releases them.
//
// The script also notes what Slurm does not tell of jobs that wait: of how many nodes they may have at most, and of their tasks,
// 24.11 shows guesses, and is not believed. Notes are in a comment that only administrators can make: "max_nodes=3,tasks=5,held",
// with 0 for what was not asked for. "held" goes when the job is released.
const (
	// A line for each queue that takes jobs: its name, whether it is the default one, its nodes and their CPUs, how many nodes it
	// may have, and the most CPUs and the most memory, in MiB, that one of its nodes has.
	roomFile = "/run/muster/room"
	heldMark = ",held"
)

// room keeps roomFile.
type room struct {
	files scheduler.Files

	mu     sync.Mutex
	queues []protocol.Queue
	of     map[string]string // the queue of each node
	nodes  []protocol.NodeState
}

// update writes the file after a change.
func (r *room) update(change func(*room)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
	if _, err := r.files.Write(roomFile, []byte(r.text()), 0o644, ""); err != nil {
		return fmt.Errorf("write %s: %w", roomFile, err)
	}
	return nil
}

func (r *room) text() string {
	var b strings.Builder
	for _, q := range r.queues {
		if q.Closed {
			continue
		}
		standard, nodes, cpus, largest := 0, 0, 0, protocol.Size{}
		for _, n := range r.nodes {
			if r.of[n.Name] == q.Name {
				nodes, cpus = nodes+1, cpus+n.Size.CPUs
				largest.CPUs, largest.Memory = max(largest.CPUs, n.Size.CPUs), max(largest.Memory, n.Size.Memory)
			}
		}
		if q.Default {
			standard = 1
		}
		fmt.Fprintf(&b, "%s %d %d %d %d %d %d\n", q.Name, standard, nodes, cpus, q.Most, largest.CPUs, largest.Memory)
	}
	return b.String()
}

// want is what a configuration says of the queues.
func (r *room) want(config *protocol.Config) error {
	return r.update(func(r *room) {
		r.queues, r.of = config.Queues, map[string]string{}
		for _, p := range config.Peers {
			if p.Role == protocol.Compute {
				r.of[p.Name] = p.Queue
			}
		}
	})
}

// saw is what a look at Slurm finds.
func (r *room) saw(nodes []protocol.NodeState) error {
	return r.update(func(r *room) { r.nodes = nodes })
}

// without is called before a node goes.
func (r *room) without(node string) error {
	return r.update(func(r *room) {
		r.nodes = slices.DeleteFunc(slices.Clone(r.nodes), func(n protocol.NodeState) bool { return n.Name == node })
	})
}

// mostReleased bounds the jobs of one look; each takes about a millisecond.
const mostReleased = 500

// heldJob is a job that the submit script has held: its number, its note without the mark, and whether it still is held.
type heldJob struct {
	number, note string
	held         bool
}

// release has Slurm look at jobs that the submit script has held, and takes the mark off: who holds such a job later is not
// overruled.
func (c Control) release(ctx context.Context, jobs []heldJob) error {
	var held []string
	marked := map[string][]string{}
	for _, j := range jobs[:min(len(jobs), mostReleased)] {
		if marked[j.note] = append(marked[j.note], j.number); j.held {
			held = append(held, j.number)
		}
	}
	if len(held) > 0 {
		if _, err := c.run(ctx, "release jobs", "scontrol", "release", strings.Join(held, ",")); !accepted(err) {
			return err
		}
	}
	for _, note := range slices.Sorted(maps.Keys(marked)) {
		numbers := "jobid=" + strings.Join(marked[note], ",")
		if _, err := c.run(ctx, "unmark jobs", "scontrol", "update", numbers, "admincomment="+note); !accepted(err) {
			return err
		}
	}
	return nil
}

// accepted: what Slurm changes of a job that its queue has too few nodes for, it calls an error. A job may have ended since.
func accepted(err error) bool {
	return err == nil || errors.Is(err, ErrUnknown) || strings.Contains(err.Error(), "partition configuration not available now")
}
