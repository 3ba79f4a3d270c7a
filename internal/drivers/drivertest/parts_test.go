package drivertest

import (
	"fmt"
	"slices"
	"testing"
)

type abilities struct{ Sings, Dances bool }

type subject struct {
	Can    abilities
	Speaks fmt.Stringer
	Other  func()
}

func TestNamesAndWhatOneSays(t *testing.T) {
	got := Names[subject]()
	if want := []string{"Stringer.String", "abilities.Dances", "abilities.Sings"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := Said(subject{Can: abilities{Sings: true}}); !slices.Equal(got, []string{"abilities.Sings"}) {
		t.Errorf("%q", got)
	}
}

func TestPartsAreRunOfThoseThatHaveWhatTheyTry(t *testing.T) {
	var ran []string
	part := func(name string, tries ...string) Part[subject] {
		return Part[subject]{name, tries, func(*testing.T, subject) { ran = append(ran, name) }}
	}
	parts := []Part[subject]{part("all"), part("song", "abilities.Sings"), part("dance", "abilities.Dances"),
		part("duet", "abilities.Sings", "Stringer.String")}
	Complete(t, parts)
	untried, unknown := Gaps(append(parts[:2:2], part("mime", "abilities.Mimes")))
	if !slices.Equal(untried, []string{"Stringer.String", "abilities.Dances"}) ||
		!slices.Equal(unknown, []string{"abilities.Mimes"}) {
		t.Errorf("%q are said to be untried, %q unknown", untried, unknown)
	}
	Run(t, parts, func(*testing.T) subject { return subject{Can: abilities{Sings: true, Dances: true}} },
		map[string]string{"abilities.Dances": "the floor is wet"})
	if !slices.Equal(ran, []string{"all", "song"}) {
		t.Errorf("%q", ran)
	}
}
