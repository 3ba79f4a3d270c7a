package api_test

import (
	"strings"
	"testing"
)

func TestNobodyIsInAProjectWhoHasNotAgreed(t *testing.T) {
	s, db := server(t, 2)
	tenants(t, db)
	wants(t, as(t, s, "owner", "PUT", "/v1/projects/aero/members/nobody", `{"role": "member"}`), 200, `"invited_by":"owner"`)
	wants(t, as(t, s, "nobody", "GET", "/v1/clusters/aero%2Fcfd", ""), 404)
	wants(t, as(t, s, "nobody", "GET", "/v1/projects/aero/members", ""), 404)
	if got := as(t, s, "nobody", "GET", "/v1/projects", ""); !strings.Contains(got.text, `"invited":"member"`) ||
		!strings.Contains(got.text, `"members":0`) || strings.Contains(got.text, `"role"`) {
		t.Errorf("who is invited sees %s", got.text)
	}
	wants(t, as(t, s, "viewer", "GET", "/v1/projects/aero/members", ""), 200, `"invited_by":"owner"`)
	wants(t, as(t, s, "vera", "POST", "/v1/projects/aero/join", ""), 404)
	wants(t, as(t, s, "nobody", "POST", "/v1/projects/no-such/join", ""), 404)
	wants(t, as(t, s, "nobody", "POST", "/v1/projects/aero/join", ""), 204)
	wants(t, as(t, s, "nobody", "GET", "/v1/clusters/aero%2Fcfd", ""), 200)
	wants(t, as(t, s, "nobody", "POST", "/v1/projects/aero/join", ""), 404)
	wants(t, as(t, s, "owner", "PUT", "/v1/projects/aero/members/nobody", `{"role": "viewer"}`), 200)
	wants(t, as(t, s, "nobody", "GET", "/v1/clusters/aero%2Fcfd", ""), 200) // who is in it is not asked again

	wants(t, as(t, s, "nobody", "DELETE", "/v1/projects/aero/members/sam", ""), 403)
	wants(t, as(t, s, "nobody", "DELETE", "/v1/projects/aero/members/nobody", ""), 204)
	wants(t, as(t, s, "nobody", "GET", "/v1/clusters/aero%2Fcfd", ""), 404)
	wants(t, as(t, s, "nobody", "DELETE", "/v1/projects/aero/members/nobody", ""), 404)

	wants(t, as(t, s, "owner", "PUT", "/v1/projects/aero/members/nobody", `{"role": "owner"}`), 200)
	wants(t, as(t, s, "nobody", "DELETE", "/v1/projects/aero/members/nobody", ""), 204) // no, thank you
	wants(t, as(t, s, "nobody", "POST", "/v1/projects/aero/join", ""), 404)

	wants(t, as(t, s, "operator", "PUT", "/v1/projects/aero/members/nobody", `{"role": "member"}`), 200)
	wants(t, as(t, s, "nobody", "GET", "/v1/clusters/aero%2Fcfd", ""), 200)
}
