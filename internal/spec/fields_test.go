package spec

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// patterns spells out a type as path patterns, by its JSON names.
func patterns(t reflect.Type, path string) []string {
	switch t.Kind() {
	case reflect.Pointer:
		return patterns(t.Elem(), path)
	case reflect.Slice:
		return append([]string{path}, patterns(t.Elem(), path+"[]")...)
	case reflect.Map:
		return append([]string{path}, patterns(t.Elem(), path+".*")...)
	case reflect.Struct:
		all := []string{path}
		for i := range t.NumField() {
			key, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			all = append(all, patterns(t.Field(i).Type, strings.TrimPrefix(path+"."+key, "."))...)
		}
		return all
	default:
		return []string{path}
	}
}

func TestTheTableAndTheTypesAreTheSameInTheSameOrder(t *testing.T) {
	want := patterns(reflect.TypeFor[Cluster](), "")[1:]
	var got []string
	for _, f := range table {
		got = append(got, f.Path)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-types +table):\n%s", diff)
	}
}

func TestEveryRowOfTheTableIsComplete(t *testing.T) {
	for _, f := range table {
		k, known := kinds[f.Type]
		if !known {
			t.Errorf("%s: no kind is called %q", f.Path, f.Type)
		}
		if f.Doc == "" || !strings.HasSuffix(f.Doc, ".") || strings.Contains(f.Doc, "\n") {
			t.Errorf("%s: needs one line of documentation", f.Path)
		}
		if bounded := k.json == "integer" || k.json == "array"; bounded != (f.Max > 0) {
			t.Errorf("%s: bounds belong to numbers and lists", f.Path)
		}
		if (f.Type == "choice") != (len(f.Values) > 0) {
			t.Errorf("%s: words belong to a choice", f.Path)
		}
		if len(f.Now) > 0 && f.NotYet == "" {
			t.Errorf("%s: does not say what its other values will do", f.Path)
		}
		if k.example != "" && k.json == "string" && !k.accepts(k.example) {
			t.Errorf("%s: its own example is refused", f.Type)
		}
	}
}

func TestEveryChangeHasAnEffectAndAReason(t *testing.T) {
	effects := []Effect{Live, Rolling, DrainsQueue, NeverChanges}
	for _, f := range table {
		n := byPattern(f.Path)
		inList := strings.HasSuffix(f.Path, "[]") || strings.HasSuffix(f.Path, ".*")
		compared := !inList && !n.keyed() && len(n.fields) == 0 || inList && len(n.fields) > 0
		if compared != (f.Effect != "") || compared != (f.Why != "") {
			t.Errorf("%s: effect %q, why %q", f.Path, f.Effect, f.Why)
		}
		if compared && !slices.Contains(effects, f.Effect) || f.Less != "" && !slices.Contains(effects, f.Less) {
			t.Errorf("%s: unknown effect", f.Path)
		}
	}
}

func byPattern(path string) *node {
	if path == "" {
		return grammar
	}
	parent, key := splitPattern(path)
	if up := byPattern(parent); key != "[]" && key != "*" {
		return up.field(key)
	} else {
		return up.item
	}
}

func TestWhatIsInsideAnUnavailableFieldIsUnavailable(t *testing.T) {
	available := map[string]bool{}
	for _, f := range Fields() {
		available[f.Path] = f.Available()
	}
	for path, want := range map[string]bool{
		"name": true, "isolation": true, "queues[].nodes": true, "storage[].mount": true, "site[]": true,
		"burst": false, "pause": false, "burst.to": false, "queues[].vm.devices.gpu": true, "queues[].vm.cpus": true,
		"storage[].keep": false,
	} {
		if available[path] != want {
			t.Errorf("%s: available %v", path, available[path])
		}
	}
}

func TestTheDefaultsInTheTableAreThoseOfResolve(t *testing.T) {
	c := mustResolve(t, mustParse(t, "", []byte("name: cfd\nnodes: 4\n")).Cluster)
	for path, got := range map[string]string{"isolation": c.Isolation, "queues[].placement": c.Queues[0].Placement} {
		if want := byPattern(path).Default; got != want {
			t.Errorf("%s: %q, in the table %q", path, got, want)
		}
	}
}

func TestSuggestions(t *testing.T) {
	known := []string{"name", "nodes", "on_end", "min", "max", "or", "vm", "keep"}
	for word, want := range map[string]string{
		"nmae": "name", "node": "nodes", "NODES": "nodes", "onEnd": "on_end", "on-end": "on_end", "mx": "max",
		"scheduler": "", "x": "", "": "", "o": "or", strings.Repeat("n", 1000): "",
	} {
		if got := closest(word, known); got != want {
			t.Errorf("closest(%.10q) = %q, want %q", word, got, want)
		}
	}
}

func TestNodeNamesNeverCollide(t *testing.T) {
	if got := NodeName(MainQueue, 1) + " " + NodeName("cpu", 12); got != "n1 cpu12" {
		t.Error(got)
	}
	for _, name := range []string{"n", "a1", "head", "all", "default"} {
		if k := kinds["queue name"]; k.accepts(name) && !slices.Contains(k.reserved, name) {
			t.Errorf("a queue may be called %q", name)
		}
	}
}
