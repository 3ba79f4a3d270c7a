package cli

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// The width of help in columns is that of the terminal, within these bounds.
const (
	narrowest = 40
	widest    = 100
)

// help prints what a command is for, and how it is used.
func (a *app) help(c *cobra.Command, _ []string) {
	width, _ := size(a.out)
	width = min(max(width, narrowest), widest)
	flags := strings.TrimRight(c.LocalFlags().FlagUsages(), " \n")
	usage := strings.Replace(c.UsageString(), flags, strings.TrimRight(c.LocalFlags().FlagUsagesWrapped(width), " \n"), 1)
	_, _ = a.out.prose().Write([]byte(fill(cmp.Or(c.Long, c.Short), width) + "\n\n" + usage))
}

// fill breaks a text into lines of at most width columns. Lines that follow each other and begin without a space are one
// paragraph, wherever the source breaks them. A line that begins with spaces is an entry of a list: it continues below its
// last column.
func fill(text string, width int) string {
	var filled strings.Builder
	var paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			filled.WriteString(folded("", 0, strings.Join(paragraph, " "), width))
			paragraph = nil
		}
	}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		line = strings.TrimRight(line, " \n")
		if line != "" && line[0] != ' ' {
			paragraph = append(paragraph, line)
			continue
		}
		end()
		column := strings.LastIndex(line, "  ")
		column = max(column+len("  "), len(line)-len(strings.TrimLeft(line, " ")))
		column = min(column, len(line))
		filled.WriteString(folded(line[:column], utf8.RuneCountInString(line[:column]), line[column:], width))
	}
	end()
	return strings.TrimRight(filled.String(), "\n")
}

// folded sets the words of text behind a beginning of a line, in lines that are indented to where that ends.
func folded(begin string, indent int, text string, width int) string {
	var wrapped strings.Builder
	wrapped.WriteString(begin)
	column := indent
	for i, word := range strings.Fields(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case i > 0 && column+1+length > width:
			wrapped.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		case i > 0:
			wrapped.WriteByte(' ')
			column++
		}
		wrapped.WriteString(word)
		column += length
	}
	return wrapped.String() + "\n"
}
