package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"muster/internal/kit/lists"
	"muster/internal/kit/printable"
)

// screen is where words for people go: standard output, or standard error. It is no io.Writer, so that nothing reaches a
// terminal but by its methods, which show what a terminal would obey instead of passing it on: much of what is printed was
// written by other users, by machines that are not enrolled yet, and by providers of identities.
type screen struct{ stream io.Writer }

// shown is a text that may be written to a terminal as it is: what others wrote went through package printable, and the
// escape sequences in it are our own. Only this file makes one of a string.
type shown string

// line is a line with values in it. Values that are shown stay as they are; all others are made fit for one line.
func line(format string, args ...any) shown {
	for i, arg := range args {
		args[i] = fitting(arg)
	}
	return shown(fmt.Sprintf(format, args...))
}

// fitting is a value as line takes it.
func fitting(arg any) any {
	switch arg.(type) {
	case shown, int, int32, int64, uint32, uint64, float64, bool:
		return arg
	}
	return fitted{arg}
}

// fitted is a value that is formatted as ever, and then made fit for one line.
type fitted struct{ value any }

// Format is for fmt.
func (f fitted) Format(s fmt.State, verb rune) {
	_, _ = io.WriteString(s, printable.Line(fmt.Sprintf(fmt.FormatString(s, verb), f.value)))
}

// cell is a value as one cell of a table, or one value of a list of facts, shows it.
func cell(value any) shown {
	if text, is := value.(shown); is {
		return text
	}
	return shown(printable.Line(fmt.Sprint(value)))
}

// joined puts separators between texts.
func joined(parts []shown, separator shown) shown {
	return shown(strings.Join(lists.Map(parts, func(p shown) string { return string(p) }), string(separator)))
}

// cut is a text at most so many columns wide, with … where something is left out.
func cut(text shown, columns int) shown { return shown(ansi.Truncate(string(text), columns, "…")) }

// spaces is so many of them.
func spaces(n int) shown { return shown(strings.Repeat(" ", n)) }

// coloured is a text in a colour.
func coloured(c colour, text string) shown {
	return shown(ansi.NewStyle().ForegroundColor(ansi.BasicColor(c)).Styled(printable.Line(text)))
}

// below is a text of several lines whose later lines stand apart from what begins a line of ours.
func below(text string) shown {
	lines := strings.Split(strings.TrimRight(printable.Lines(text), "\n"), "\n")
	for i, l := range lines[1:] {
		if l != "" && !strings.HasPrefix(l, " ") {
			lines[i+1] = "  " + l
		}
	}
	return shown(strings.Join(lines, "\n"))
}

// line writes one.
func (s *screen) line(format string, args ...any) { s.put(line(format, args...) + "\n") }

// gap writes an empty line.
func (s *screen) gap() { s.put("\n") }

func (s *screen) put(text shown) { _, _ = io.WriteString(s.stream, string(text)) }

// text writes a text of several lines that is to be copied: a configuration, a certificate.
func (s *screen) text(text string) { s.put(shown(printable.Lines(text))) }

// redraw writes lines over the last so many ones.
func (s *screen) redraw(up int, lines []shown, width int) {
	var out strings.Builder
	if up > 0 {
		out.WriteString(ansi.CursorUp(up))
	}
	out.WriteString("\r")
	for _, l := range lines {
		out.WriteString(string(cut(l, width-1)) + ansi.EraseLineRight + "\r\n")
	}
	s.put(shown(out.String() + ansi.EraseScreenBelow))
}

// raw is for what is not for people, or must arrive as it is: objects as JSON and YAML, which are escaped by their own
// rules, a relayed connection, a session by ssh, a log that quotes by itself, a script for a shell.
func (s *screen) raw() io.Writer { return s.stream }

// prose is a writer for what writes its own lines, as help and completion do. A character may come in parts.
func (s *screen) prose() io.Writer { return &prose{to: s} }

type prose struct {
	to   *screen
	rest []byte // the beginning of a character
}

// Write never keeps more than a part of one character back.
func (p *prose) Write(text []byte) (int, error) {
	whole, rest := printable.Whole(append(p.rest, text...))
	p.rest = rest
	parts := strings.Split(string(whole), "\t") // completion tells names from their explanations by tabs
	for i, part := range parts {
		parts[i] = printable.Lines(part)
	}
	p.to.put(shown(strings.Join(parts, "\t")))
	return len(text), nil
}
