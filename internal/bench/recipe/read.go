package recipe

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"muster/internal/kit/lists"
)

// Sample is one value that a step has measured.
type Sample struct {
	Quantity string            `json:"quantity"`
	Labels   map[string]string `json:"labels,omitempty"` // what divides the quantity: the named groups of its lines
	Node     string            `json:"node,omitempty"`   // on which it was measured, where the group node says it
	Value    float64           `json:"value"`
	Unit     string            `json:"unit"`
	Better   string            `json:"better"`
}

// Result is what a step's output says.
type Result struct {
	Samples []Sample
	// Wrong are the sentences why the samples, if there are any, do not count: a quantity that is missing, a check that failed.
	Wrong []string
}

// mostSamples of a quantity in one step are read, and told as wrong beyond.
const mostSamples = 500

// MostText is how much of each text is read, in bytes.
const MostText = 1 << 20

// Output is what a step left: what its command wrote, under the name "", and files of its folder.
type Output map[string]string

// text is what is read of one of them.
func (o Output) text(from string) (text string, there bool) {
	text, there = o[from]
	return text[:min(len(text), MostText)], there
}

// Result reads a step's output. It never panics, whatever the output is, and its time is linear in the output's length.
func (s Step) Result(out Output) Result {
	var result Result
	wrong := func(format string, arguments ...any) {
		result.Wrong = append(result.Wrong, fmt.Sprintf(format, arguments...))
	}
	for _, r := range s.Recipe.Read {
		text, there := out.text(r.From)
		if !there {
			wrong("%s: there is no file %s", r.Quantity, r.From)
			continue
		}
		e, err := lines(r.Lines)
		if err != nil { // it was parsed
			wrong("%s: %v", r.Quantity, err)
			continue
		}
		found := e.FindAllStringSubmatch(text, mostSamples+1)
		switch {
		case len(found) == 0:
			wrong("%s: no line matches %s", r.Quantity, r.Lines)
		case len(found) > mostSamples:
			wrong("%s: more than %d lines match %s", r.Quantity, mostSamples, r.Lines)
			found = found[:mostSamples]
		}
		for _, groups := range found {
			v, err := value(e, groups)
			if err != nil {
				wrong("%s: %v", r.Quantity, err)
				continue
			}
			node, others := labels(e, groups)
			result.Samples = append(result.Samples, Sample{r.Quantity, others, node, v, r.Unit, r.Better})
		}
	}
	for _, from := range slices.Sorted(maps.Keys(out)) {
		if len(out[from]) > MostText {
			into := strings.TrimSuffix(" into "+from, " into ")
			wrong("it wrote more than %d MiB%s, of which the rest was not read", MostText>>20, into)
		}
	}
	for i, c := range s.Recipe.Valid {
		for _, sentence := range s.check(fmt.Sprintf("valid[%d].equals", i), c, out) {
			wrong("%s", sentence)
		}
	}
	return result
}

// value is the number of the group value.
func value(e *regexp.Regexp, groups []string) (float64, error) {
	text := groups[e.SubexpIndex("value")]
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !finite(v) {
		return 0, fmt.Errorf("%s is no number, in the line %s", clip(text), clip(groups[0]))
	}
	return v, nil
}

// labels are the other groups with names, but for that of the node; nil: there is none.
func labels(e *regexp.Regexp, groups []string) (node string, others map[string]string) {
	for i, name := range e.SubexpNames() {
		switch name {
		case "", "value":
		case "node":
			node = clip(groups[i])
		default:
			if others == nil {
				others = map[string]string{}
			}
			others[name] = clip(groups[i])
		}
	}
	return node, others
}

// check is what is wrong with an output by one check.
func (s Step) check(path string, c Check, out Output) (wrong []string) {
	text, there := out.text(c.From)
	if !there {
		return []string{"there is no file " + c.From}
	}
	e, err := lines(c.Some + c.None)
	if err != nil { // it was parsed
		return []string{err.Error()}
	}
	if c.None != "" {
		if line := e.FindString(text); line != "" {
			wrong = append(wrong, "it says "+clip(line))
		}
		return wrong
	}
	found := e.FindAllStringSubmatch(text, mostSamples)
	if len(found) == 0 {
		return []string{"no line matches " + c.Some}
	}
	if c.Equals == "" {
		return nil
	}
	want, err := evaluate(path, c.Equals, s.values)
	if err != nil {
		return []string{err.Error()}
	}
	for _, groups := range found {
		got, err := value(e, groups)
		switch {
		case err != nil:
			return []string{err.Error()}
		case math.Abs(got-want) > 1e-9*math.Abs(want): // expressions are rounded
			return []string{fmt.Sprintf("it says %s, which is not %s", clip(groups[0]), number(want))}
		}
	}
	return nil
}

// clip keeps a sentence short, whatever a program wrote.
func clip(text string) string {
	const most = 80
	if runes := []rune(strings.TrimSpace(text)); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return strings.TrimSpace(text)
}

// Series names what samples are values of: the quantity with its labels, the step's parameters among them.
func (s Step) Series(sample Sample) string {
	all := replaced(s.Parameters, sample.Labels)
	if len(all) == 0 {
		return sample.Quantity
	}
	parts := lists.Map(slices.Sorted(maps.Keys(all)), func(key string) string { return key + "=" + all[key] })
	return sample.Quantity + "{" + strings.Join(parts, ",") + "}"
}
