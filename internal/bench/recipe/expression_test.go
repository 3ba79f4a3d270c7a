package recipe

import (
	"strings"
	"testing"
)

func TestExpressions(t *testing.T) {
	values := Values{"nodes": 3, "cores": 8, "N": 1000, "memory": 64 << 30}
	for text, want := range map[string]float64{
		"2 + 3 * 4": 14, "(2 + 3) * 4": 20, "2 ^ 3 ^ 2": 512, "-2 ^ 2": -4, "2 - 3 - 4": -5, "12 / 3 / 2": 2, "2*-3": -6,
		"nodes * cores": 24, "2/3 * N^3": 2.0 / 3 * 1e9, "floor(sqrt(0.6 * memory / 8) / 192) * 192": 71616,
		"max(1, min(nodes, 2), 0)": 2, "1.5e3 + .5": 1500.5, "log2(memory)": 36, "ceil(nodes/2)": 2, " 7 ": 7,
	} {
		e, err := ParseExpression(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := e.Eval(values); err != nil || got != want {
			t.Errorf("%s = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestWrongExpressionsSayWhere(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "character 1: expected a number, a name or (, not the end",
		"2 +":                     "character 4: expected a number, a name or (, not the end",
		"2 3":                     `character 3: expected an operator, not "3"`,
		"(2":                      "character 3: expected ), not the end",
		"µ":                       `character 1: expected a number, a name or (, not "µ"`,
		"1.2.3":                   `character 1: expected a number, not "1.2.3"`,
		"floor(1, 2)":             "floor takes 1 to 1 values, not 2",
		"system(1)":               "there is no function system",
		"min(1":                   "character 6: expected , or ), not the end",
		strings.Repeat("(", 99):   "character 51: more than 50 brackets in brackets",
		strings.Repeat("1+", 300): "an expression has 500 bytes at most",
	} {
		if _, err := ParseExpression(text); err == nil || err.Error() != want {
			t.Errorf("%.20s: %v; want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{"nodse * 2": "nodse is not known here", "1 / 0": "1 / 0 is no number",
		"sqrt(0 - 1)": "sqrt(0 - 1) is no number", "9^9^9": "9^9^9 is no number"} {
		e, err := ParseExpression(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Eval(Values{"nodes": 1}); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}

func FuzzExpression(f *testing.F) {
	for _, text := range []string{"2 + 3 * nodes", "-(1)^max(2,3)", "floor(", "1e999", "µ"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if e, err := ParseExpression(text); err == nil {
			_, _ = e.Eval(Values{"nodes": 2})
		}
	})
}
