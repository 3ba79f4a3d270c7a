package spec

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a file, far above any honest one. They keep the YAML library, whose work, memory and stack grow faster than its input
// for some texts, to milliseconds; hence limits of lines and signs beside that of bytes.
const (
	maxBytes  = 1 << 20
	maxLines  = 10_000
	maxBlank  = 50     // lines in a row: at the end of a block, the library copies all of it for each
	maxRun    = 80     // of < in a row: from each, the library looks at all that follow
	maxSigns  = 50_000 // that may be tokens, which take 200 bytes each
	maxTokens = 20_000
	maxDepth  = 16  // of brackets, and of dashes on one line
	maxIndent = 200 // columns, hence at most as many levels
)

// text is the source and where in it things are.
type text struct {
	form   *Form
	lines  []string
	spread [][]rune // the lines in which something was looked for, without blanks at their ends
}

// position is a position in the text; the zero place is unknown.
type position struct{ line, col int }

// load takes the source to the syntax tree of its only document. What YAML can do and the form does not need is refused here;
// duplicate keys are left to the reader, which finds all of them.
func (f *Form) load(src []byte) (text, ast.Node, Diagnostics) {
	src = bytes.TrimPrefix(src, []byte("\ufeff"))             // editors on Windows write one,
	src = bytes.ReplaceAll(src, []byte("\r\n"), []byte("\n")) // and these;
	src = bytes.ReplaceAll(src, []byte("\r"), []byte("\n"))   // one alone ends a line, too (YAML 1.2, 5.4)
	if d, bad := misencoded(src); bad {
		return text{}, nil, Diagnostics{d}
	}
	t := text{form: f, lines: strings.Split(string(src), "\n")}
	if len(src) > maxBytes || len(t.lines) > maxLines {
		return t, nil, Diagnostics{t.tooLarge(position{1, 1}, fmt.Sprintf("more than %d bytes or %d lines", maxBytes, maxLines))}
	}
	t.spread = make([][]rune, len(t.lines))
	if d, bad := t.tooDear(); bad {
		return t, nil, Diagnostics{d}
	}
	tokens, err := guarded(func() (token.Tokens, error) { return lexer.Tokenize(string(src)), nil })
	if err != nil {
		return t, nil, Diagnostics{t.syntax(err)}
	}
	if d, bad := t.tooDeep(tokens); bad {
		return t, nil, Diagnostics{d}
	}
	if ds := t.refused(tokens); len(ds) > 0 {
		return t, nil, ds
	}
	file, err := guarded(func() (*ast.File, error) { return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) })
	if err != nil {
		return t, nil, Diagnostics{t.syntax(err)}
	}
	return t.only(file)
}

// guarded runs a part of the YAML library. None is known to panic; one that did would be a text that it does not understand,
// and no reason for a controller to stop.
func guarded[T any](work func() (T, error)) (result T, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("not understood")
		}
	}()
	return work()
}

func misencoded(src []byte) (Diagnostic, bool) {
	for i, line := range bytes.Split(src, []byte("\n")) {
		for col := 1; len(line) > 0; col++ {
			r, size := utf8.DecodeRune(line)
			control := r < ' ' && r != '\t'
			if r == utf8.RuneError && size == 1 || control {
				return Diagnostic{Code: CodeEncoding, Line: i + 1, Col: col,
					Text: fmt.Sprintf("byte 0x%02x is not text in UTF-8", line[0]),
					Hint: "save the file as plain text in UTF-8"}, true
			}
			line = line[size:]
		}
	}
	return Diagnostic{}, false
}

func (t text) tooLarge(at position, what string) Diagnostic {
	return Diagnostic{Code: CodeTooLarge, Line: at.line, Col: at.col, Text: "the file is too large: " + what,
		Hint: t.form.what + " is short; is this another file?"}
}

// tooDear bounds the work of the scanner, and what it makes.
func (t text) tooDear() (Diagnostic, bool) {
	run := strings.Repeat("<", maxRun+1)
	blank, signs := 0, 0
	for i, line := range t.lines {
		if blank++; strings.TrimSpace(line) != "" {
			blank = 0
		}
		signs += signsOf(line)
		what := ""
		switch {
		case blank > maxBlank:
			what = fmt.Sprintf("more than %d blank lines in a row", maxBlank)
		case signs > maxSigns:
			what = fmt.Sprintf("more than %d signs", maxSigns)
		case strings.Contains(line, run):
			what = fmt.Sprintf("more than %d of < in a row", maxRun)
		}
		if what != "" {
			return t.tooLarge(position{i + 1, 1}, what), true
		}
	}
	return Diagnostic{}, false
}

// signsOf counts what may begin or end a token within a line.
func signsOf(line string) (n int) {
	for i := range len(line) {
		switch line[i] {
		case '[', ']', '{', '}', ',', ':', '?', '&', '*', '!', '|', '>', '<', '%', '@', '`', '#', '"', '\'':
			n++
		case '-':
			if i+1 == len(line) || line[i+1] == ' ' || line[i+1] == '\t' {
				n++
			}
		}
	}
	return n
}

// tooDeep bounds the recursion of the parser, from the tokens alone.
func (t text) tooDeep(tokens token.Tokens) (Diagnostic, bool) {
	if len(tokens) > maxTokens {
		return t.tooLarge(t.at(tokens[maxTokens]), fmt.Sprintf("more than %d words and signs", maxTokens)), true
	}
	open, dashes, line := 0, 0, 0
	for _, tk := range tokens {
		first := tk.Position.Line != line
		if first {
			line, dashes = tk.Position.Line, 0
		}
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			open++
		case token.SequenceEndType, token.MappingEndType:
			open--
		case token.SequenceEntryType:
			dashes++
		}
		if open > maxDepth || dashes > maxDepth || first && open <= 0 && tk.Position.Column > maxIndent {
			at := t.at(tk)
			return Diagnostic{Code: CodeTooLarge, Line: at.line, Col: at.col, Text: "nested too deeply",
				Hint: "no field of " + t.form.what + " is as deep as this"}, true
		}
	}
	return Diagnostic{}, false
}

// unneeded are the parts of YAML that files do without: each hides what a file says from a reader, or lets a small file stand for
// a large one. Blocks of text are for forms that have some.
var unneeded = map[token.Type]struct{ what, hint string }{
	token.AnchorType:     {"an anchor (&)", "write the value out; put text that begins with & in quotes"},
	token.AliasType:      {"an alias (*)", "write the value out; put text that begins with * in quotes"},
	token.MergeKeyType:   {"a merge key (<<)", "write the fields out"},
	token.TagType:        {"a tag (!)", "leave it out; put text that begins with ! in quotes"},
	token.DirectiveType:  {"a directive (%)", "leave the line out"},
	token.MappingKeyType: {"a complex key (?)", "write key: value"},
	token.LiteralType:    {"a block of text (|)", "write the value on the line of its key"},
	token.FoldedType:     {"a block of text (>)", "write the value on the line of its key"},
}

func (t text) refused(tokens token.Tokens) (ds Diagnostics) {
	for _, tk := range tokens {
		block := tk.Type == token.LiteralType || tk.Type == token.FoldedType
		if u, bad := unneeded[tk.Type]; bad && !(block && t.form.blocks) && !ds.full() {
			at := t.at(tk)
			ds.add(Diagnostic{Code: CodeYAMLFeature, Line: at.line, Col: at.col,
				Text: u.what + " has no meaning in " + t.form.what, Hint: u.hint})
		}
	}
	return ds
}

// complaints put the library's words into a user's, by what its message contains; the first that fits counts.
var complaints = []struct{ contains, text, hint string }{
	{"'\t'", "a tab in the indentation", "indent with spaces"},
	{"non-map value is specified", "this line is not a field", "write key: value, with a space after the colon"},
	{"mapping value is not allowed", "a colon in the wrong place",
		"begin fields of one mapping in the same column; put text with a colon in quotes"},
	{"value is not allowed", "this line belongs to no mapping or list above it",
		"begin fields of one mapping in the same column"},
	{"of double-quoted text", "text in double quotes has no end", `close it with "`},
	{"of single-quoted text", "text in single quotes has no end", `close it with '`},
	{"unknown escape character", "an escape that does not exist", `write \\ for a backslash, or put the text in single quotes`},
	{"']' not found", "a [ has no end", "close the list with ]"},
	{"flow map content", "a { that does not start a mapping", "fill in the template first, or put the text in quotes"},
	{"'}'", "a { has no end", "close the mapping with }"},
	{"corresponding to ']'", "a ] without its [", "remove it"},
	{"block sequence entries", "a list cannot begin on the line of its key",
		"write each \"- \" on a line of its own below the key"},
	{"reserved character", "a character that no plain text may begin with", "put the text in quotes"},
	{"unexpected end content", "text after the end of the document", "remove the line \"...\""},
}

// syntax is the diagnostic for text that is not YAML.
func (t text) syntax(err error) Diagnostic {
	d := Diagnostic{Code: CodeSyntax, Line: 1, Col: 1, Text: "this is not YAML", Hint: "one field a line, as in nodes: 16"}
	var located yaml.Error
	if !errors.As(err, &located) {
		return d
	}
	message := located.GetMessage()
	if tk := located.GetToken(); tk != nil {
		if next := tk.Next; next != nil && next.Type == token.MappingValueType &&
			strings.Contains(message, "mapping value is not allowed") {
			tk = next // the library names the value before the colon, which may be lines above
		}
		at := t.at(tk)
		d.Line, d.Col = at.line, at.col
	}
	for _, c := range complaints {
		if strings.Contains(message, c.contains) {
			d.Text, d.Hint = c.text, c.hint
			return d
		}
	}
	d.Text += ": " + message
	return d
}

// only is the body of the only document, which must be a mapping.
func (t text) only(file *ast.File) (text, ast.Node, Diagnostics) {
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			at := t.start(doc.Body)
			return t, nil, Diagnostics{{Code: CodeSeveralDocuments, Line: at.line, Col: at.col,
				Text: "a second document; a file describes one " + t.form.one,
				Hint: "put each " + t.form.one + " in a file of its own"}}
		}
		body = doc.Body
	}
	if body == nil || body.Type() == ast.NullType {
		return t, nil, Diagnostics{{Code: CodeEmpty, Line: 1, Col: 1, Text: "the file is empty", Hint: t.form.smallest}}
	}
	if _, ok := body.(ast.MapNode); !ok {
		at := t.start(body)
		return t, nil, Diagnostics{{Code: CodeWrongType, Line: at.line, Col: at.col,
			Text: "the file must be a mapping, not " + describe(body),
			Hint: t.form.smallest + ", each with a space after the colon"}}
	}
	return t, body, nil
}

// at is a token's place. The library counts columns in characters, as editors do, but may point at blanks before the token.
func (t text) at(tk *token.Token) position {
	p := position{max(tk.Position.Line, 1), max(tk.Position.Column, 1)}
	if p.line > len(t.lines) {
		return position{len(t.lines), 1}
	}
	line := t.spread[p.line-1]
	if line == nil {
		line = []rune(strings.TrimRightFunc(t.lines[p.line-1], unicode.IsSpace))
		t.spread[p.line-1] = line
	}
	for p.col <= len(line) && unicode.IsSpace(line[p.col-1]) {
		p.col++
	}
	return p
}

// start is where a node's text begins, which for a mapping without braces is its first key.
func (t text) start(n ast.Node) position {
	if m, ok := n.(ast.MapNode); ok {
		if flow, ok := n.(*ast.MappingNode); !ok || !flow.IsFlowStyle {
			if i := m.MapRange(); i.Next() {
				return t.at(i.Key().GetToken())
			}
		}
	}
	if tk := n.GetToken(); tk != nil {
		return t.at(tk)
	}
	return position{1, 1}
}
