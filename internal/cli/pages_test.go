package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	inlineCode = regexp.MustCompile("`[^`\n]+`")
	called     = regexp.MustCompile(`(?:^|[\s(=/])muster ([a-z][^|;&>#)]*)`)
	aVerb      = regexp.MustCompile(`^[a-z]+$`)
	flagUsed   = regexp.MustCompile(`(?:^|[\s\[{(])--([a-z][a-z-]*)`)
)

// commandsOf are the command lines of muster's that a page of Markdown shows, less the word muster. Of a block that has
// prompts, the lines without one are output.
func commandsOf(page string) (lines []string) {
	take := func(text string) {
		for _, m := range called.FindAllStringSubmatch(strings.TrimPrefix(text, "$ "), -1) {
			line, _, _ := strings.Cut(m[1], " -- ")
			lines = append(lines, line)
		}
	}
	for i, part := range strings.Split(page, "```") {
		if i%2 == 0 {
			for _, span := range inlineCode.FindAllString(part, -1) {
				if text := strings.Trim(span, "`"); strings.HasPrefix(text, "muster ") {
					take(text)
				}
			}
			continue
		}
		prompts := strings.Contains(part, "\n$ ")
		for line := range strings.Lines(part) {
			text := strings.TrimPrefix(strings.TrimSpace(line), "bin/")
			if strings.HasPrefix(text, "$ ") || !prompts && strings.HasPrefix(text, "muster ") {
				take(text)
			}
		}
	}
	return lines
}

// TestThePagesShowCommandsThatThereAre holds README and docs to the command line: its verbs, and the flags of each.
func TestThePagesShowCommandsThatThereAre(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, path := range append(pages, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandsOf(string(text)) {
			seen++
			root := (&app{}).root(nil)
			c, rest, err := root.Find(strings.Fields(line))
			if err != nil || c == root || c.HasSubCommands() && len(rest) > 0 && aVerb.MatchString(rest[0]) &&
				c.Args(c, rest[:1]) != nil {
				t.Errorf("%s: `muster %s`: no such command", filepath.Base(path), line)
				continue
			}
			c.InitDefaultHelpFlag()
			for _, m := range flagUsed.FindAllStringSubmatch(line, -1) {
				if c.Flags().Lookup(m[1]) == nil && root.PersistentFlags().Lookup(m[1]) == nil {
					t.Errorf("%s: `muster %s`: %s has no flag --%s", filepath.Base(path), line, c.CommandPath(), m[1])
				}
			}
		}
	}
	if seen < 300 {
		t.Errorf("only %d command lines were found: this test looks at nothing", seen)
	}
}
