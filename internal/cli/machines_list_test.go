package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	apiv1 "muster/api/v1"
	"muster/internal/spec"
)

// Spreadsheets quote, mark the byte order, end lines in their own ways, separate columns by what the language of their user has,
// and leave empty rows and columns behind.
func TestListsOfMachinesAreReadAsSpreadsheetsWriteThem(t *testing.T) {
	want := []apiv1.NewMachine{
		{Name: "r001", MACs: []string{"52:54:00:aa:00:01", "52:54:00:aa:01:01"}, Network: "rack", Power: "wol",
			Ports: []string{}},
		{Name: "r002", MACs: []string{"52:54:00:aa:00:02"}, Network: "rack", Power: "ipmi 10.0.0.2, cipher 17",
			Ports: []string{}},
	}
	const plain = "name,macs,network,power\nr001,52:54:00:aa:00:01 52:54:00:aa:01:01,rack,wol\n" +
		"r002,52:54:00:aa:00:02,rack,\"ipmi 10.0.0.2, cipher 17\"\n"
	quoted := "\ufeff\"name\",\"macs\",\"network\",\"power\"\n\"r001\",\"52:54:00:aa:00:01 52:54:00:aa:01:01\",\"rack\",\"wol\"\n" +
		"\"r002\",\"52:54:00:aa:00:02\",\"rack\",\"ipmi 10.0.0.2, cipher 17\"\n"
	semicolons := "Name;MACs;Network;Power\nr001;52:54:00:aa:00:01 52:54:00:aa:01:01;rack;wol\n" +
		"r002;52:54:00:aa:00:02;rack;ipmi 10.0.0.2, cipher 17\n"
	for what, text := range map[string]string{
		"plain": plain, "quoted, with a byte order mark": quoted, "CRLF": strings.ReplaceAll(quoted, "\n", "\r\n"),
		"CR": strings.ReplaceAll(plain, "\n", "\r"), "semicolons": semicolons, "tabs": strings.ReplaceAll(semicolons, ";", "\t"),
		"a line that names the separator": "sep=;\r\n" + semicolons,
		"empty rows":                      plain + ",,,\n\n , ,,\n",
		"empty columns":                   strings.ReplaceAll(plain, "\n", ",,\n"),
		"comments first":                  "# of the vendor, 2026\n" + semicolons,
	} {
		list, err := readMachines("list.csv", []byte(text))
		if err != nil || !reflect.DeepEqual(list.machines, want) {
			t.Errorf("%s: %v\n%+v", what, err, list.machines)
		}
	}
	placed, err := readMachines("list.csv", []byte("name,macs,power,rack,unit,slot\nr1,52:54:00:aa:00:01,wol,r01,12,3\n"))
	if at := placed.machines[0].Location; err != nil || at == nil || *at != (apiv1.Location{Rack: "r01", Unit: 12, Slot: 3}) {
		t.Errorf("%v, %+v", err, at)
	}
	for text, says := range map[string]string{
		"name,macs,power,rack,unit\nr1,52:54:00:aa:00:01,wol,r01,U12\n": `list.csv:2:30: unit "U12" is not a number`,
		"name,macs,power,unit\nr1,52:54:00:aa:00:01,wol,12\n":           "list.csv:2:26: unit 12 of no rack: name the rack, too",
		"\xff\xfen\x00a\x00": "list.csv: is UTF-16; save it as CSV in UTF-8",
		"name,macs,power\nr\xe4ck,52:54:00:aa:00:01,wol\n":  "list.csv:2: is not UTF-8; save it as CSV in UTF-8",
		"name,macs,power\nr1,52:54:00:aa:00:01,\n":          "list.csv:2:22: power is missing",
		"name,macs,power,\nr1,52:54:00:aa:00:01,wol,oops\n": `list.csv:2:26: "oops" is in a column without a name`,
		"name,macs\n":                     "list.csv:1: column power is missing",
		"sep=;\nname;macs;power;colour\n": `list.csv:2:17: "colour" is no column`,
		"name,macs,power\nr1,\"52:54:00:aa:00:01\" oops,wol\n": "list.csv:2:",
		"\ufeff": "list.csv: is empty",
	} {
		if _, err := readMachines("list.csv", []byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; %q is wanted", text, err, says)
		}
	}
}

// What is wrong with a machine of a list is told at its place in the file, although the controller has never seen that.
func TestWhatIsWrongWithAListOfMachinesHasItsPlaceInTheFile(t *testing.T) {
	s := newSite(t)
	path := filepath.Join(t.TempDir(), "list.csv")
	text := "\ufeff# a comment\r\nname;network;macs;power\r\nr001;rack;52:54:00:aa:00:01;wol\r\n\r\n" +
		"r002;rack;52:54:00:aa:00:01  52:54:00:zz:00:02;wol\r\nR003;rack;52:54:00:aa:00:03;wol\r\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := spec.Diagnostics{
		{Path: "machines[1].macs[0]", Text: "52:54:00:aa:00:01 is listed twice, here and for machines[0]", Hint: "one machine"},
		{Path: "machines[1].macs[1]", Text: "it is no MAC address", Line: 7, Col: 9},
		{Path: "body.machines[2].name", Text: "expected string to match pattern"},
		{Path: "machines[1].ports", Text: "missing"},
		{Path: "machines[9].name", Text: "there is no such machine"},
		{Path: "substrate", Text: "odd"},
	}
	s.HandleFunc("POST /v1/machines", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 422, apiv1.Problem{Code: "invalid", Status: 422, Detail: "wrong", Errors: wrong})
	})
	r := muster(t, "machines", "import", path)
	r.wants(t, exitInvalid,
		path+":5:11: r002: 52:54:00:aa:00:01 is listed twice, here and for r001 in line 3 (one machine)\n",
		path+":5:30: r002: it is no MAC address\n", path+":6:1: R003: expected string to match pattern\n",
		path+":5:1: r002: missing\n", "error: machines[9].name: there is no such machine\n", "error: substrate: odd\n")
}

func FuzzListOfMachines(f *testing.F) {
	f.Add("\ufeff\"name\",\"macs\",\"network\",\"power\"\r\n\"r001\",\"52:54:00:aa:00:01\",\"rack\",\"wol\"\r\n")
	f.Add("sep=;\nname;macs;power;;\nr1;a  b;c;;\n;;;;\n")
	f.Add("name\tmacs\tpower\r\r\"r1\ta\tb\r")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := readMachines("list.csv", []byte(text))
		if err != nil {
			return
		}
		if len(list.machines) == 0 || len(list.machines) != len(list.places) {
			t.Fatalf("%d machines at %d places", len(list.machines), len(list.places))
		}
		for i, m := range list.machines {
			if name := list.places[i]["name"]; m.Name == "" || m.Power == "" || name.line < 2 || name.column < 1 {
				t.Errorf("%+v at %+v", m, name)
			}
			for n := range m.MACs {
				if at := list.places[i]["macs"]; at.word(n) < at.column {
					t.Errorf("word %d of %+v is at %d", n, at, at.word(n))
				}
			}
		}
	})
}
