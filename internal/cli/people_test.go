package cli

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	apiv1 "muster/api/v1"
)

// heard keeps what was sent to a path, and answers with body.
func (s *site) heard(pattern string, status int, body any) *string {
	var sent string
	s.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		sent = string(text)
		reply(w, status, body)
	})
	return &sent
}

func TestATokenStandsAloneOnStandardOutput(t *testing.T) {
	s := newSite(t)
	sent := s.heard("POST /v1/tokens", 201, apiv1.Token{ID: "t-1", Name: "ci", Scope: apiv1.ScopeRead, Project: "aero",
		ExpiresAt: time.Now().Add(30*24*time.Hour + time.Minute), Token: "muster_secret"})
	r := muster(t, "tokens", "add", "ci", "--read", "--project", "aero", "--for", "30d")
	r.wants(t, 0, "token t-1 for ci is read-only, for project aero only, good for 30d0h")
	if r.out != "muster_secret\n" || *sent != `{"name":"ci","scope":"read","project":"aero","for":"30d"}` {
		t.Errorf("out %q, sent %s", r.out, *sent)
	}
	s.heard("POST /v1/people/bob/tokens", 201, apiv1.Token{ID: "t-2", Name: "first, made by admin", Token: "muster_other"})
	if r := muster(t, "tokens", "add", "first", "--person", "bob"); r.out != "muster_other\n" {
		t.Errorf("out %q", r.out)
	}
}

func TestPeopleAndProjectsRead(t *testing.T) {
	s := newSite(t)
	s.answers("GET /v1/people", 200, list(
		apiv1.Person{Name: "admin", UID: 10000, Operator: true, CreatedAt: ago(48 * time.Hour)},
		apiv1.Person{Name: "bob", UID: 10001, FullName: "Bob Bernoulli", Disabled: true,
			Subject: "https://login.example.org 5f2c", CreatedAt: ago(time.Hour)}))
	s.answers("GET /v1/projects", 200,
		list(apiv1.Project{Name: "aero", Role: apiv1.RoleOwner, Members: 2, Clusters: 1, CreatedAt: ago(time.Hour)},
			apiv1.Project{Name: "bio", Members: 1, CreatedAt: ago(time.Hour)}))
	s.answers("GET /v1/projects/aero/members", 200,
		list(apiv1.Member{Project: "aero", Person: "bob", Role: apiv1.RoleMember, Disabled: true, Since: ago(time.Hour)}))
	r := muster(t, "users", "list")
	r.wants(t, 0)
	reads(t, r.out, `
NAME   UID    FULL NAME      IS        LOGS IN AS  AGE
admin  10000                 operator              2d0h
bob    10001  Bob Bernoulli  disabled  5f2c        1h0m
`)
	for _, line := range []string{"projects", "projects list"} {
		r := muster(t, strings.Fields(line)...)
		r.wants(t, 0)
		reads(t, r.out, `
PROJECT  YOU ARE  MEMBERS  CLUSTERS  AGE
aero     owner    2        1         1h0m
bio               1        0         1h0m
`)
	}
	r = muster(t, "projects", "members", "aero")
	r.wants(t, 0)
	reads(t, r.out, `
PERSON  ROLE    FOR   STATE
bob     member  1h0m  disabled
`)
}

func TestWhatIsAskedOfPeopleAndProjects(t *testing.T) {
	for _, c := range []struct{ line, pattern, sends, says string }{
		{"users add alice --operator", "POST /v1/people", `{"name":"alice","operator":true}`,
			"projects grant PROJECT alice member"},
		{"users set alice --operator=false", "PUT /v1/people/alice", `{"operator":false}`, "alice is changed"},
		{"users disable alice", "PUT /v1/people/alice", `{"disabled":true}`, "disabled everywhere"},
		{"users enable alice", "PUT /v1/people/alice", `{"disabled":false}`, "enabled again"},
		{"projects add bio --owner bob", "POST /v1/projects", `{"name":"bio","owner":"bob"}`,
			"bob owns it and manages its members"},
		{"projects set bio --recorded", "PUT /v1/projects/bio", `{"recorded":true}`, "clusters of bio are recorded"},
		{"projects grant bio alice viewer", "PUT /v1/projects/bio/members/alice", `{"role":"viewer"}`, "alice is viewer of bio"},
		{"projects revoke bio alice", "DELETE /v1/projects/bio/members/alice", ``, "alice is no longer in bio"},
		{"tokens revoke t-1", "DELETE /v1/tokens/t-1", ``, "token t-1 is revoked"},
	} {
		t.Run(c.line, func(t *testing.T) {
			s := newSite(t)
			sent := s.heard(c.pattern, 200, apiv1.Person{Name: "alice", UID: 10001})
			muster(t, strings.Fields(c.line)...).wants(t, 0, c.says)
			if *sent != c.sends {
				t.Errorf("sent %s", *sent)
			}
		})
	}
	newSite(t)
	for line, says := range map[string]string{
		"projects grant bio alice boss": "owner, member, viewer",
		"projects add bio":              "--owner PERSON",
		"users set alice":               "--name, --subject or --operator",
		"projects set bio":              "--recorded",
		"audit --since yesterday":       "2h or 3d",
		"audit --until tomorrow":        "--until",
		"tokens revoke":                 "an argument is missing",
	} {
		muster(t, strings.Fields(line)...).wants(t, exitInvalid, says)
	}
}

func TestTheAuditLogReadsOldestFirst(t *testing.T) {
	s := newSite(t)
	s.answers("GET /v1/audit", 200, list(
		apiv1.Entry{At: ago(0), Person: "bob", Door: apiv1.APIDoor, Action: "delete-cluster", Project: "aero", Object: "cfd",
			Outcome: "403", Remote: "10.0.0.9:5000", Token: "t-2"},
		apiv1.Entry{At: ago(time.Second), Person: "bob", Door: apiv1.APIDoor, Action: "list-clusters", Outcome: "200"},
		apiv1.Entry{At: ago(time.Minute), Person: "alice", Door: apiv1.SSHDoor, Action: "shell", Project: "aero", Object: "cfd",
			Outcome: "0"}))
	r := muster(t, "audit", "--person", "bob", "--since", "2h")
	if r.wants(t, 0, "403"); strings.Index(r.out, "alice") > strings.Index(r.out, "delete-cluster") {
		t.Error(r.out)
	}
	muster(t, "audit", "--all").wants(t, 0, "list-clusters")
	muster(t, "audit", "--refused", "--action", "delete-cluster", "--object", "aero/cfd", "--until", "1h").wants(t, 0)
	for i, words := range [][]string{{"person=bob", "since=", "show=acts"}, {"show=all"},
		{"show=refused", "action=delete-cluster", "object=aero%2Fcfd", "until="}} {
		for _, word := range words {
			if asked := s.asked()[i]; !strings.Contains(asked, word) {
				t.Errorf("%s is not in %s", word, asked)
			}
		}
	}
}

func TestWithSeveralProjectsClustersAreToldByBothNames(t *testing.T) {
	s := newSite(t)
	s.answers("GET /v1/external-clusters", 200, list[apiv1.ExternalCluster]())
	cluster := func(project, name string) apiv1.Cluster {
		return apiv1.Cluster{Name: name, Project: project, Phase: "ready"}
	}
	s.answers("GET /v1/clusters", 200, list(cluster("aero", "cfd"), cluster("bio", "cfd"), cluster("bio", "lab")))
	muster(t, "list").wants(t, 0, "NAME  PROJECT  PHASE", "cfd   bio      ready")
	r := muster(t, "__complete", "ssh", "")
	r.wants(t, 0, "aero/cfd\tready\nbio/cfd\tready\nlab\tready\nbio/lab\tready\n")
	if strings.Contains(r.out, "\ncfd\t") {
		t.Errorf("a name that means two clusters is offered: %s", r.out)
	}
}

func TestTheQuotaOfAllOnesProjectsIsShown(t *testing.T) {
	s := newSite(t)
	s.answers("GET /v1/projects", 200, list(apiv1.Project{Name: "aero"}, apiv1.Project{Name: "bio"}))
	s.answers("GET /v1/projects/aero/quota", 200, apiv1.Quota{Project: "aero"})
	s.answers("GET /v1/projects/bio/quota", 200, apiv1.Quota{Project: "bio"})
	muster(t, "quota").wants(t, 0, "PROJECT aero", "PROJECT bio")
	muster(t, "quota", "bio").wants(t, 0, "PROJECT bio")
	r := muster(t, "quota", "-o", "json")
	if r.wants(t, 0); !strings.Contains(r.out, `"items"`) {
		t.Error(r.out)
	}
}

func TestYouAreToldWhatYouAre(t *testing.T) {
	s := newSite(t)
	s.answers("GET /v1/site", 200, apiv1.Site{Site: "home", Version: "1", Identity: "bob", Operator: true, Project: "aero",
		Roles: map[string]apiv1.Role{"bio": apiv1.RoleViewer, "aero": apiv1.RoleOwner}, Scope: apiv1.ScopeRead})
	muster(t, "whoami").wants(t, 0, "bob, an operator of the site", "owner of aero, viewer of bio", "read-only")
}
