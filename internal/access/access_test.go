package access_test

import (
	"strings"
	"testing"

	"muster/internal/access"
)

// TestTheMatrix spells out every role and action, in one's own project and in another, for whole tokens and for those
// that only look, for tokens of one project and of all.
func TestTheMatrix(t *testing.T) {
	const own, other = "aero", "bio"
	who := map[string]access.Caller{
		"operator": {Name: "root", Operator: true},
		"owner":    {Name: "olga", Roles: map[string]access.Role{own: access.Owner}},
		"member":   {Name: "mia", Roles: map[string]access.Role{own: access.Member}},
		"viewer":   {Name: "vera", Roles: map[string]access.Role{own: access.Viewer}},
		"nobody":   {Name: "nick"},
	}
	// Each word is one answer: to the action in no project, in one's own, in another.
	type answers [3]bool
	const yes, no = true, false
	everybody := answers{yes, yes, yes}
	wanted := map[access.Action]map[string]answers{
		access.Be:     {"operator": everybody, "owner": everybody, "member": everybody, "viewer": everybody, "nobody": everybody},
		access.Keep:   {"operator": everybody, "owner": everybody, "member": everybody, "viewer": everybody, "nobody": everybody},
		access.Browse: {"operator": everybody, "owner": everybody, "member": everybody, "viewer": everybody, "nobody": everybody},
		access.Survey: {"operator": everybody, "owner": {}, "member": {}, "viewer": {}, "nobody": {}},
		access.Run:    {"operator": everybody, "owner": {}, "member": {}, "viewer": {}, "nobody": {}},
		access.See: {"operator": {no, yes, yes}, "owner": {no, yes, no}, "member": {no, yes, no}, "viewer": {no, yes, no},
			"nobody": {}},
		access.Own:    {"operator": {no, yes, yes}, "owner": {no, yes, no}, "member": {no, yes, no}, "viewer": {}, "nobody": {}},
		access.Enter:  {"operator": {}, "owner": {no, yes, no}, "member": {no, yes, no}, "viewer": {}, "nobody": {}},
		access.Govern: {"operator": {no, yes, yes}, "owner": {no, yes, no}, "member": {}, "viewer": {}, "nobody": {}},
		access.Lead:   {"operator": {}, "owner": {no, yes, no}, "member": {}, "viewer": {}, "nobody": {}},
	}
	if len(wanted) != len(access.Rules()) {
		t.Fatalf("%d actions are spelt out, there are %d", len(wanted), len(access.Rules()))
	}
	changes := map[access.Action]bool{access.Keep: true, access.Run: true, access.Own: true, access.Enter: true,
		access.Govern: true, access.Lead: true}
	wide := map[access.Action]bool{access.Keep: true, access.Survey: true, access.Run: true}
	for action, rows := range wanted {
		for role, want := range rows {
			for i, project := range []string{"", own, other} {
				c := who[role]
				if got := c.May(action, project); got != want[i] {
					t.Errorf("%s may %s in %q: %v", role, action, project, got)
				}
				c.Scope = access.ReadOnly
				if got := c.May(action, project); got != (want[i] && !changes[action]) {
					t.Errorf("%s with a token that looks may %s in %q: %v", role, action, project, got)
				}
				c.Scope, c.Project = access.Whole, own
				limited := want[i] && project != other && !wide[action]
				if got := c.May(action, project); got != limited {
					t.Errorf("%s with a token for %s may %s in %q: %v, want %v", role, own, action, project, got, limited)
				}
			}
		}
	}
	if (access.Caller{Operator: true}).May("fly", "") {
		t.Error("an action that is in no table is allowed")
	}
}

func TestWhatACallerSees(t *testing.T) {
	c := access.Caller{Operator: true, Roles: map[string]access.Role{"b": access.Owner, "a": access.Viewer}}
	if !c.Everywhere() {
		t.Error("an operator does not see all")
	}
	if got := c.Projects(); len(got) != 2 || got[0] != "a" {
		t.Errorf("projects: %v", got)
	}
	c.Project = "b"
	if got := c.Projects(); c.Everywhere() || len(got) != 1 || got[0] != "b" {
		t.Errorf("with a token for b: %v", got)
	}
}

func TestWhatAReferenceMeans(t *testing.T) {
	all := []string{"a/cfd", "b/cfd", "b/lab", "c/cfd", "c/own"}
	of := func(text string) (project, name string) {
		project, name, _ = strings.Cut(text, "/")
		return project, name
	}
	roles := map[string]access.Role{"a": access.Member, "b": access.Viewer}
	for _, c := range []struct {
		ref      string
		operator bool
		want     string
	}{
		{"cfd", false, "a/cfd b/cfd"}, {"b/cfd", false, "b/cfd"}, {"lab", false, "b/lab"}, {"c/cfd", false, ""},
		{"own", false, ""}, {"a/lab", false, ""}, {"x", false, ""},
		{"cfd", true, "a/cfd b/cfd"}, {"c/cfd", true, "c/cfd"}, {"own", true, "c/own"},
	} {
		got := access.Choose(access.Caller{Operator: c.operator, Roles: roles}, c.ref, all, of)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s, operator %t: %v, want %s", c.ref, c.operator, got, c.want)
		}
	}
}
