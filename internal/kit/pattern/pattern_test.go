package pattern

import (
	"slices"
	"testing"
)

func TestAPatternIsCompiledWhenItIsUsed(t *testing.T) {
	wrong := New(`(`) // nothing happens yet
	if wrong.String() != `(` {
		t.Errorf("its text is %q", wrong.String())
	}
	defer func() {
		if recover() == nil {
			t.Error("what is no regular expression was used")
		}
	}()
	wrong.MatchString("")
}

func TestAPatternMatchesAsARegularExpressionDoes(t *testing.T) {
	p := New(`^([a-z]+)-([0-9]+)$`)
	for text, want := range map[string][]string{"ab-12": {"ab-12", "ab", "12"}, "ab": nil} {
		if got := p.FindStringSubmatch(text); !slices.Equal(got, want) || p.MatchString(text) != (want != nil) {
			t.Errorf("%q: %q", text, got)
		}
	}
	if p.Regexp().NumSubexp() != 2 || p.String() != `^([a-z]+)-([0-9]+)$` {
		t.Error("it is another expression")
	}
}
