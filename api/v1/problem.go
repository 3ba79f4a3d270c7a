package v1

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Problem is how every error is told (RFC 9457), with a stable code and what is wrong in detail.
type Problem struct {
	Title  string       `json:"title" doc:"the status in words"`
	Status int          `json:"status"`
	Code   string       `json:"code" doc:"stable; programs may branch on it" enum:"invalid,no-capacity,quota,budget,conflict,not-found,unauthorized,forbidden,internal,unavailable"`
	Detail string       `json:"detail" doc:"what is wrong and what would work, as text for people"`
	Offers []Offer      `json:"offers,omitempty" doc:"changes with which it would fit, each by itself, where any are known"`
	Errors []Diagnostic `json:"errors,omitempty" doc:"one entry per error: where, what, and what would work"`

	Cause error `json:"-"` // what only the log is told
}

// Offer is a change of a cluster file with which it would fit, as things stand; detail says it in words, too. Only the fields of
// its kind are there.
type Offer struct {
	Kind  string     `json:"kind" enum:"later,shorter,smaller,other-class"`
	Text  string     `json:"text" doc:"what fits, with what to write, as text for people"`
	Start *time.Time `json:"start,omitempty" doc:"later: for lease.start"`
	For   string     `json:"for,omitempty" doc:"shorter: for lease.for"`
	Queue string     `json:"queue,omitempty" doc:"smaller, other-class: the queue to change"`
	Nodes int        `json:"nodes,omitempty" doc:"smaller: how many nodes it would begin with"`
	Class string     `json:"class,omitempty" doc:"other-class: that of the queue"`
}

// Error is its detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus is the HTTP status that it is told with.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is that of RFC 9457.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// Diagnostic is one thing wrong with a cluster file: where, what, and what would work.
type Diagnostic struct {
	Code string `json:"code"`
	Path string `json:"path"` // "queues[1].class"; empty for the file as a whole
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"` // from 1; 0 while not located
	Col  int    `json:"col,omitempty"`  // from 1, in characters
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

// Error prints "cluster.yaml:7:12: queues[0].max: must be … (hint)", less whatever is not known.
func (d Diagnostic) Error() string {
	where := d.File
	if d.Line > 0 {
		if where != "" {
			where += ":"
		}
		where += strconv.Itoa(d.Line) + ":" + strconv.Itoa(d.Col)
	}
	parts := slices.DeleteFunc([]string{where, d.Path, d.Text}, func(s string) bool { return s == "" })
	text := strings.Join(parts, ": ")
	if d.Hint != "" {
		text += " (" + d.Hint + ")"
	}
	return text
}
