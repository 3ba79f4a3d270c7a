// Package papers has what papers have published, and finds what runs of their suites show beside it.
//
// What enters: the papers, files of this folder, and runs and comparisons as the API shows them. What leaves: published values
// and measured ones side by side, in the paper's units, and what became of the paper's claims. It is pure.
package papers

import (
	"embed"
	"fmt"
	"io/fs"

	"github.com/goccy/go-yaml"
)

//go:embed *.yaml
var files embed.FS

// Paper is what is published of an evaluation.
type Paper struct {
	Suite   string // the suite that measures the same
	Title   string
	By      string
	About   string // on what it was measured
	Panels  []Panel
	Claims  []Claim
	Without []Without
}

// Panel is a table or a figure, or the part of one that has one unit. With rows and no x, it is a table of those; with an x, it
// is a figure over it, in which each row is a point.
type Panel struct {
	Figure string // as the paper numbers it
	Shows  string
	Says   string // what the paper concludes
	Unit   string // "": that of what is measured beside it
	Of     string // what is measured beside it, which all of Each begin with
	Each   Parts  // the columns of a table, or the lines of a figure
	Rows   []Row
	X      string // a parameter or label
	Lines  string // another one, by whose values each line is divided
	Times  bool   // the rows are one cluster at several times: the first run is beside the first of them
}

// Part is one of the things that a panel shows.
type Part struct{ Name, Of string }

// Parts are in the order in which they are written.
type Parts []Part

// UnmarshalYAML reads names with what is measured beside each.
func (p *Parts) UnmarshalYAML(read func(any) error) error {
	var all yaml.MapSlice
	if err := read(&all); err != nil {
		return err
	}
	for _, one := range all {
		*p = append(*p, Part{fmt.Sprint(one.Key), fmt.Sprint(one.Value)})
	}
	return nil
}

// Row is what a paper has of one system, or at one x: a value for each part.
type Row struct {
	What string
	Is   []Span
}

// Span is a value, or all between two.
type Span struct{ Low, High float64 }

// UnmarshalYAML reads a number or a list of two.
func (s *Span) UnmarshalYAML(read func(any) error) error {
	if read(&s.Low) == nil {
		s.High = s.Low
		return nil
	}
	var both []float64
	if err := read(&both); err != nil {
		return err
	}
	if len(both) != 2 || both[0] > both[1] {
		return fmt.Errorf("%v is neither a number nor the least and the most", both)
	}
	s.Low, s.High = both[0], both[1]
	return nil
}

// Claim is a sentence of a paper as a ratio: what is measured over what it is beside.
type Claim struct {
	Figure string
	Says   string
	Of     string
	Beside string  // "native": the same on machines, where Of is in virtual machines
	Least  float64 // of the ratio, where the sentence is true; 0: none
	Most   float64 // 0: none
}

// Without is what a paper has and its suite has not.
type Without struct {
	Values    int // how many numbers
	What, Why string
}

// All are the papers that there are, in their order.
func All() ([]Paper, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	var all []Paper
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var p Paper
		if err := yaml.UnmarshalWithOptions(text, &p, yaml.Strict()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, p)
	}
	return all, nil
}
