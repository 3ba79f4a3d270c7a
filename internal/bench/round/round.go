// Package round has one round of a benchmark done: each step of a suite once, in one job of a cluster's scheduler.
//
// What enters: steps, and what the job wrote, as far as it has come. What leaves: the job's script, and what each step left. It
// is pure. The job has bash, coreutils and what the recipes ask for, and nothing of ours: so any cluster can run it.
package round

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/bench/recipe"
	"muster/internal/kit/pattern"
)

// mark is what the lines begin with that the script writes: no program can know it when it is written.
var mark = pattern.New(`^[a-z0-9]{8,64}$`)

// MostTexts is how many bytes are kept of all that the steps of a round write: with the looks it is less than is kept of a job.
const MostTexts = 5 << 20

//go:embed job.sh
var template string

// Script is a job's script: it looks at its nodes, runs the steps in this order, and looks again. Steps are known by their
// numbers in steps. What is between the marked lines is theirs. It leaves nothing behind, and does not end before all was tried.
func Script(of string, steps []recipe.Step, order []int) (string, error) {
	if !mark.MatchString(of) {
		return "", fmt.Errorf("%q is no mark", of)
	}
	var b strings.Builder
	programs := map[string]bool{}
	for _, s := range steps {
		for _, name := range s.Recipe.Needs.Programs {
			programs[name] = true
		}
	}
	b.WriteString(strings.NewReplacer("@MARK@", of, "@MOST@", strconv.Itoa(recipe.MostText+1), "@LEFT@", strconv.Itoa(MostTexts),
		"@COMMAND@", recipe.CommandFile, "@PROGRAMS@", strings.Join(slices.Sorted(maps.Keys(programs)), " ")).Replace(template))
	for _, number := range order {
		if err := call(&b, number, steps[number]); err != nil {
			return "", err
		}
	}
	b.WriteString("look\n")
	return b.String(), nil
}

// Happened is the variable in which commands that name it find what has happened to their cluster.
const Happened = "MUSTER_HAPPENED"

// Telling is a script whose commands have what has happened to their cluster: lines without quotes.
func Telling(script, happened string) string {
	return strings.Replace(script, "\n", "\nexport "+Happened+"='"+strings.ReplaceAll(happened, "'", "")+"'\n", 1)
}

// call writes the line of one step.
func call(b *strings.Builder, number int, s recipe.Step) error {
	files, err := s.Files()
	if err != nil {
		return err
	}
	command, err := s.Command()
	if err != nil {
		return err
	}
	limit, err := s.Limit()
	if err != nil {
		return err
	}
	files[recipe.CommandFile] = command
	needs := slices.Concat(s.Recipe.Needs.Programs, s.Recipe.Needs.Files)
	fmt.Fprintf(b, "step %d %d '%s' '%s'", number, limit, strings.Join(needs, " "), strings.Join(s.Wanted(), " "))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(b, " %s=%s", name, base64.StdEncoding.EncodeToString([]byte(files[name])))
	}
	b.WriteString("\n")
	return nil
}

// Ran is what a step left.
type Ran struct {
	Began   time.Time
	Ended   time.Time // the zero time: it has not ended
	Status  int       // of its command, as bash has it: 124, it took too long
	Missing string    // a program or file that it needs and that is not there: it did not run
	Output  recipe.Output

	Unwritten bool // its folder could not be written: it did not run
	Cut       bool // it has written more than was still kept of what all steps write
	Unkept    bool // a part of what it has written is missing: it could not be read, or the job's own text could not be written
}

// Running says that it has begun and not ended.
func (r Ran) Running() bool { return r.Output != nil && r.Ended.IsZero() }

// Took is how long it ran.
func (r Ran) Took() time.Duration { return r.Ended.Sub(r.Began) }

// Left is what a round has left.
type Left struct {
	Steps         map[int]*Ran // by number, those that have begun
	Before, After Look         // of its nodes; nil: it did not come so far
}

// Read is what a job has written so far. Bytes after a begin are a step's until the next marked line. Lines that are not as the
// script writes them are ignored, as is a last one without its end: it may be cut.
func Read(of string, text []byte) Left {
	all := map[int]*Ran{}
	left := Left{Steps: all}
	rest, sign, current := text, []byte("\n@"+of+" "), (*Ran)(nil)
	for {
		before, after, found := bytes.Cut(rest, sign)
		if current != nil {
			current.Output[""] = string(before)
			current = nil
		}
		if !found {
			return left
		}
		line, more, whole := bytes.Cut(after, []byte("\n"))
		if !whole {
			return left
		}
		rest = more
		words := strings.Fields(string(line))
		if len(words) == 2 && words[0] == "look" {
			if said, err := base64.StdEncoding.DecodeString(words[1]); err == nil && left.Before == nil {
				left.Before = readLook(string(said))
			} else if err == nil {
				left.After = readLook(string(said))
			}
			continue
		}
		if len(words) < 2 {
			continue
		}
		number, err := strconv.Atoi(words[1])
		if err != nil {
			continue
		}
		switch r := all[number]; {
		case words[0] == "missing" && len(words) == 3 && r == nil:
			all[number] = &Ran{Missing: words[2]}
		case words[0] == "unwritten" && len(words) == 2 && r == nil:
			all[number] = &Ran{Unwritten: true}
		case words[0] == "cut" && len(words) == 2 && r != nil:
			r.Cut = true
		case words[0] == "unkept" && len(words) == 2 && r != nil:
			r.Unkept = true
		case words[0] == "begin" && r == nil:
			current = &Ran{Output: recipe.Output{}}
			all[number] = current
		case words[0] == "end" && len(words) == 5 && r != nil && r.Ended.IsZero():
			r.Status, _ = strconv.Atoi(words[2])
			r.Began, r.Ended = instant(words[3]), instant(words[4])
		case words[0] == "file" && (len(words) == 3 || len(words) == 4) && r != nil && r.Output != nil:
			encoded := strings.Join(words[3:], "") // an empty file has none
			if content, err := base64.StdEncoding.DecodeString(encoded); err == nil {
				r.Output[words[2]] = string(content)
			}
		}
	}
}

// instant reads bash's EPOCHREALTIME.
func instant(text string) time.Time {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v < 0 || v > math.MaxInt32*2 {
		return time.Unix(0, 0)
	}
	return time.UnixMicro(int64(v * 1e6))
}
