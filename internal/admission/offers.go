package admission

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"muster/internal/kit/words"
	"muster/internal/spec"
)

// OfferKind is what an offer would have one ask for instead.
type OfferKind string

// The kinds.
const (
	LaterStart   OfferKind = "later"
	ShorterLease OfferKind = "shorter"
	FewerNodes   OfferKind = "smaller"
	OtherClass   OfferKind = "other-class"
)

// Offer is a change of a cluster file with which it would fit, as things stand. Only the fields of its kind are set.
type Offer struct {
	Kind  OfferKind
	Text  string // what fits, with what to write
	Start time.Time
	For   time.Duration
	Queue string
	Nodes int // that the queue would begin with
	Class string
}

// offer adds an offer to a refusal, and its words to the hint.
func (r *Refusal) offer(o Offer) {
	r.Offers = append(r.Offers, o)
	d := &r.Diagnostics[len(r.Diagnostics)-1]
	if d.Hint != "" {
		d.Hint += "; "
	}
	d.Hint += o.Text
}

// fit is the verb of so many nodes.
func fit(nodes int) string {
	if nodes == 1 {
		return "fits"
	}
	return "fit"
}

// How many plans are made for one kind of offer: each costs as much as the one that was refused.
const (
	mostSizes   = 2
	mostClasses = 2
)

// Instead adds to a refusal of a file what would be admitted: fewer nodes of the queue that it is about, or as many of another
// class if the cluster does not run. plan plans a file as the refused one was; whatever is offered has been planned.
func (a *Admission) Instead(r *Refusal, c spec.Cluster, runs bool, plan func(spec.Cluster) (*Plan, error)) error {
	short := c.Nodes != 0 && len(c.Queues) == 0
	if short {
		c.Queues, c.Nodes = []spec.Queue{{Name: spec.MainQueue, Nodes: new(c.Nodes)}}, 0
	}
	i := slices.IndexFunc(c.Queues, func(q spec.Queue) bool { return r.Diagnostics[0].Path == sizePath(q.Name) })
	if r.lacks == 0 || i < 0 {
		return nil
	}
	with := func(q spec.Queue) (*Plan, *Refusal, error) {
		instead := c
		instead.Queues = slices.Clone(c.Queues)
		instead.Queues[i] = q
		p, err := plan(instead)
		refused, err := asRefusal(err)
		return p, refused, err
	}
	if err := fewer(r, c.Queues[i], with); err != nil || runs { // nodes of a cluster that runs would be replaced
		return err
	}
	return a.otherwise(r, c, c.Queues[i], short, with)
}

// replan plans a file with a queue instead of the one that was refused. The refusal is nil if it would be admitted.
type replan func(spec.Queue) (*Plan, *Refusal, error)

// fewer offers as many nodes of a queue as there is room for.
func fewer(r *Refusal, q spec.Queue, with replan) error {
	field, size := "nodes", &q.Nodes
	if q.Nodes == nil {
		field, size = "min", &q.Min
	}
	if *size == nil {
		return nil
	}
	nodes, why := **size, r
	for range mostSizes {
		if nodes -= why.lacks; nodes < 1 || why.lacks == 0 || why.Diagnostics[0].Path != r.Diagnostics[0].Path {
			return nil
		}
		*size = &nodes
		p, refused, err := with(q)
		if err != nil {
			return err
		}
		if why = refused; why != nil {
			continue
		}
		if p.current == nil || !p.Empty() {
			r.offer(Offer{Kind: FewerNodes, Queue: q.Name, Nodes: nodes,
				Text: fmt.Sprintf("%s of queue %s %s: %s: %d", words.Count(nodes, "node"), q.Name, fit(nodes), field, nodes)})
		}
		return nil
	}
	return nil
}

// otherwise offers the first other class that has room for a queue, which a short file does not write as one. Classes of heads
// are for heads, and guests have a shape that machines have not.
func (a *Admission) otherwise(r *Refusal, c spec.Cluster, q spec.Queue, short bool, with replan) error {
	now := cmp.Or(q.Class, a.Catalogue.Class)
	asked, _ := a.Catalogue.Find(now)
	not := append([]string{now, a.Catalogue.Head}, q.Or...)
	if c.Head != nil {
		not = append(not, c.Head.Class)
	}
	tried := 0
	for _, class := range a.Catalogue.Classes {
		if class.Hypervisor != asked.Hypervisor || slices.Contains(not, class.Name) {
			continue
		}
		if tried++; tried > mostClasses {
			return nil
		}
		q.Class, q.Or = class.Name, nil
		_, refused, err := with(q)
		if err != nil {
			return err
		}
		if refused == nil {
			write := "class: " + class.Name
			if short {
				write = fmt.Sprintf("queues: [{name: %s, class: %s, nodes: %d}]", q.Name, class.Name, *q.Nodes)
			}
			r.offer(Offer{Kind: OtherClass, Queue: q.Name, Class: class.Name,
				Text: fmt.Sprintf("queue %s fits in another class: %s", q.Name, write)})
			return nil
		}
	}
	return nil
}
