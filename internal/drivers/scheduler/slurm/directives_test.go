package slurm

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDirectivesAreReadAsSbatchReadsThem(t *testing.T) {
	for _, c := range []struct {
		script, want string
		limit        time.Duration
	}{
		{script: "hostname"},
		{"#!/bin/bash\n#SBATCH --nodes=2 --ntasks=4\n#SBATCH -p gpu -N2 -c 4\nsrun hostname\n#SBATCH --late",
			"--nodes=2 --ntasks=4 --partition=gpu --nodes=2 --cpus-per-task=4", 0},
		{"#!/bin/bash\n\n# a comment\n##SBATCH --odd\n# SBATCH --odd\n  \n#SBATCH\t--exclusive # alone\necho",
			"--exclusive", 0},
		{"#SBATCH --exclusive=user --nice=5 --hold",
			"--exclusive=user --nice=5 --hold", 0},
		{"#SBATCH -HO -Jname",
			"--hold --overcommit --job-name=name", 0},
		{"#SBATCH --job-name 'two words' -C \"a&b\" --mem=1\\ 0G",
			"--job-name=two words --constraint=a&b --mem=1 0G", 0},
		{"#SBATCH --cpus-per-t=2 --ntasks-per-n 3",
			"--cpus-per-task=2 --ntasks-per-node=3", 0},
		{"#SBATCH -t 10",
			"", 10 * time.Minute},
		{"#SBATCH --time=1-2:03:04",
			"", 26*time.Hour + 3*time.Minute + 4*time.Second},
		{"#SBATCH --time 2-0\n#SBATCH --time=1:30",
			"", 90 * time.Second},
		{"#SBATCH -t1:02:03",
			"", time.Hour + 2*time.Minute + 3*time.Second},
		{"#SBATCH--nodes=2",
			"--nodes=2", 0},
		{"#SBATCH --constraint=\"\"",
			"--constraint=", 0},
	} {
		script := c.script
		options, limit, err := directives(script)
		if got := strings.Join(options, " "); err != nil || got != c.want || limit != c.limit {
			t.Errorf("%q: %s, %s, %v", script, got, limit, err)
		}
	}
}

func TestWhatATaskCannotHonourIsRefusedInWords(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"--output=out.%j", "line 2: #SBATCH: --output cannot be honoured: `muster run` shows"},
		{"-oout", "-o (--output) cannot be honoured"},
		{"--outp x", "--output cannot"},
		{"-e err", "-e (--error)"},
		{"--array=1-10", "a task is one job"},
		{"-a 1-10", "a task is one job"},
		{"--export=NONE", "environment of a login"},
		{"--requeue", "started once or not at all"},
		{"-D /tmp", "write cd into the script"},
		{"--wait", "`muster ssh NAME -- sbatch` does"},
		{"-W", "`muster ssh NAME -- sbatch` does"},
		{"--uid=0", "`muster ssh NAME -- sbatch` does"},
		{"--wrap=x", "--wrap cannot be honoured"},
		{"hostname", `"hostname" is no option`},
		{"--nodes", "--nodes needs a value"},
		{"--hold=yes", "--hold has no value"},
		{"--n=2", "may be"},
		{"--", "-- cannot be honoured"},
		{"-", `"-" is no option`},
		{"--job-name='x", "has no end"},
		{"--time=soon", "is no time limit"},
		{"--time=0", "is no limit"},
		{"-t 1:2:3:4", "is no time limit"},
		{"--time=99999999999", "is no time limit"},
		{"--time=-1", "is no time limit"},
		{"--time=UNLIMITED", "is no time limit"},
		{"--nodes=2 --clusters=all", "--clusters cannot be honoured"},
		{"-HZ", "-Z cannot be honoured"},
	} {
		text, says := c.text, c.says
		options, _, err := directives("#!/bin/sh\n#SBATCH " + text + "\nhostname\n")
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "line 2: #SBATCH: ") {
			t.Errorf("%s: %v, %v; %q is wanted", text, options, err, says)
		}
	}
}

// Whatever a script says, sbatch gets options of those that are honoured, and no other word.
func FuzzDirectives(f *testing.F) {
	for _, text := range []string{"--nodes=2 -p gpu", "-HO -J 'x y' # z", "--time 1-0", "-\\\n --wrap",
		"--exclusive=\"--wrap=x\""} {
		f.Add(text)
	}
	known := honoured()
	f.Fuzz(func(t *testing.T, text string) {
		options, limit, err := directives("#SBATCH " + text)
		if err != nil {
			return
		}
		for _, one := range options {
			name, _, given := strings.Cut(strings.TrimPrefix(one, "--"), "=")
			if o, is := known[name]; !is || !strings.HasPrefix(one, "--") || given && o.value == never ||
				!given && o.value == always {
				t.Errorf("%q becomes %q", text, options)
			}
		}
		if limit < 0 || slices.ContainsFunc(options, func(one string) bool { return strings.HasPrefix(one, "--time=") }) {
			t.Errorf("%q becomes %q, with a limit of %s", text, options, limit)
		}
	})
}
