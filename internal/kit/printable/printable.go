// Package printable makes texts that others wrote fit for a terminal.
//
// What enters: text of anybody: users, machines, providers of identities, programs.
// What leaves: the same text without anything that a terminal obeys, hides or reorders. Such a character is shown as Go
// writes it in a string, as in \x1b or \u202e, so that it is seen that it was there.
package printable

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line is text for one line: a newline in it is shown as \n, a tab as \t.
func Line(text string) string { return show(text, false) }

// Lines is text of several lines. Tabs are four spaces; a carriage return before a newline is left out.
func Lines(text string) string {
	if fit(text, true) {
		return text
	}
	return show(strings.ReplaceAll(text, "\r\n", "\n"), true)
}

// Within is Line cut to at most so many bytes, with … where something is left out.
func Within(text string, most int) string {
	text = text[:min(len(text), 4*most)] // a long one is not read to its end; each byte is at most \xNN
	return Cut(Line(text), most)
}

// Cut is a text cut to at most so many bytes between two characters, with … where something is left out.
func Cut(text string, most int) string {
	const mark = "…"
	if len(text) <= most {
		return text
	}
	if most < len(mark) {
		return ""
	}
	end := most - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// Whole is a text without the beginning of a character at its end, and that beginning.
func Whole(text []byte) (whole, rest []byte) {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if end := len(text) - back; utf8.RuneStart(text[end]) {
			if !utf8.FullRune(text[end:]) {
				return text[:end], slices.Clone(text[end:])
			}
			break
		}
	}
	return text, nil
}

// mostMarks is how many combining characters one letter may have: more make it reach into other lines.
const mostMarks = 3

// fit says whether text is plain ASCII, as most is.
func fit(text string, lines bool) bool {
	for i := range len(text) {
		if b := text[i]; (b < ' ' && (b != '\n' || !lines)) || b > '~' {
			return false
		}
	}
	return true
}

func show(text string, lines bool) string {
	if fit(text, lines) {
		return text
	}
	var out strings.Builder
	marks := mostMarks // a mark needs a letter before it
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		mark := unicode.Is(unicode.M, r)
		if mark {
			marks++
		}
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, text[i])
		case lines && r == '\n':
			out.WriteByte('\n')
		case lines && r == '\t':
			out.WriteString("    ")
		case Rune(r) && (!mark || marks <= mostMarks):
			out.WriteRune(r)
		default:
			out.WriteString(escaped(r))
		}
		if !mark {
			marks = 0
			if r == '\n' {
				marks = mostMarks
			}
		}
		i += n
	}
	return out.String()
}

// Rune says whether a terminal shows a character where it stands and as something that can be seen. The one space is ' '.
func Rune(r rune) bool {
	switch {
	case r == 0x2800, r == 0x1d159: // blank, though they count as symbols
		return false
	case r == 0xfe0e, r == 0xfe0f: // say whether a sign is shown as text or in colour
		return true
	}
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// escaped is a character as Go writes it in a string.
func escaped(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\t':
		return `\t`
	case r == '\r':
		return `\r`
	case r < 0x80:
		return fmt.Sprintf(`\x%02x`, r)
	case r > 0xffff:
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
