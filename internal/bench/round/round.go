// Package round has one round of a benchmark done: each step of a suite once, in one job of a cluster's scheduler.
//
// What enters: steps, and what the job wrote, as far as it has come. What leaves: the job's script, and what each step left. It
// is pure. The job has bash, coreutils and what the recipes ask for, and nothing of ours: so any cluster can run it.
package round

import (
	"bytes"
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

// Script is a job's script: it runs the steps in this order. They are known by their numbers in steps. What is between the marked
// lines is theirs. It leaves nothing behind, and does not end before all has been tried.
func Script(of string, steps []recipe.Step, order []int) (string, error) {
	if !mark.MatchString(of) {
		return "", fmt.Errorf("%q is no mark", of)
	}
	var b strings.Builder
	fmt.Fprintf(&b, prologue, of, recipe.MostText+1)
	for _, number := range order {
		if err := call(&b, number, steps[number]); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

const prologue = `#!/bin/bash
mark=%s most=%d
say() { printf '\n@%%s %%s\n' "$mark" "$*"; }
find "$HOME" -maxdepth 1 -name '.muster-bench.*' -mtime +2 -exec rm -rf -- {} + # of jobs that were killed
root=$(mktemp -d "$HOME/.muster-bench.XXXXXXXX") || exit
trap 'cd /; rm -rf -- "$root"' EXIT
trap 'exit 143' TERM
# step NUMBER LIMIT PROGRAMS WANTED NAME=TEXT...: the files, and run.sh among them, are in base64.
step() {
	local number=$1 limit=$2 programs=$3 wanted=$4 began file
	shift 4
	for file in $programs; do
		command -v "$file" >/dev/null || { say missing "$number" "$file"; return; }
	done
	mkdir -- "$root/$number" && cd -- "$root/$number" || return
	for file; do
		base64 -d <<<"${file#*=}" >"${file%%%%=*}" || return
	done
	say begin "$number"
	began=$EPOCHREALTIME
	{
		timeout -k 10 "$limit" bash run.sh </dev/null 2>&1 & # which is a process group of its own
		wait $!
		echo $? >"$root/status"
		kill -KILL -- -$! # whatever it has left running
	} 2>/dev/null | { head -c "$most"; cat >/dev/null; }
	say end "$number" "$(<"$root/status")" "$began" "$EPOCHREALTIME"
	for file in $wanted; do
		[[ -f $file ]] && say file "$number" "$file" "$(head -c "$most" -- "$file" | base64 -w0)"
	done
	cd / && rm -rf -- "${root:?}/$number"
}
`

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
	files["run.sh"] = command
	programs, wanted := strings.Join(s.Recipe.Needs.Programs, " "), strings.Join(s.Wanted(), " ")
	fmt.Fprintf(b, "step %d %d '%s' '%s'", number, limit, programs, wanted)
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
	Missing string    // a program that it needs and that is not there: it did not run
	Output  recipe.Output
}

// Took is how long it ran.
func (r Ran) Took() time.Duration { return r.Ended.Sub(r.Began) }

// Read is what a job has written so far: by number, what each step has left that has begun. Bytes after a begin are a step's
// until the next marked line. Lines that are not as the script writes them are nobody's.
func Read(of string, text []byte) map[int]*Ran {
	all := map[int]*Ran{}
	rest, sign, current := text, []byte("\n@"+of+" "), (*Ran)(nil)
	for {
		before, after, found := bytes.Cut(rest, sign)
		if current != nil {
			current.Output[""] = string(before)
			current = nil
		}
		if !found {
			return all
		}
		line, more, _ := bytes.Cut(after, []byte("\n"))
		rest = more
		words := strings.Fields(string(line))
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
