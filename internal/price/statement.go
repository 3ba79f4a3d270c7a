package price

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// By says how much of a statement goes into one line.
type By string

// A line for each queue of a cluster, for each life of a node, or for each row.
const (
	ByQueue By = "queue"
	ByNode  By = "node"
	ByRow   By = "row"
)

// Line is what one thing used at one price.
type Line struct {
	Kind      Kind
	Project   string
	ClusterID string
	Cluster   string
	Node      string // "" by queue
	Queue     string
	Class     string
	Machine   string // "" by queue
	Nodes     int    // lives of nodes in the line
	Time      map[State]time.Duration
	Charged   time.Duration
	GiBMonths float64 // of a /home
	Rate      Amount
	Cost      Amount
	From, To  time.Time // first and last instant counted

	units int64 // charged
	lives map[string]bool
}

// key is what the rows of a line have in common.
type key struct {
	kind                  Kind
	cluster, queue, class string
	subject, state        string
	began                 int64
	rate                  Amount
}

func keyOf(r Usage, by By) key {
	k := key{kind: r.Kind, cluster: r.ClusterID, queue: r.Queue, class: r.Class, rate: r.Rate}
	if by != ByQueue {
		k.subject = r.Subject
	}
	if by == ByRow {
		k.state, k.began = string(r.State), r.From.UnixMilli()
	}
	return k
}

// MostLines are those of one statement.
const MostLines = 10_000

// ErrManyLines says that there are more lines than MostLines.
var ErrManyLines = errors.New("too many lines")

// Sheet makes the lines of rows that fall into a window, by cluster, the head first, /home last. A row that goes on counts up to
// the window's end, which must not be in the future.
type Sheet struct {
	From, To time.Time
	By       By

	at    map[key]*Line
	lines []*Line
}

// Add adds a row; those of a line in any order. It is an ErrManyLines if that would begin a line too many.
func (s *Sheet) Add(r Usage) error {
	k := keyOf(r, s.By)
	r, inside := r.Within(s.From, s.To)
	if !inside {
		return nil
	}
	line := s.at[k]
	if line == nil {
		if len(s.lines) == MostLines {
			return ErrManyLines
		}
		line = &Line{
			Kind: r.Kind, Project: r.Project, ClusterID: r.ClusterID, Cluster: r.Cluster, Queue: r.Queue, Class: r.Class,
			Rate: r.Rate,
			Time: map[State]time.Duration{}, From: r.From, To: r.To, lives: map[string]bool{},
		}
		if s.By != ByQueue {
			line.Node, line.Machine = r.Node, r.Machine
		}
		if s.at == nil {
			s.at = map[key]*Line{}
		}
		s.at[k] = line
		s.lines = append(s.lines, line)
	}
	line.add(r)
	return nil
}

// Lines are the lines of the rows so far.
func (s *Sheet) Lines() []Line {
	lines := s.lines
	slices.SortStableFunc(lines, func(a, b *Line) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.ClusterID, b.ClusterID),
			cmp.Compare(b.Kind, a.Kind),
			cmp.Compare(a.Queue, b.Queue), compareNames(a.Node, b.Node), a.From.Compare(b.From))
	})
	out := make([]Line, len(lines))
	for i, line := range lines {
		out[i] = line.closed()
	}
	return out
}

func (l *Line) add(r Usage) {
	if r.From.Before(l.From) {
		l.From = r.From
	}
	if r.To.After(l.To) {
		l.To = r.To
	}
	l.Time[r.State] += r.To.Sub(r.From)
	l.lives[r.Subject] = true
	if r.Costs() {
		l.Charged += r.To.Sub(r.From)
		l.units += r.Quantity * r.ms()
	}
}

func (l *Line) closed() Line {
	l.Cost = Amount{Micros: cost(l.Kind, l.Rate.Micros, l.units), Currency: l.Rate.Currency}
	if l.Kind == Node {
		l.Nodes = len(l.lives)
	} else {
		l.GiBMonths = float64(l.units) / gibMonth
	}
	return *l
}

// Total adds the lines as they are.
func Total(lines []Line) Sum {
	sum := Sum{}
	for _, l := range lines {
		sum.Add(l.Cost)
	}
	return sum
}

// compareNames puts n2 before n10.
func compareNames(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
