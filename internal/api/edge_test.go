package api_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	apiv1 "muster/api/v1"
)

// TestNobodyForgesALineOfTheAuditLog asks for names that would be lines, titles of windows and floods: the log has them
// quoted and short, and names that are some as they are.
func TestNobodyForgesALineOfTheAuditLog(t *testing.T) {
	s, db := server(t, 4)
	tenants(t, db)
	for _, path := range []string{
		"/v1/clusters/%1b%5d0%3bPWNED%07%1b%5b2J%0a2026-11-22%20admin%20api%20nothing", "/v1/clusters/x%0d%0a2026-11-22%20admin",
		"/v1/clusters/%e2%80%ae%c2%9b31m",
		"/v1/machines/" + strings.Repeat("%0a", 300), "/v1/machines/" + strings.Repeat("a", 3000), "/v1/clusters/%ff%fe",
		"/v1/clusters/%e2%80%a8x",
	} {
		as(t, s, "nobody", "GET", path, "")
	}
	wants(t, as(t, s, "operator", "GET", "/v1/clusters/aero%2Fcfd", ""), 200)
	var log struct{ Items []apiv1.Entry }
	if err := json.Unmarshal([]byte(as(t, s, "operator", "GET", "/v1/audit", "").text), &log); err != nil {
		t.Fatal(err)
	}
	harmless, quoted, plain := regexp.MustCompile(`^[ -~…]{0,164}$`), 0, 0
	for _, e := range log.Items {
		if !harmless.MatchString(e.Object) {
			t.Errorf("%s of %q", e.Action, e.Object)
		}
		if strings.HasPrefix(e.Object, `"`) {
			quoted++
		}
		if e.Object == "aero/cfd" {
			plain++
		}
	}
	if quoted < 6 || plain != 1 {
		t.Errorf("%d names are quoted, %d as they are: %+v", quoted, plain, log.Items)
	}
}
