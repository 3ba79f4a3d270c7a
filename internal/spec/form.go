package spec

import (
	"encoding/json"
	"fmt"

	"muster/internal/kit/pattern"
)

// Form is a kind of file that people write, in YAML or JSON: its fields, as a table. Files of all forms are read as strictly, and
// what is wrong with them is told alike.
type Form struct {
	what, one string // as in "a cluster file", and "one cluster"
	smallest  string // a hint for those who have nothing yet
	blocks    bool   // blocks of text may be written
	table     []Field
	root      *node
	rules     []rule // of cluster files alone
}

// clusterFile is the form of cluster files. It is never written to.
var clusterFile = &Form{what: "a cluster file", one: "cluster", table: table, root: grammar, rules: rules,
	smallest: "the smallest file has two lines, name: cfd and nodes: 16"}

// Kind is a type of text in another form than the cluster file's.
type Kind struct {
	Is      string           // as in "must be a size"
	Form    *pattern.Pattern // of the whole text; nil: any
	Hint    string           // what would work
	Example string
	Digits  bool // it may be written as a plain number
	Valid   func(string) bool
}

// NewForm makes a form of a table, whose types are the cluster file's and these. It panics where a row is of no type, or comes
// before its parent's: tables are written down, and tests use them.
func NewForm(one, smallest string, table []Field, types map[string]Kind) *Form {
	all := map[string]kind{}
	for name, k := range kinds {
		all[name] = k
	}
	for name, k := range types {
		all[name] = kind{is: k.Is, json: "string", form: k.Form, hint: k.Hint, example: k.Example, digits: k.Digits,
			valid: k.Valid}
	}
	for _, row := range table {
		if _, known := all[row.Type]; !known {
			panic("spec: the field " + row.Path + " is of no type: " + row.Type)
		}
	}
	return &Form{what: "a " + one, one: one, smallest: smallest, blocks: true, table: table, root: plant(table, all)}
}

// Read reads a file of the form into a value, whose JSON names are the table's. Where nothing is wrong so far, rules tell what no
// field alone can say, of that value. The file's name is only for messages. An error is always Diagnostics.
func (f *Form) Read(file string, src []byte, into any, rules func() Diagnostics) error {
	_, err := f.read(file, src, func(r *reader, values any) {
		text, err := json.Marshal(values)
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			panic(fmt.Sprintf("spec: %T does not follow the table of its form: %v", into, err))
		}
		if len(r.found) == 0 && rules != nil {
			places := Document{File: file, places: r.places}
			r.found = places.Locate(rules())
		}
	})
	return err
}

// read reads a file, hands on what could be read, and says where everything stands.
func (f *Form) read(file string, src []byte, use func(r *reader, values any)) (map[string]position, error) {
	text, body, ds := f.load(src)
	places := map[string]position{"": {1, 1}}
	if len(ds) == 0 {
		r := &reader{text: text, places: places}
		r.places[""] = r.start(body)
		use(r, r.value(f.root, "", body))
		ds = r.found
	}
	for i := range ds {
		ds[i].File = file
	}
	ds.sort()
	return places, ds.err()
}
