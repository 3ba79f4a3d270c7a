package cli

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"

	"muster/internal/kit/printable"
)

// safeJSON is the same JSON with what a terminal would obey written as \uXXXX. JSON asks that of the first 32 characters
// only.
func safeJSON(text []byte) []byte {
	var out bytes.Buffer
	marks := 0 // how many combining characters follow each other
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if marks++; !unicode.Is(unicode.M, r) {
			marks = 0
		}
		switch {
		case r == utf8.RuneError && n == 1:
			out.WriteString(`\ufffd`)
		case r == '\n' || r == '\t' || printable.Rune(r) && marks <= 3: // the former stand between values
			out.Write(text[i : i+n])
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		i += n
	}
	return out.Bytes()
}

// safeYAML makes YAML of JSON. A text with something in it that a terminal would obey, or that has no plain form, is quoted
// and escaped, which the library does not do by itself.
func safeYAML(text []byte) ([]byte, error) {
	mark := "q" + strings.ToLower(rand.Text()) + "n"
	var swap []string
	var out bytes.Buffer
	for len(text) > 0 {
		start := bytes.IndexByte(text, '"')
		if start < 0 {
			break
		}
		end := start + 1
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(text) {
			break // the library tells what is wrong
		}
		quoted := text[start : end+1]
		out.Write(text[:start])
		var value string
		if err := json.Unmarshal(quoted, &value); err != nil {
			return nil, err
		}
		if odd(value) {
			place := fmt.Sprintf("%s%dq", mark, len(swap))
			swap = append(swap, place, quotedYAML(value))
			out.WriteString(`"` + place + `"`)
		} else {
			out.Write(quoted)
		}
		text = text[end+1:]
	}
	out.Write(text)
	made, err := yaml.JSONToYAML(out.Bytes())
	if err != nil {
		return nil, err
	}
	return []byte(strings.NewReplacer(swap...).Replace(string(made))), nil
}

func odd(value string) bool {
	return printable.Lines(value) != value
}

// quotedYAML is a text in double quotes with the escapes of YAML.
func quotedYAML(value string) string {
	var out strings.Builder
	for _, r := range value {
		switch {
		case r == '"' || r == '\\':
			out.WriteString(`\` + string(r))
		case printable.Rune(r) && !unicode.Is(unicode.M, r):
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return `"` + out.String() + `"`
}
