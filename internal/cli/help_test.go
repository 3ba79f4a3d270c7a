package cli

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write the golden help again")

// everyCommand visits the whole tree, less what cobra makes itself.
func everyCommand(visit func(*cobra.Command)) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		visit(c)
		for _, below := range c.Commands() {
			if below.Name() != "help" {
				walk(below)
			}
		}
	}
	walk((&app{in: strings.NewReader(""), out: &screen{&bytes.Buffer{}}, err: &screen{&bytes.Buffer{}}}).root(nil))
}

func TestEveryCommandIsExplained(t *testing.T) {
	everyCommand(func(c *cobra.Command) {
		if c.Short == "" || c.Long == "" || c.Example == "" {
			t.Errorf("%s lacks Short, Long or Example", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			words := strings.Fields(line)
			at := -1
			for i, word := range words {
				if word == "muster" || strings.HasSuffix(word, "'muster") || strings.HasSuffix(word, "(muster") {
					at = i
				}
			}
			if at < 0 {
				t.Errorf("%s: the example %q does not use muster", c.CommandPath(), strings.TrimSpace(line))
				continue
			}
			root := (&app{}).root(nil)
			if found, _, err := root.Find(words[at+1:]); err != nil || found == root {
				t.Errorf("%s: the example %q is of no command", c.CommandPath(), strings.TrimSpace(line))
			}
		}
	})
}

func TestTheHelpReadsAsItDid(t *testing.T) {
	var help strings.Builder
	everyCommand(func(c *cobra.Command) {
		args := strings.Fields(c.CommandPath())[1:]
		r := muster(t, append(args, "--help")...)
		r.wants(t, 0)
		help.WriteString("$ " + c.CommandPath() + " --help\n" + r.out + "\n")
	})
	golden := filepath.Join("testdata", "help.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(help.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), help.String()); diff != "" {
		t.Errorf("the help differs from %s (go test -update writes it again):\n%s", golden, diff)
	}
}

func TestOnlyTheVerbAskedForIsBuilt(t *testing.T) {
	if built := (&app{}).root([]string{"agent"}).Commands(); len(built) != 1 {
		t.Errorf("%d commands were built", len(built))
	}
	if built := (&app{}).root([]string{"agnt"}).Commands(); len(built) < len(verbs()) {
		t.Errorf("only %d commands were built to suggest from", len(built))
	}
}

func TestACommandLineThatMakesNoSenseIsToldWithWhatWould(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		line string
		says string
	}{
		{"creat", "create"},
		{"machines lst", "list"},
		{"list --outptu json", "unknown flag"},
		{"list -o xml", "must be one of table, json, yaml"},
		{"create", "-f FILE, or NAME --nodes N"},
		{"create x", "muster create x --nodes N"},
		{"create x --nodes 1 -f y.yaml", "either a file or NAME"},
		{"create x --nodes 1 --timeout 5s", "--wait"},
		{"apply", "-f FILE"},
		{"apply -f no-such.yaml", "no-such.yaml"},
		{"scale x", "an argument is missing: `muster scale NAME"},
		{"pause", "an argument is missing: `muster pause NAME`"},
		{"list hello", `"hello" is one argument too many: ` + "`muster list`"},
		{"machines get a b", `"b" is one argument too many: ` + "`muster machines get NAME`"},
		{"scale x many", "gpu=2 or cpu=0-16"},
		{"scale x =3", "gpu=2 or cpu=0-16"},
		{"scale x cpu=1-", "gpu=2 or cpu=0-16"},
		{"events --after=-1", "not -1"},
		{"machines add", "--local N"},
		{"machines add --local 1 --memory 4GB", "4GiB"},
		{"completion tcsh", "tcsh"},
		{"serve --log-format xml", "text or json"},
	} {
		t.Run(c.line, func(t *testing.T) {
			muster(t, strings.Fields(c.line)...).wants(t, exitInvalid, c.says, "--help` shows how it is used")
		})
	}
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("the controller was asked: %v", asked)
	}
}

func TestNoVerbThatTakesAwayDefaultsToAll(t *testing.T) {
	s := newSite(t)
	for _, line := range []string{"delete", "machines maintain", "machines remove", "machines free", "machines inspect",
		"keys delete", "tokens revoke", "users disable", "projects revoke aero"} {
		muster(t, strings.Fields(line)...).wants(t, exitInvalid)
	}
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("the controller was asked: %v", asked)
	}
}

func TestNamesCompleteInTheShell(t *testing.T) {
	s := newSite(t)
	s.answers("GET /v1/clusters", 200, list(newLife("hello").now()))
	r := musterUntil(context.Background(), brisk(), nil, "__complete", "ssh", "")
	r.wants(t, 0, "hello\tpending")
}
