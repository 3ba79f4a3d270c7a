// Package drivertest is what the contracts of all families of drivers have in common: parts that say what they try, and the proof
// that nothing which a driver says of itself stays untried.
//
// What enters: the parts of a contract, and a subject of a driver. What leaves: failures that name the broken promise, and what
// no part has tried.
package drivertest

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Part is one promise of a contract.
type Part[S any] struct {
	Name string
	// Tries names what it tries, as Names has it. It is run of drivers that have all of that.
	Tries []string
	Run   func(*testing.T, S)
}

// Names are all that drivers of a family can be asked: of their subject's fields, the fields of those that are structs, which
// hold what a driver declares, and the methods of those that are interfaces: "Capabilities.Sleeps", "Sleeper.Wake".
func Names[S any]() []string {
	var all []string
	for of, i := reflect.TypeFor[S](), 0; i < of.NumField(); i++ {
		all = append(all, namesOf(of.Field(i).Type)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func namesOf(t reflect.Type) (all []string) {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			all = append(all, t.Name()+"."+t.Field(i).Name)
		}
	case reflect.Interface:
		for i := range t.NumMethod() {
			all = append(all, t.Name()+"."+t.Method(i).Name)
		}
	}
	return all
}

// Said is what one driver says of itself: what it declares that is not zero, and the methods of the interfaces that it has.
func Said(subject any) []string {
	var all []string
	v := reflect.ValueOf(subject)
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			for j, name := range namesOf(f.Type()) {
				if !f.Field(j).IsZero() {
					all = append(all, name)
				}
			}
		case reflect.Interface:
			if !f.IsNil() {
				all = append(all, namesOf(f.Type())...)
			}
		}
	}
	return all
}

// Gaps are what a family can be asked and no part tries, and what a part tries that there is not.
func Gaps[S any](parts []Part[S]) (untried, unknown []string) {
	asked := Names[S]()
	var tried []string
	for _, p := range parts {
		tried = append(tried, p.Tries...)
	}
	return without(asked, tried), without(tried, asked)
}

// without are those of all that are not among some.
func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(some, name) })
}

// Complete fails where there are gaps. It is each contract's own test.
func Complete[S any](t *testing.T, parts []Part[S]) {
	t.Helper()
	untried, unknown := Gaps(parts)
	if len(untried)+len(unknown) > 0 {
		t.Errorf("no part of the contract tries %q; parts try %q, which there is not", untried, unknown)
	}
}

// Run runs those parts that try what a driver says it has, each with a fresh subject. What it says and no part has tried is a
// failure. Untried are reasons why something cannot be tried where the test runs, by its name or by that of its type: the parts
// that would try it are skipped with the reason.
func Run[S any](t *testing.T, parts []Part[S], fresh func(*testing.T) S, untried map[string]string) {
	t.Helper()
	said := Said(fresh(t))
	var tried []string
	for _, p := range parts {
		if len(without(p.Tries, said)) > 0 {
			continue
		}
		tried = append(tried, p.Tries...)
		t.Run(p.Name, func(t *testing.T) {
			for _, name := range p.Tries {
				if why := reason(untried, name); why != "" {
					t.Skipf("%s is not tried here: %s", name, why)
				}
			}
			p.Run(t, fresh(t))
		})
	}
	for _, name := range without(said, tried) {
		if why := reason(untried, name); why != "" {
			t.Run(name, func(t *testing.T) { t.Skip("not tried here: ", why) })
			continue
		}
		t.Errorf("it says that it has %s, and nothing tries that", name)
	}
	for name := range untried {
		if !slices.ContainsFunc(said, func(s string) bool { return s == name || strings.HasPrefix(s, name+".") }) {
			t.Errorf("why %s is not tried is said, and it is not had", name)
		}
	}
}

// reason is why a name is not tried; "": it is.
func reason(untried map[string]string, name string) string {
	of, _, _ := strings.Cut(name, ".")
	return cmp.Or(untried[name], untried[of])
}
