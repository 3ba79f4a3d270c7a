package monitor

import (
	"reflect"
	"strconv"
	"testing"

	"muster/internal/kit/printable"
	"muster/internal/noded/protocol"
)

// An agent in wrong hands may report thousands of checks, each of which would be written down at each report.
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
	for _, report := range []any{protocol.Report{}, protocol.HostReport{}, protocol.Findings{}} {
		look(reflect.TypeOf(report))
	}
	report := protocol.Report{Checks: make([]protocol.Check, 3800)}
	if printable.Bound(&report, mostSaid); len(report.Checks) != 64 {
		t.Errorf("%d checks are kept", len(report.Checks))
	}
}
