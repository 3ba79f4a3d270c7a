package round

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/bench/recipe"
)

// steps are those of recipes of one step each.
func steps(t *testing.T, recipes ...string) (all []recipe.Step) {
	t.Helper()
	for _, text := range recipes {
		r, err := recipe.Parse("r.yaml", []byte("recipe: r\nabout: a test\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.Steps(recipe.Nodes{Nodes: 1, Cores: 1})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s...)
	}
	return all
}

const read = "read: [{quantity: q, lines: '^q (?P<value>.*)', unit: s, better: lower}]\n"

// job runs a script with a home of its own, and says what it wrote.
func job(t *testing.T, script string) (home string, output []byte) {
	t.Helper()
	home = t.TempDir()
	c := exec.Command("bash", "-s")
	c.Stdin, c.Env = strings.NewReader(script), append(os.Environ(), "HOME="+home)
	output, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return home, output
}

func TestStepsRunInAJob(t *testing.T) {
	const of = "m4rkm4rk"
	all := steps(t,
		"seconds: 1\nrun: echo q 1; echo oops >&2; exit 3\n"+read,
		"seconds: 1\nneeds: {programs: [bash, no-such-program], files: [/proc/*/stat]}\nrun: echo q 1\n"+read,
		"seconds: 1\nfiles: {in: 'it''s $HOME {{nodes}}'}\nrun: cat in > out; printf 'no newline'\n"+
			"read: [{quantity: q, from: out, lines: '(?P<value>\\d)', unit: s, better: lower}]\nvalid: [{from: none, none: x}]\n",
		"seconds: 1\nrun: head -c 3000000 /dev/zero | tr '\\0' x; echo done > out\n"+
			"read: [{quantity: q, from: out, lines: '(?P<value>\\d)', unit: s, better: lower}]\n",
		"seconds: 1\nrun: 'read line; echo \"stdin: $line\"; : > out'\n"+
			"read: [{quantity: q, from: out, lines: '(?P<value>\\d)', unit: s, better: lower}]\n")
	script, err := Script(of, all, []int{4, 2, 0, 1, 3})
	if err != nil {
		t.Fatal(err)
	}
	home, output := job(t, script)
	if left, err := filepath.Glob(home + "/.*"); err != nil || len(left) > 2 { // itself, and the folder above
		t.Errorf("left behind: %v, %v", left, err)
	}
	left := Read(of, output)
	ran := left.Steps
	name, err := os.Hostname()
	if here := left.Before[name]; err != nil || here["kernel"] == "" || here["cpu"] == "" || here["cpus"] == "" ||
		here["stat"] == "" || left.After[name]["stat"] == "" || left.After[name]["kernel"] != "" {
		t.Errorf("%v, before %v, after %v", err, left.Before, left.After)
	}
	if len(ran) != 5 {
		t.Fatalf("%d steps in %.500q", len(ran), output)
	}
	if r := ran[0]; r.Status != 3 || r.Output[""] != "q 1\noops\n" || r.Took() <= 0 || r.Took() > 10*time.Second ||
		time.Since(r.Ended).Abs() > time.Minute {
		t.Errorf("%+v", r)
	}
	if r := ran[1]; r.Missing != "no-such-program" || !r.Ended.IsZero() {
		t.Errorf("%+v", r)
	}
	if r := ran[2]; r.Status != 0 || r.Output["out"] != "it's $HOME 1" || r.Output[""] != "no newline" || len(r.Output) != 2 {
		t.Errorf("%+v", r)
	}
	if r := ran[3]; len(r.Output[""]) != recipe.MostText+1 || r.Output["out"] != "done\n" || r.Status != 0 {
		t.Errorf("%d bytes, %q, status %d", len(r.Output[""]), r.Output["out"], r.Status)
	}
	if r := ran[4]; r.Output[""] != "stdin: \n" || r.Output["out"] != "" || len(r.Output) != 2 {
		t.Errorf("%+v", r)
	}
}

// TestADiskThatFillsMakesNoNumber: a step that fills the disk of its home has its exit status and its files, and of a text that
// could not be kept whole no number is made.
func TestADiskThatFillsMakesNoNumber(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: to mount a disk needs root")
	}
	const out = "read: [{quantity: q, from: out, lines: '(?P<value>x)', unit: s, better: lower}]\n"
	const fill = "head -c 1M /dev/zero 2>/dev/null >"
	all := steps(t, "seconds: 1\nrun: head -c 9000 /dev/zero >out; "+fill+"zeros; exit 3\n"+out,
		"seconds: 1\nrun: "+fill+"zeros; yes | head -c 9000; echo q 12\n"+read,
		"seconds: 1\nrun: echo q 3\n"+read,
		"seconds: 1\nrun: head -c 40000 /dev/zero >out; "+fill+"~/zeros; exit 4\n"+out)
	script, err := Script("m4rkm4rk", all, []int{0, 1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	home, other := t.TempDir(), t.TempDir()
	for folder, want := range map[string][]string{ // in which the job's text is
		other: {"3 [0 9000]", "0 [9005]", "0 [4]", "4 [0 40000]"},
		home:  {"3 [0 9000]", "0 unkept", "0 [4]", "4 [0]"},
	} {
		c := exec.Command("unshare", "-m", "bash", "-c",
			`mount -t tmpfs -o size=128k tmpfs "$HOME" && { bash -s >>"$0"; cat "$0"; }`, filepath.Join(folder, "text"))
		c.Stdin, c.Env = strings.NewReader(script), append(os.Environ(), "HOME="+home)
		output, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		ran := Read("m4rkm4rk", output).Steps
		for n, want := range want {
			got := "it has not ended"
			if r := ran[n]; r != nil && !r.Ended.IsZero() {
				var sizes []int
				for _, name := range slices.Sorted(maps.Keys(r.Output)) {
					sizes = append(sizes, len(r.Output[name]))
				}
				if got = fmt.Sprint(r.Status, sizes); r.Unkept {
					got = fmt.Sprint(r.Status, " unkept")
				}
			}
			if got != want {
				t.Errorf("with the text in %s, step %d: %s, not %s", folder, n, got, want)
			}
		}
	}
}

func TestAStepNeedsFiles(t *testing.T) {
	var all []recipe.Step
	for _, path := range []string{"/no/such/*", "~/no-such", "/proc/*/stat", "~/.muster-bench.*"} {
		all = append(all, steps(t, "seconds: 1\nneeds: {files: ["+path+"]}\nrun: echo q 1\n"+read)...)
	}
	script, err := Script("m4rkm4rk", all, []int{0, 1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	_, output := job(t, script)
	ran := Read("m4rkm4rk", output).Steps
	if ran[0].Missing != "/no/such/*" || ran[1].Missing != "~/no-such" || ran[2].Missing+ran[3].Missing != "" {
		t.Errorf("%+v", ran)
	}
}

func TestTheStepsOfARoundShareWhatIsKept(t *testing.T) {
	var all []recipe.Step
	for range 6 {
		all = append(all, steps(t, "seconds: 1\nrun: head -c 1000000 /dev/zero | tr '\\0' x | tee out\n"+
			"read: [{quantity: q, from: out, lines: '(?P<value>x)', unit: s, better: lower}]\n")...)
	}
	all = append(all, steps(t, "seconds: 1\nrun: 'true'\n"+read)...)
	script, err := Script("m4rkm4rk", all, []int{0, 1, 2, 3, 4, 5, 6})
	if err != nil {
		t.Fatal(err)
	}
	_, output := job(t, script)
	ran, cut, kept := Read("m4rkm4rk", output).Steps, "", 0
	for n := range all {
		r := ran[n]
		if r == nil || r.Status != 0 || r.Ended.IsZero() {
			t.Fatalf("step %d: %+v", n, r)
		}
		cut += map[bool]string{true: "c", false: "-"}[r.Cut]
		kept += len(r.Output[""]) + len(r.Output["out"])
	}
	if cut != "--cccc-" || kept < MostTexts*3/4 || len(output) > MostTexts+1<<20 {
		t.Errorf("cut %s, kept %d of %d", cut, kept, len(output))
	}
}

func TestAStepThatHangsIsEnded(t *testing.T) {
	all := steps(t, "seconds: 1\nrun: trap '' TERM; echo q 1; sleep 60\n"+read, "seconds: 1\nrun: echo q 2; sleep 60 &\n"+read,
		"seconds: 1\nrun: |\n  (trap 'echo q 4; exit' TERM; touch ready; while sleep 0.05; do :; done) 2>/dev/null &\n"+
			"  until [[ -e ready ]]; do sleep 0.05; done\n  echo q 3\n"+read)
	script, err := Script("m4rkm4rk", all, []int{0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	// The first one is over soon, and what is left behind has 20 s to end by itself.
	_, output := job(t, strings.NewReplacer("step 0 40 ", "step 0 3 ", "-k 10", "-k 0.3", "{1..20}", "{1..200}").Replace(script))
	ran := Read("m4rkm4rk", output).Steps
	if r := ran[0]; r == nil || r.Status != 137 || r.Output[""] != "q 1\n" || r.Took() > 30*time.Second {
		t.Errorf("%+v", r)
	}
	if r := ran[1]; r == nil || r.Status != 0 || r.Output[""] != "q 2\n" || r.Took() > 30*time.Second {
		t.Errorf("the next one runs, and what it leaves behind ends: %+v", r)
	}
	if r := ran[2]; r == nil || r.Status != 0 || r.Output[""] != "q 3\nq 4\n" {
		t.Errorf("what is left behind may end by itself, as srun ends its tasks: %+v", r)
	}
}

func TestAJobIsReadWhileItRuns(t *testing.T) {
	text := "\n@m4rkm4rk begin 1\nq 1\n\n@m4rkm4rk end 1 0 10.5 12.25\n\n@m4rkm4rk begin 0\nhalf"
	for n := range len(text) {
		if ran := Read("m4rkm4rk", []byte(text[:n])).Steps; ran[1] != nil && ran[1].Output == nil {
			t.Errorf("after %d bytes: %+v", n, ran[1])
		}
	}
	if ran := Read("m4rkm4rk", []byte("\n@m4rkm4rk begin 1\n\n@m4rkm4rk file 1 a MTIz")).Steps; len(ran[1].Output) != 1 {
		t.Errorf("of a line that is cut something is read: %+v", ran[1])
	}
	ran := Read("m4rkm4rk", []byte(text)).Steps
	if r := ran[1]; r.Took() != 1750*time.Millisecond || r.Output[""] != "q 1\n" {
		t.Errorf("%+v", r)
	}
	if r := ran[0]; !r.Ended.IsZero() || r.Output[""] != "half" {
		t.Errorf("%+v", r)
	}
}

func TestAMarkIsAWord(t *testing.T) {
	for _, bad := range []string{"", "short", "with space", "a';rm -rf /"} {
		if _, err := Script(bad, nil, nil); err == nil {
			t.Errorf("%q is a mark", bad)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\n@m4rkm4rk begin 1\nq\n\n@m4rkm4rk end 1 0 1 2\n\n@m4rkm4rk file 1 a YQ==\n\n@m4rkm4rk missing 2 x\n"))
	f.Add([]byte("\n@m4rkm4rk file 9 a !\n\n@m4rkm4rk missing 1 x\n\n@m4rkm4rk file 1 a YQ==\n\n@m4rkm4rk end 1 0 1e300 -1"))
	f.Add(looked("n1 stat cpu 1 2 3 4 5 6 7 8", "n1 stat cpu 9 9 9 9 9 9 9 99\nn1 throttled x\n  \nn1 a"))
	f.Fuzz(func(t *testing.T, text []byte) {
		left := Read("m4rkm4rk", text)
		_ = left.Disturbed()
		for _, r := range left.Steps {
			_ = r.Took()
		}
	})
}
