package spec

import (
	"path"
	"strconv"
	"strings"
	"time"

	"muster/internal/kit/duration"
	"muster/internal/kit/pattern"
)

// kind is a type of value: what it is called, how it is written, and what is told to someone who writes it otherwise.
type kind struct {
	is       string // as in "must be a size"
	json     string // its type in JSON and JSON Schema
	form     *pattern.Pattern
	hint     string // what would work
	example  string
	reserved []string                   // of the right form, and still refused
	units    map[string]int64           // makes two values comparable: number times unit
	measure  func(string) (int64, bool) // the same, for values that are more than one number
	digits   bool                       // a text that may be written as a plain number
	valid    func(string) bool
}

// kinds are all types of the field table. A text kind's form bounds its length, so that no value needs a second limit.
var kinds = map[string]kind{
	"mapping": {is: "a mapping", json: "object", hint: "write its fields as key: value, indented below it"},
	"list":    {is: "a list", json: "array", hint: "write its entries one a line, each after \"- \", or in [ ]"},
	"number": {is: "a whole number", json: "integer", hint: "write plain digits, without quotes or unit", example: "16",
		units: map[string]int64{"": 1}},
	"flag":   {is: "true or false", json: "boolean", hint: "write true or false, without quotes"},
	"choice": {is: "one of the known words", json: "string"},
	"cluster name": {
		is: "a cluster name", json: "string", form: pattern.New(`^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$`),
		hint:    "1 to 30 of a-z, 0-9 and '-'; begin with a letter, end with a letter or digit",
		example: "cfd",
	},
	"queue name": {
		is: "a queue name", json: "string", form: pattern.New(`^[a-z]([a-z0-9-]{0,18}[a-z])?$`),
		hint:     "1 to 20 of a-z, 0-9 and '-'; begin and end with a letter, since its nodes are numbered",
		example:  "cpu",
		reserved: []string{"all", "default", "head", "n"},
	},
	"QOS name": {
		is: "the name of a QOS", json: "string", form: pattern.New(`^[a-z][a-z0-9_-]{0,30}$`),
		hint:    "1 to 31 of a-z, 0-9, '_' and '-'; begin with a letter",
		example: "short",
	},
	// A hyphen is never followed by another one, which separates the words of an app's address; xn-- begins what is not ASCII.
	"app name": {
		is: "the name of an app", json: "string", form: pattern.New(`^[a-z](-?[a-z0-9]){0,14}$`),
		hint:     "1 to 15 of a-z and 0-9, with single '-' between; begin with a letter",
		example:  "jupyter",
		reserved: []string{"xn"},
	},
	"name": {
		is: "a name", json: "string", form: pattern.New(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`),
		hint:    "1 to 63 of a-z, 0-9, '.', '_' and '-'; begin and end with a letter or digit",
		example: "epyc-ib",
	},
	"size": {
		is: "a size", json: "string", form: pattern.New(`^[1-9][0-9]{0,3}(MiB|GiB|TiB)$`),
		hint:    "a whole number with MiB, GiB or TiB",
		example: "200GiB",
		units:   map[string]int64{"MiB": 1, "GiB": 1 << 10, "TiB": 1 << 20},
	},
	"duration": {
		is: "a duration", json: "string", form: pattern.New(`^` + duration.Form + `$`),
		hint:    duration.Hint,
		valid:   func(s string) bool { return Duration(s) > 0 },
		measure: func(s string) (int64, bool) { return int64(Duration(s)), true },
	},
	"money": {
		is: "an amount of money", json: "string", form: pattern.New(`^[1-9][0-9]{0,8}(\.[0-9]{2})? [A-Z]{3}$`),
		hint:    "a number and a currency",
		example: "500 EUR",
	},
	"number or percentage": {
		is: "a number or a percentage", json: "string", form: pattern.New(`^([1-9][0-9]{0,2}|1000|([1-9][0-9]?|100)%)$`),
		hint:    "a whole number from 1, or a percentage",
		example: "25%",
		digits:  true,
	},
	"time": {
		is: "a time", json: "string",
		form: pattern.New(`^(now|\+` + duration.Form +
			`|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2}))$`),
		hint:    "now, a time with its zone, or + and a duration counted from now",
		example: "2027-03-01T08:00:00Z",
		valid:   isTime,
	},
	"mount point": {
		is: "a mount point", json: "string", form: pattern.New(`^(/[A-Za-z0-9._-]{1,64}){1,8}$`),
		hint:    "an absolute path that does not end in /",
		example: "/home",
		valid:   func(s string) bool { return path.Clean(s) == s },
	},
	"file path": {
		is: "the path of a file", json: "string", form: pattern.New(`^[A-Za-z0-9._/-]{1,256}$`),
		hint:    "a path beside the cluster file",
		example: "./setup.sh",
	},
	"package": {
		is: "the name of a package", json: "string", form: pattern.New(`^[A-Za-z0-9][A-Za-z0-9.+_@=:-]{0,127}$`),
		hint:    "its name, with a version if it must be that one",
		example: "openfoam",
	},
	"URL": {
		is: "a URL", json: "string", form: pattern.New(`^[a-z][a-z0-9+.-]{0,31}://[!-~]{1,512}$`),
		hint:    "where the file system is served",
		example: "lustre://mgs@o2ib:/scratch",
	},
}

func isTime(s string) bool {
	_, err := time.Parse(time.RFC3339, s)
	after, relative := strings.CutPrefix(s, "+")
	return s == Now || relative && Duration(after) > 0 || err == nil
}

// Duration reads a duration of a cluster file, in whole seconds; it is 0 for anything else.
func Duration(text string) time.Duration {
	d, err := duration.Parse(text)
	if err != nil || d%time.Second != 0 {
		return 0
	}
	return d
}

// MiB reads a size as a cluster file has it, such as 64GiB; it is 0 for anything else.
func MiB(text string) int {
	k := kinds["size"]
	if !k.accepts(text) {
		return 0
	}
	mib, _ := k.amount(text) // its form has made sure that it is one
	return int(mib)
}

// advice is the hint with its example.
func (k kind) advice() string {
	if k.example == "" {
		return k.hint
	}
	return k.hint + ", as in " + k.example
}

// accepts says whether a text is a value of this kind.
func (k kind) accepts(s string) bool {
	if k.form != nil && !k.form.MatchString(s) {
		return false
	}
	return k.valid == nil || k.valid(s)
}

// lower says whether b is less than a, where the kind knows an order.
func (k kind) lower(a, b string) bool {
	before, ok1 := k.amount(a)
	after, ok2 := k.amount(b)
	return ok1 && ok2 && after < before
}

func (k kind) amount(s string) (int64, bool) {
	if k.measure != nil {
		return k.measure(s)
	}
	unit := strings.TrimLeft(s, "0123456789")
	scale, known := k.units[unit]
	n, err := strconv.ParseInt(strings.TrimSuffix(s, unit), 10, 64)
	return n * scale, known && err == nil
}
