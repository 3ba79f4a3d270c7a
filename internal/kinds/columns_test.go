package kinds_test

import (
	"cmp"
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"muster/internal/inventory"
	"muster/internal/kinds"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kinds/snapshot"
	"muster/internal/place/topology"
	"muster/internal/protocol"
)

var update = flag.Bool("update", false, "write testdata/columns.txt again")

// columns are those that hold JSON, with a value of the type that is written there. Many are words that agents and users speak
// too.
func columns() map[string]any {
	var seen node.Node
	return map[string]any{
		"census.counts": kinds.Counts{},
		"boot.file":     machine.Boot{}.File, "boot.findings": machine.Boot{}.Findings,
		"cluster_jobs.current": protocol.CurrentJobs{},
		"cluster.receipt":      cluster.Cluster{}.Receipt, "cluster.spec": cluster.Cluster{}.Spec,
		"cluster.learned": cluster.Cluster{}.Learned, "cluster.targets": cluster.Cluster{}.Targets,
		"hosted.guest": host.Hosted{}.Guest, "hosting.report": host.Seen{}.Report,
		"fabric_topology.graph": topology.Graph{},
		"machine.facts":         inventory.Facts{}, "machine.allocation": machine.Machine{}.Allocation,
		"machine.power":       inventory.Power{},
		"machine.release":     machine.Machine{}.Release,
		"machine.summary":     inventory.Summary{},
		"network.description": inventory.Network{},
		"node.vm":             seen.VM,
		"observed.checks":     seen.Seen.Checks, "observed.facts": seen.Seen.Facts, "observed.scheduler": seen.Seen.Scheduler,
		"observed.test": seen.Seen.Test, "observed.undone": seen.Seen.Undone, "observed.waiting": seen.Seen.Waiting,
		"snapshot.spec": snapshot.Snapshot{}.Spec,
	}
}

// TestNoColumnChangesUnnoticed: a field that is renamed for agents or for users must not make rows of existing databases
// unreadable. testdata/columns.txt is what they hold. Fields may be added to it; for any other change the rows of before need
// to be read still, and testdata/rows of internal/core is where that is shown. `go test -update` writes the file again.
func TestNoColumnChangesUnnoticed(t *testing.T) {
	const file = "testdata/columns.txt"
	var lines []string
	for name, value := range columns() {
		lines = append(lines, shape(name, reflect.TypeOf(value), nil)...)
	}
	slices.Sort(lines)
	now := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range before {
		if !slices.Contains(lines, line) {
			t.Errorf("rows have %q, and nothing reads that now", line)
		}
	}
	for _, line := range lines {
		if !slices.Contains(before, line) {
			t.Errorf("%q is new: add it to %s, if rows without it are read as well", line, file)
		}
	}
}

// shape is what a value of a type is written as, a line for each thing that is no object: where it stands, and what it is.
func shape(at string, of reflect.Type, within []reflect.Type) (lines []string) {
	byItself := func(as reflect.Type) bool { return of.Implements(as) || reflect.PointerTo(of).Implements(as) }
	switch {
	case of.Kind() == reflect.Pointer:
		return shape(at, of.Elem(), within)
	case byItself(reflect.TypeFor[json.Marshaler]()) || byItself(reflect.TypeFor[encoding.TextMarshaler]()):
		return []string{at + " " + of.String()}
	case slices.Contains(within, of):
		return []string{at + " as above"}
	case of.Kind() == reflect.Slice && of.Elem().Kind() != reflect.Uint8, of.Kind() == reflect.Array:
		return shape(at+"[]", of.Elem(), within)
	case of.Kind() == reflect.Map:
		return shape(fmt.Sprintf("%s{%s}", at, of.Key().Kind()), of.Elem(), within)
	case of.Kind() != reflect.Struct:
		return []string{at + " " + of.Kind().String()}
	}
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() && !f.Anonymous || name == "-":
		case f.Anonymous && name == "":
			lines = append(lines, shape(at, f.Type, append(within, of))...)
		default:
			lines = append(lines, shape(at+"."+cmp.Or(name, f.Name), f.Type, append(within, of))...)
		}
	}
	return lines
}
