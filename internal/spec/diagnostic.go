package spec

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// The codes of this package. They are stable: programs may branch on them. Packages that refuse a cluster for their own reasons
// add codes of their own.
const (
	CodeEncoding         = "invalid-encoding"
	CodeTooLarge         = "too-large"
	CodeEmpty            = "empty-file"
	CodeSyntax           = "syntax"
	CodeYAMLFeature      = "yaml-feature"
	CodeSeveralDocuments = "several-documents"
	CodeUnknownField     = "unknown-field"
	CodeDuplicateKey     = "duplicate-key"
	CodeDuplicateValue   = "duplicate-value"
	CodeWrongType        = "wrong-type"
	CodeEmptyValue       = "empty-value"
	CodeBadValue         = "bad-value"
	CodeMissingField     = "missing-field"
	CodeConflict         = "conflict"
	CodeNotAvailable     = "not-available"
)

// Diagnostics is everything wrong with a cluster file, in the order of the text.
type Diagnostics []Diagnostic

// Error prints one diagnostic a line.
func (ds Diagnostics) Error() string {
	lines := make([]string, len(ds))
	for i, d := range ds {
		lines[i] = d.Error()
	}
	return strings.Join(lines, "\n")
}

// mostFound is how many mistakes of a file are listed. Anybody may send one, and a hint for each of thousands would cost the
// controller seconds of time and megabytes of answer.
const mostFound = 100

// add appends d. In the place of the first one too many it says that there are more.
func (ds *Diagnostics) add(d Diagnostic) {
	if len(*ds) == mostFound {
		d = Diagnostic{Code: CodeTooLarge, Line: d.Line, Col: d.Col,
			Text: "more than " + strconv.Itoa(mostFound) + " mistakes; the others are not listed", Hint: "correct these first"}
	}
	if !ds.full() {
		*ds = append(*ds, d)
	}
}

// full says that nothing more is listed, so that nothing more need be looked for.
func (ds Diagnostics) full() bool { return len(ds) > mostFound }

// sort orders by position; what stands at one place keeps its order.
func (ds Diagnostics) sort() {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
}

// err is ds as an error, and nil when nothing is wrong.
func (ds Diagnostics) err() error {
	if len(ds) == 0 {
		return nil
	}
	return ds
}
