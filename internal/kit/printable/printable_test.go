package printable

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWhatATerminalWouldObeyIsShown(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"Jürgen Åström, 山田 太郎 ✓ …":     "Jürgen Åström, 山田 太郎 ✓ …",
		"\x1b]0;PWNED\a\x1b[2J":        `\x1b]0;PWNED\x07\x1b[2J`,
		"a\nb\tc\rd":                   `a\nb\tc\rd`,
		"\x9b31mred":                   `\x9b31mred`,            // C1 as one byte
		"\u009b31m\u0085\u0090":        `\u009b31m\u0085\u0090`, // C1 as UTF-8
		"\x7f\x00":                     `\x7f\x00`,
		"a\u202eb\u2066c\u2069\u200fd": `a\u202eb\u2066c\u2069\u200fd`,
		"\u200b\u200d\ufeff\u00ad":     `\u200b\u200d\ufeff\u00ad`,
		"a\u2028b\u2029c":              `a\u2028b\u2029c`,
		"\ue000\U000f0000\U000e0041":   `\ue000\U000f0000\U000e0041`,
		"\u3164\uffa0\u115f\u2800":     `\u3164\uffa0\u115f\u2800`, // letters and signs that are blank
		"a\u00a0b\u3000c":              `a\u00a0b\u3000c`,
		"\u0301e":                      `\u0301e`, // would lie on what stands before
		"e\u0301\u0301\u0301\u0301x":   "e\u0301\u0301\u0301" + `\u0301x`,
		"\xff\xfe\xc0\x80":             `\xff\xfe\xc0\x80`,
		"\xed\xa0\x80":                 `\xed\xa0\x80`, // a lone surrogate
		`\x1b[31m`:                     `\x1b[31m`,
	} {
		if got := Line(text); got != want {
			t.Errorf("%q: %q, %q wanted", text, got, want)
		}
	}
	if got := Lines("a\r\n\tb\x1b\n\u0301"); got != "a\n    b\\x1b\n\\u0301" {
		t.Errorf("%q", got)
	}
}

func TestATextIsCutBetweenCharacters(t *testing.T) {
	for most := range 40 {
		for _, text := range []string{strings.Repeat("ä€😀", 20), strings.Repeat("\x1b", 50)} {
			got := Within(text, most)
			if !utf8.ValidString(got) || len(got) > max(most, len("…")) {
				t.Errorf("%d: %q", most, got)
			}
		}
	}
	if got := Within("short", 5); got != "short" {
		t.Error(got)
	}
}

func TestACharacterThatHasNotEndedIsHeldBack(t *testing.T) {
	for text, want := range map[string]string{"": "", "a": "a", "aé": "aé", "a\xc3": "a", "€\xe2\x82": "€", "\xf0\x9f\x98": "",
		"😀": "😀", "\x98\x80": "\x98\x80", "a\xff": "a\xff"} {
		whole, rest := Whole([]byte(text))
		if string(whole) != want || string(whole)+string(rest) != text {
			t.Errorf("%q: %q and %q", text, whole, rest)
		}
	}
}

func FuzzNothingForATerminalIsLeft(f *testing.F) {
	f.Add("a\x1b[31m\u202e\n")
	f.Fuzz(func(t *testing.T, text string) {
		line, lines := Line(text), Lines(text)
		if strings.ContainsRune(line, '\n') {
			t.Errorf("%q has lines", line)
		}
		if Line(line) != line || Lines(lines) != lines {
			t.Errorf("%q changes again", line)
		}
		for _, r := range line + strings.ReplaceAll(lines, "\n", "") {
			if !Rune(r) {
				t.Errorf("%q is left of %q", r, text)
			}
		}
	})
}

func TestEveryTextIsBound(t *testing.T) {
	type inner struct {
		Text string
		Raw  []byte
		More *inner
		Any  any
	}
	type kind string
	value := struct {
		Kind  kind
		List  []inner
		Names map[string]string
		Of    map[kind][]inner
		n     string
	}{Kind: "longer", Names: map[string]string{"a key": "a value", "k": "v"}, Of: map[kind][]inner{"x": {{Text: "longer"}}},
		n: "hidden"}
	value.List = []inner{{Text: "longer", Raw: []byte("longer"), More: &inner{Text: "longer"}, Any: &inner{Text: "longer"}}}
	Bound(&value, 4)
	l := value.List[0]
	if value.Kind != "l…" || l.Text != "l…" || string(l.Raw) != "longer" || l.More.Text != "l…" || l.Any.(*inner).
		Text != "l…" || value.n != "hidden" {
		t.Errorf("%+v", value)
	}
	if len(value.Names) != 2 || value.Names["a…"] != "a…" || value.Names["k"] != "v" || value.Of["x"][0].Text != "l…" {
		t.Errorf("%+v", value)
	}
	Bound(nil, 4)
}

// TestWhatJSONMakesLongIsBoundByThat: texts are kept in JSON, in which some characters take six bytes, and PostgreSQL takes no 0.
func TestWhatJSONMakesLongIsBoundByThat(t *testing.T) {
	for _, text := range []string{"\x00\x01\x1f\x7f", "<>&", "\"\\\n\t", "é", "plain"} {
		value := struct {
			Texts []string `bytes:"1000"`
		}{}
		for range 100 {
			value.Texts = append(value.Texts, strings.Repeat(text, 20))
		}
		Bound(&value, 1<<10)
		kept, err := json.Marshal(value.Texts)
		if err != nil || len(kept) > 1000+3*100+10 || strings.ContainsAny(strings.Join(value.Texts, ""), "\x00\x01\x1f") {
			t.Errorf("%q: %d bytes, %v", text, len(kept), err)
		}
	}
}

func TestListsThatSaySoAreShortened(t *testing.T) {
	value := struct {
		First []string          `most:"2"`
		Any   map[string]string `most:"1"`
		All   []string
	}{[]string{"a", "b", "c"}, map[string]string{"a": "long", "b": "long"}, []string{"a", "b", "c"}}
	Bound(&value, 4)
	if len(value.First) != 2 || value.First[1] != "b" || len(value.Any) != 1 || len(value.All) != 3 {
		t.Errorf("%+v", value)
	}
}

func TestTextsOfAFieldShareItsBytes(t *testing.T) {
	type inner struct{ A, B string }
	value := struct {
		Before string
		List   []inner           `bytes:"10"`
		Names  map[string]string `bytes:"6"`
		After  inner             `bytes:"8"`
		Long   string            `bytes:"12"`
	}{"12345678", []inner{{"1234", "1234"}, {"1234", "1234"}}, map[string]string{"a": "long", "b": "long"},
		inner{"1234", "1234"}, "123456789 and more"}
	Bound(&value, 8)
	if !slices.Equal(value.List, []inner{{"1234", "1234"}, {"", ""}}) || value.Before != "12345678" ||
		value.After != (inner{"1234", "1234"}) || value.Long != "123456789…" {
		t.Errorf("%+v", value)
	}
	bytes := 0
	for key, text := range value.Names {
		bytes += len(key) + len(text)
	}
	if bytes > 6 || len(value.Names) != 2 {
		t.Errorf("%+v has %d bytes", value.Names, bytes)
	}
	for most, want := range map[int]string{0: "", 2: "", 3: "…", 4: "…", 5: "…", 6: "€…"} {
		if got := Cut("€€€", most); got != want {
			t.Errorf("of %d bytes: %q, want %q", most, got, want)
		}
	}
}
