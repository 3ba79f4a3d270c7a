package program

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/drivers/power"
)

func TestControls(t *testing.T) {
	for rest, wanted := range map[string]control{
		":pdu":                       {program: "pdu"},
		":pdu.sh?arg=3&arg=a%20b%26": {program: "pdu.sh", args: []string{"3", "a b&"}},
		":pdu?arg=":                  {program: "pdu", args: []string{""}},
	} {
		got, err := parse(rest)
		if diff := cmp.Diff(power.Control(wanted), got, cmp.AllowUnexported(control{})); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", rest, err, diff)
		}
	}
}

// FuzzParse: whatever an API client writes, what is accepted is safe to run.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", ":pdu?arg=1&arg=%20", ":../x", ":a?arg=%", ":-rf", ":pdu?", ":pdu 3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		parsed, err := parse(rest)
		if err != nil {
			return
		}
		c := parsed.(control)
		if c.program == "" || strings.ContainsAny(c.program, "/\x00\n ") || c.program[0] == '.' || c.program[0] == '-' ||
			strings.Contains(strings.Join(c.args, ""), "\x00") {
			t.Errorf("%q: %+v", rest, c)
		}
	})
}
