package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

func TestHelpIsFilledToItsWidth(t *testing.T) {
	for _, c := range []struct{ about, text, want string }{
		{"lines of a paragraph are one text", "a first line,\nand a second one", "a first line, and a\nsecond one"},
		{"paragraphs stay apart", "one\n\ntwo", "one\n\ntwo"},
		{"a list stays one, and goes on below its last column", "these:\n\n  mac   of a NIC of it\n  port  of a switch",
			"these:\n\n  mac   of a NIC of\n        it\n  port  of a switch"},
		{"a word that is too long has a line", "see https://example.org/long now", "see\nhttps://example.org/long\nnow"},
		{"characters count, and not bytes", "ääääää ääääää ääääää", "ääääää ääääää ääääää"},
	} {
		if got := fill(c.text, 20); got != c.want {
			t.Errorf("%s:\n%s\n\nand not\n%s", c.about, got, c.want)
		}
	}
}

// TestHelpFitsAnyTerminal: what is copied stays as it is, examples and usage lines; all else has room in 80 columns.
func TestHelpFitsAnyTerminal(t *testing.T) {
	everyCommand(func(c *cobra.Command) {
		copied := false
		r := muster(t, append(strings.Fields(c.CommandPath())[1:], "--help")...)
		for line := range strings.Lines(r.out) {
			line = strings.TrimSuffix(line, "\n")
			switch line {
			case "Usage:", "Examples:":
				copied = true
			case "":
				copied = false
			}
			if !copied && utf8.RuneCountInString(line) > 80 && !strings.HasPrefix(line, `Use "muster `) {
				t.Errorf("%s --help: %q", c.CommandPath(), line)
			}
		}
	})
}
