package slurm

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// directive begins a line of a script that is meant for sbatch. It reads those that stand above the first command.
const directive = "#SBATCH"

// option is one of sbatch's that a directive may have, and how its value is written.
type option struct {
	short byte
	value need
}

// need says whether an option has a value.
type need int

// The needs. A value that may be there is written with =.
const (
	never need = iota
	maybe
	always
)

// honoured are the options of sbatch(1) that a task's job may have.
func honoured() map[string]option {
	all := map[string]option{
		"exclusive": {0, maybe}, "nice": {0, maybe}, "no-kill": {'k', maybe}, "contiguous": {}, "hold": {'H', never},
		"overcommit": {'O', never}, "oversubscribe": {'s', never}, "spread-job": {}, "use-min-nodes": {},
		"no-requeue": {}, "reboot": {},
		"account": {'A', always}, "begin": {'b', always}, "constraint": {'C', always}, "core-spec": {'S', always},
		"cpus-per-task": {'c', always}, "dependency": {'d', always}, "distribution": {'m', always}, "exclude": {'x', always},
		"extra-node-info": {'B', always}, "gpus": {'G', always}, "job-name": {'J', always}, "licenses": {'L', always},
		"nodefile": {'F', always}, "nodelist": {'w', always}, "nodes": {'N', always}, "ntasks": {'n', always},
		"partition": {'p', always}, "qos": {'q', always}, "time": {'t', always},
	}
	for _, name := range strings.Fields(`acctg-freq cores-per-socket cpu-freq cpus-per-gpu deadline delay-boot gpu-bind gpu-freq
		gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint kill-on-invalid-dep mail-type mail-user mcs-label mem mem-bind
		mem-per-cpu mem-per-gpu mincpus network ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket power prefer priority
		profile reservation signal sockets-per-node switches thread-spec threads-per-core time-min tmp tres-per-task wait-all-nodes wckey`) {
		all[name] = option{0, always}
	}
	return all
}

// refused are the other options of sbatch, with what would work in the place of each; "": sbatch itself.
func refused() map[string]string {
	shown := "`muster run` shows what the script writes and keeps it; redirect its commands' output, as in `./solver >out.txt`"
	variables := "a task has the environment of a login; set variables in the script"
	all := map[string]string{
		"output": shown, "error": shown, "open-mode": shown, "input": "its standard input is empty; redirect its commands' input",
		"export": variables, "export-file": variables, "get-user-env": variables,
		"chdir":   "it begins at home; write cd into the script",
		"requeue": "a task is started once or not at all", "array": "a task is one job", "comment": "it is the task's ID",
	}
	for _, name := range strings.Fields(`batch bb bbf cluster-constraint clusters container gid help ignore-pbs parsable propagate quiet
		test-only uid usage verbose version wait wrap`) {
		all[name] = ""
	}
	return all
}

// shorts are the letters of options that are not honoured.
func shorts() map[byte]string {
	return map[byte]string{'a': "array", 'D': "chdir", 'e': "error", 'i': "input", 'o': "output", 'M': "clusters", 'W': "wait"}
}

// directives are the options that a script's directives ask for, each as --name or --name=value, and the time that they allow it;
// 0: none. The error says in which line is what cannot be honoured.
func directives(script string) (options []string, limit time.Duration, err error) {
	number := 0
	for line := range strings.Lines(script) {
		number++
		line = strings.TrimRight(line, "\r\n")
		text, ours := strings.CutPrefix(line, directive)
		switch {
		case ours:
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
			continue
		default:
			return options, limit, nil
		}
		found, err := readDirective(text)
		if err != nil {
			return nil, 0, fmt.Errorf("line %d: %s: %w", number, directive, err)
		}
		for _, one := range found {
			if value, is := strings.CutPrefix(one, "--time="); is {
				if limit, err = jobTime(value); err != nil {
					return nil, 0, fmt.Errorf("line %d: %s: --time: %w", number, directive, err)
				}
				continue
			}
			options = append(options, one)
		}
	}
	return options, limit, nil
}

// readDirective reads what stands after the word of a directive.
func readDirective(text string) (options []string, err error) {
	words, err := directiveWords(text)
	if err != nil {
		return nil, err
	}
	known := honoured()
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		name, value, given := "", "", false
		switch {
		case strings.HasPrefix(word, "--"):
			name, value, given = strings.Cut(word[2:], "=")
			if name, err = fullName(name, known); err != nil {
				return nil, err
			}
		case len(word) > 1 && word[0] == '-':
			if name, err = ofLetter(word[1], known); err != nil {
				return nil, err
			}
			rest := word[2:]
			if known[name].value == never && rest != "" {
				words, rest = append([]string{"-" + rest}, words...), "" // letters that stand together
			}
			value, given = rest, rest != ""
		default:
			return nil, fmt.Errorf("%q is no option", word)
		}
		switch need := known[name].value; {
		case need == never && given:
			return nil, fmt.Errorf("--%s has no value", name)
		case need == always && !given:
			if len(words) == 0 {
				return nil, fmt.Errorf("--%s needs a value", name)
			}
			value, words, given = words[0], words[1:], true
		}
		one := "--" + name
		if given {
			one += "=" + value
		}
		options = append(options, one)
	}
	return options, nil
}

// fullName is the option of a name that may be shortened, as getopt_long(3) reads it.
func fullName(name string, known map[string]option) (string, error) {
	others := refused()
	if _, is := known[name]; is {
		return name, nil
	}
	why, exact := others[name]
	if exact || name == "" {
		return "", notHonoured("--"+name, why)
	}
	names := slices.Sorted(maps.Keys(known))
	names = slices.DeleteFunc(append(names, slices.Sorted(maps.Keys(others))...), func(full string) bool {
		return !strings.HasPrefix(full, name)
	})
	switch {
	case len(names) > 1:
		return "", fmt.Errorf("--%s may be --%s", name, strings.Join(names, " or --"))
	case len(names) == 0:
		return "", notHonoured("--"+name, "")
	}
	if why, is := others[names[0]]; is {
		return "", notHonoured("--"+names[0], why)
	}
	return names[0], nil
}

func ofLetter(letter byte, known map[string]option) (string, error) {
	for name, o := range known {
		if o.short == letter {
			return name, nil
		}
	}
	name := "-" + string(letter)
	if full := shorts()[letter]; full != "" {
		return "", notHonoured(name+" (--"+full+")", refused()[full])
	}
	return "", notHonoured(name, "")
}

func notHonoured(name, why string) error {
	if why == "" {
		why = "`muster run` does not take this option; `muster ssh NAME -- sbatch` does"
	}
	return fmt.Errorf("%s cannot be honoured: %s", name, why)
}

// directiveWords splits a directive as sbatch does: at blanks, which quotes and backslashes take into a word; # begins a comment.
func directiveWords(text string) (words []string, err error) {
	var word strings.Builder
	inside, quote := false, rune(0)
	end := func() {
		if inside {
			words = append(words, word.String())
		}
		word.Reset()
		inside = false
	}
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inside = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, inside = r, true
		case r == ' ' || r == '\t':
			end()
		case r == '#' && !inside:
			return words, nil
		default:
			word.WriteRune(r)
			inside = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quote or a backslash has no end")
	}
	end()
	return words, nil
}

// jobTime reads a time as sbatch has it: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes or
// days-hours:minutes:seconds.
func jobTime(text string) (time.Duration, error) {
	wrong := fmt.Errorf("%q is no time limit; write minutes, or hours:minutes:seconds", text)
	days, rest, withDays := strings.Cut(text, "-")
	if !withDays {
		days, rest = "0", text
	}
	units := map[bool][][]time.Duration{
		true:  {{time.Hour}, {time.Hour, time.Minute}, {time.Hour, time.Minute, time.Second}},
		false: {{time.Minute}, {time.Minute, time.Second}, {time.Hour, time.Minute, time.Second}},
	}[withDays]
	parts := strings.Split(rest, ":")
	if len(parts) > len(units) {
		return 0, wrong
	}
	sum := time.Duration(0)
	for i, part := range append([]string{days}, parts...) {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return 0, wrong
		}
		unit := 24 * time.Hour
		if i > 0 {
			unit = units[len(parts)-1][i-1]
		}
		if n > uint64((math.MaxInt64-sum)/unit) {
			return 0, wrong
		}
		sum += time.Duration(n) * unit
	}
	if sum == 0 { // which Slurm takes for no limit
		return 0, fmt.Errorf("%q is no limit, and a task has one", text)
	}
	return sum, nil
}

// readScript is the factory's Script.
func readScript(script string) (limit time.Duration, err error) {
	_, limit, err = directives(script)
	return limit, err
}
