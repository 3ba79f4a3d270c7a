package house

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	marks   = regexp.MustCompile("[^a-z0-9 _-]")
	blocks  = regexp.MustCompile("(?s)```.*?```")
	code    = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
)

// anchors are the names by which a page's headings are linked to, as GitHub makes them.
func anchors(page string) (names []string) {
	for _, m := range heading.FindAllStringSubmatch(blocks.ReplaceAllString(page, ""), -1) {
		plain := marks.ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(strings.TrimSpace(plain), " ", "-"))
	}
	return names
}

// TestLinksOfPagesLeadSomewhere follows every link of a Markdown page to a file, a folder or a heading of the tree.
func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	house, seen := house(t), 0
	for _, f := range house.files {
		if path.Ext(f.path) != ".md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(f.text, ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			seen++
			to, anchor, _ := strings.Cut(m[1], "#")
			at := f.path
			if to != "" {
				at = path.Join(path.Dir(f.path), to)
			}
			i := slices.IndexFunc(house.files, func(g file) bool { return g.path == at || strings.HasPrefix(g.path, at+"/") })
			if i < 0 {
				t.Errorf("%s: %s leads nowhere", f.path, m[1])
			} else if anchor != "" && !slices.Contains(anchors(house.files[i].text), anchor) {
				t.Errorf("%s: %s: that page has no such heading", f.path, m[1])
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d links were found: this test looks at nothing", seen)
	}
}

// TestTheDecisionsAreListed: the list names each page of decisions with all its sections, in their order.
func TestTheDecisionsAreListed(t *testing.T) {
	house, seen := house(t), 0
	list := strings.ToLower(house.page(t, "docs/decisions/README.md"))
	for _, f := range house.files {
		page, is := strings.CutPrefix(f.path, "docs/decisions/")
		if !is || page == "README.md" {
			continue
		}
		seen++
		var sections []string
		for _, m := range heading.FindAllStringSubmatch(blocks.ReplaceAllString(f.text, ""), -1) {
			if strings.HasPrefix(m[0], "## ") {
				sections = append(sections, strings.ToLower(strings.ReplaceAll(m[1], "`", "")))
			}
		}
		if want := "](" + page + "): " + strings.Join(sections, "; ") + "\n"; !strings.Contains(list, want) {
			t.Errorf("docs/decisions/README.md lacks %q", want)
		}
	}
	if seen < 20 {
		t.Errorf("only %d pages were found: this test looks at nothing", seen)
	}
}
