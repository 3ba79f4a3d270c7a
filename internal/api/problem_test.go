package api

import "testing"

// Programs branch on the code; a status has always the same.
func TestAStatusHasItsCode(t *testing.T) {
	codes := map[int]string{400: "invalid", 401: "unauthorized", 403: "forbidden", 404: "not-found", 405: "invalid",
		409: "conflict", 413: "invalid", 415: "invalid", 422: "invalid", 426: "invalid", 429: "unavailable",
		500: "internal", 503: "unavailable"}
	for status, want := range codes {
		if p := problem(status, "it is not so", "do this"); p.Code != want || p.Status != status ||
			p.Detail != "it is not so (do this)" {
			t.Errorf("%d: %+v", status, p)
		}
	}
}
