package monitor

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/printable"
	"muster/internal/protocol"
)

// An agent in wrong hands may report thousands of checks, and all would be written down at each report.
func TestEveryListThatAgentsReportIsBounded(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var look func(of reflect.Type)
	look = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			look(of.Elem())
		case reflect.Struct:
			if seen[of] {
				return
			}
			seen[of] = true
			for i := range of.NumField() {
				field := of.Field(i)
				if !field.IsExported() {
					continue
				}
				list := field.Type.Kind() == reflect.Map ||
					field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() != reflect.Uint8
				if most, err := strconv.Atoi(field.Tag.Get("most")); list && (err != nil || most < 1 || most > 10_000) {
					t.Errorf("%s.%s has no bound: most %q", of, field.Name, field.Tag.Get("most"))
				}
				look(field.Type)
			}
		}
	}
	for _, report := range []any{protocol.Report{}, protocol.HostReport{}, protocol.Findings{}, protocol.JobsTold{}} {
		look(reflect.TypeOf(report))
	}
	body, err := json.Marshal(protocol.Report{Checks: make([]protocol.Check, 3800)})
	if err != nil {
		t.Fatal(err)
	}
	m, request := &Monitor{long: make(chan struct{}, 1)}, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	var report protocol.Report
	if !m.read(httptest.NewRecorder(), request, int64(len(body)), &report) || len(report.Checks) != 64 {
		t.Errorf("%d checks are kept", len(report.Checks))
	}
}

// What is kept of a report is read again whenever its node or its cluster is: an agent in wrong hands may fill every text of it.
func TestWhatIsKeptOfAReportHasABoundedNumberOfBytes(t *testing.T) {
	text := strings.Repeat("x", 2*mostSaid)
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			v.SetString(text)
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		case reflect.Struct:
			for i := range v.NumField() {
				if field := v.Type().Field(i); field.IsExported() && field.Type != reflect.TypeFor[time.Time]() {
					fill(v.Field(i))
				}
			}
		case reflect.Slice:
			if v.Type().Elem().Kind() != reflect.Uint8 {
				v.Set(reflect.MakeSlice(v.Type(), 400, 400))
				for i := range v.Len() {
					fill(v.Index(i))
				}
			}
		}
	}
	var report protocol.Report
	fill(reflect.ValueOf(&report).Elem())
	printable.Bound(&report, mostSaid)
	kept := map[string]any{"checks": report.Checks, "facts": report.Facts, "test": report.Test, "a task": report.Tasks[0],
		"waiting": report.Scheduler.Waiting, "the scheduler's word for a node": report.Scheduler.Nodes[0]}
	for what, value := range kept {
		if text, err := json.Marshal(value); err != nil || len(text) > 128<<10 {
			t.Errorf("%s: %d bytes would be kept, %v", what, len(text), err)
		}
	}
}

// A guest that moves is described by its host to the next one: libvirt's description of one with many devices is long.
func TestTheDescriptionOfAGuestThatMovesIsKeptWhole(t *testing.T) {
	description := strings.Repeat("<hostdev mode='subsystem' type='pci'/>\n", 1000)
	report := protocol.HostReport{Moves: []protocol.HostedMoved{{Description: description, Failed: strings.Repeat("x", 5000)},
		{Description: strings.Repeat("x", 1<<20)}}}
	printable.Bound(&report, mostSaid)
	if moves := report.Moves; moves[0].Description != description || len(moves[0].Failed) > mostSaid ||
		len(moves[1].Description) > 1<<17 {
		t.Errorf("descriptions of %d and %d bytes are kept, and why one failed by %d", len(moves[0].Description),
			len(moves[1].Description), len(moves[0].Failed))
	}
}
