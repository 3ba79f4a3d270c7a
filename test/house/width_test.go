package house

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLinesStayNarrow counts a tab as four columns. Lines that a text within them makes long may be: a text is not cut where its
// readers would not see it whole.
func TestLinesStayNarrow(t *testing.T) {
	const limit, long = 130, 50
	house := house(t)
	for f := range house.code("cmd", "internal", "images", "api", "test") {
		texts := map[int]int{} // the longest text, or line of one, by the line that it stands on
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if literal, is := n.(*ast.BasicLit); is && literal.Kind == token.STRING {
				at := house.set.Position(literal.Pos()).Line
				for i, line := range strings.Split(literal.Value, "\n") {
					texts[at+i] = max(texts[at+i], columns(line))
				}
			}
			return true
		})
		for i, line := range strings.Split(f.text, "\n") {
			if n := columns(line); n > limit && texts[i+1] < long {
				t.Errorf("%s:%d has %d columns; the limit is %d", f.path, i+1, n, limit)
			}
		}
	}
}

func columns(line string) int { return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t") }
