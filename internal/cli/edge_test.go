package cli

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"encoding/json"

	"muster/internal/kit/printable"
)

// past are the places that may write to standard output or error without the edge, each with what it writes.
var rawWriters = map[string]string{
	"host.go host":             "a log, beside that of serve",
	"agent.go agent":           "the console of a node, which is no terminal of a user's",
	"agent.go agentHost":       "the console of a machine",
	"bench.go benchSchema":     "the JSON schemas, which are ours",
	"completion.go completion": "a script for a shell",
	"cost.go print":            "CSV, each field of which is made printable",
	"events.go watch":          "JSON, escaped",
	"output.go print":          "JSON and YAML, escaped",
	"run.go foreign":           "the output of a user's own program, to what is no terminal",
	"serve.go serve":           "a log that quotes",
	"spec.go spec":             "the JSON schema, which is ours",
	"ssh.go enter":             "a session by ssh",
	"tunnel.go relay":          "a relayed connection",
}

// TestNothingIsPrintedPastTheEdge holds all of the package to one place where words for people leave the program: a writer
// that is none of fmt's, texts that only that place makes, and formats that are no data.
func TestNothingIsPrintedPastTheEdge(t *testing.T) {
	files := token.NewFileSet()
	used := map[string]bool{}
	paths, err := filepath.Glob("*.go")
	if err != nil || len(paths) < 40 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") || path == "edge.go" {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			inside := "(declarations)"
			if f, is := declaration.(*ast.FuncDecl); is {
				inside = f.Name.Name
			}
			place := path + " " + inside
			ast.Inspect(declaration, func(n ast.Node) bool {
				at := func() string { return files.Position(n.Pos()).String() }
				switch n := n.(type) {
				case *ast.SelectorExpr:
					whose, _ := n.X.(*ast.Ident)
					switch name := n.Sel.Name; {
					case whose != nil && whose.Name == "fmt" &&
						(strings.HasPrefix(name, "Fprint") && !writesToText(n, declaration) || strings.HasPrefix(name, "Print")):
						t.Errorf("%s: fmt.%s writes past the edge: use line, say or a table", at(), name)
					case whose != nil && whose.Name == "os" && (name == "Stdout" || name == "Stderr"):
						t.Errorf("%s: os.%s is past the edge", at(), name)
					case whose != nil && whose.Name == "log":
						t.Errorf("%s: package log writes past the edge", at())
					case name == "stream" && path != "terminal.go":
						t.Errorf("%s: what is below a screen is for the edge alone", at())
					}
				case *ast.CallExpr:
					switch f := n.Fun.(type) {
					case *ast.Ident:
						if (f.Name == "shown" || f.Name == "print" || f.Name == "println") && !literal(n.Args) {
							t.Errorf("%s: %s(…) makes text fit for a terminal of any text: use line or cell", at(), f.Name)
						}
						asks := f.Name == "done" && inside != "doing" || f.Name == "doing"
						if f.Name == "line" && !literal(n.Args[:1]) || asks && len(n.Args) > 4 && !literal(n.Args[4:5]) {
							t.Errorf("%s: a format is a literal", at())
						}
					case *ast.SelectorExpr:
						switch f.Sel.Name {
						case "raw":
							used[place] = true
							if rawWriters[place] == "" {
								t.Errorf("%s: %s writes raw to where a terminal may be; is it data, and escaped?", at(), inside)
							}
						case "say", "line":
							if inside != "say" && inside != "done" && !literal(n.Args[:1]) {
								t.Errorf("%s: a format is a literal", at())
							}
						}
					}
				}
				return true
			})
		}
	}
	for place := range rawWriters {
		if !used[place] {
			t.Errorf("%s writes nothing raw any more", place)
		}
	}
}

// writesToText says whether fmt.Fprint… writes into a strings.Builder or bytes.Buffer called out, or to a browser as w.
func writesToText(of *ast.SelectorExpr, in ast.Node) (is bool) {
	ast.Inspect(in, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && call.Fun == ast.Expr(of) {
			first := call.Args[0]
			if address, ok := first.(*ast.UnaryExpr); ok {
				first = address.X
			}
			name, ok := first.(*ast.Ident)
			is = ok && slices.Contains([]string{"out", "text"}, name.Name)
		}
		return true
	})
	return is
}

func literal(args []ast.Expr) bool {
	if len(args) == 0 {
		return false
	}
	switch a := args[0].(type) {
	case *ast.BasicLit:
		return true
	case *ast.BinaryExpr:
		return literal([]ast.Expr{a.X}) && literal([]ast.Expr{a.Y})
	}
	return false
}

// hostile is what others may write: a title for the window, an empty screen, lines that look like ours, text that runs
// backwards, controls as one byte and as UTF-8.
const hostile = "x\x1b]0;PWNED\a\x1b[2J\nFORGED 2026-11-22 admin api " +
	"nothing\r\u202e\u2066\u2028FORGED\u2029\u200b\u009b31m\u0085\x7f\x00\ue000\v\f\t" + `"'\` + "e\u0301\u0301\u0301\u0301\u0301"

// harmless says whether text may go to a terminal.
func harmless(t *testing.T, what, text string) {
	t.Helper()
	for i, r := range text {
		if r != '\n' && !printable.Rune(r) {
			t.Fatalf("%s: %q reaches the terminal in %q", what, r, text[max(0, i-60):min(len(text), i+60)])
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "FORGED") {
			t.Fatalf("%s: a line that is not ours: %q", what, line)
		}
	}
	if strings.Contains(text, "\u0301\u0301\u0301\u0301") {
		t.Fatalf("%s: one letter has more marks than a line has room for", what)
	}
}

func TestWhatIsWrittenToATerminalIsShown(t *testing.T) {
	var out bytes.Buffer
	s := &screen{&out}
	s.line("%s %v %-5s %q %d", hostile, fs.PathError{Op: hostile, Path: "p", Err: fs.ErrExist}, hostile, hostile, 7)
	s.text(strings.ReplaceAll(hostile, "\nFORGED", ""))
	s.put(below(hostile + "\n" + hostile))
	s.put("\n" + joined([]shown{cell(hostile), line("%s", hostile)}, ", ") + "\n")
	_, _ = s.prose().Write([]byte(strings.NewReplacer("\nFORGED", "", "\t", "").Replace(hostile)))
	table := newTable(hostile, "B")
	table.row(hostile, hostile)
	table.row(strings.Repeat("x", 50<<10), "")
	table.print(s)
	harmless(t, "the edge", out.String())
	for line := range strings.Lines(out.String()) {
		if len(line) > 2000 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if got := coloured(red, "a\x1b[0mb"); got != "\x1b[31ma\\x1b[0mb\x1b[m" {
		t.Errorf("%q", got)
	}
	if got := line("%-6d|%5.1f|%-4s|%s", int64(3), 1.25, "ä", coloured(red, "x")); got != "3     |  1.2|ä   |\x1b[31mx\x1b[m" {
		t.Errorf("%q", got)
	}
}

func TestACharacterThatComesInPartsIsOne(t *testing.T) {
	var out bytes.Buffer
	w := (&screen{&out}).prose()
	for _, b := range []byte("ä€😀\u009b\tx\n") {
		if n, err := w.Write([]byte{b}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if out.String() != "ä€😀\\u009b\tx\n" {
		t.Errorf("%q", out.String())
	}
}

// TestObjectsStayWhole holds that JSON and YAML say exactly what the API said, and harmlessly.
func TestObjectsStayWhole(t *testing.T) {
	for _, text := range []string{hostile, "\x1b[31m", "\u009b", "tab\tx", "- x\n  y: 1", "a\nb", "\U000e0041\U000f0000", "'\"\\",
		"plain", "", "true", "\ufeff", "#", "😀"} {
		want := map[string]any{"k": text, "list": []any{text, "x"}}
		raw, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		for f, read := range map[format]func([]byte, any) error{asJSON: json.Unmarshal, asYAML: func(b []byte, v any) error {
			return yaml.Unmarshal(b, v)
		}} {
			var out bytes.Buffer
			if err := f.print(&screen{&out}, raw, nil); err != nil {
				t.Fatal(err)
			}
			harmless(t, string(f), out.String())
			got := map[string]any{}
			if err := read(out.Bytes(), &got); err != nil {
				t.Fatalf("%s: %v\n%s", f, err, out.String())
			}
			if got["k"] != text || got["list"].([]any)[0] != text || got["list"].([]any)[1] != "x" {
				t.Errorf("%s: %q is read from\n%s", f, got, out.String())
			}
		}
	}
}
