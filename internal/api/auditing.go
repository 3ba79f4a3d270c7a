package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muster/internal/access"
	"muster/internal/store"
)

// Entry of the audit log: who did what, or tried to.
type Entry struct {
	ID      string     `json:"id"`
	At      time.Time  `json:"at"`
	Person  string     `json:"person"`
	Token   string     `json:"token,omitempty" doc:"ID of the token or login; absent for an SSH key"`
	Door    store.Door `json:"door" enum:"api,ssh,web"`
	Action  string     `json:"action" doc:"an operation of the API, or what was done at the door"`
	Project string     `json:"project,omitempty"`
	Object  string     `json:"object,omitempty" doc:"what it was done to, as it was named"`
	Outcome string     `json:"outcome" doc:"an HTTP status, or how it ended"`
	Remote  string     `json:"remote,omitempty" doc:"address it came from"`
	Request string     `json:"request,omitempty"`
}

func (a *API) registerAudit(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "list-audit", Method: http.MethodGet, Path: "/v1/audit", Summary: "List who did what, newest first: all as an operator, those of your projects as their owner, and what you did yourself",
		Tags: []string{"access"}, Errors: []int{422}}, a.listAudit)
}

func (a *API) listAudit(ctx context.Context, in *struct {
	Person  string    `query:"person" doc:"only theirs" maxLength:"32"`
	Project string    `query:"project" doc:"only what was done in it" maxLength:"63"`
	Since   time.Time `query:"since" doc:"RFC 3339"`
	Limit   int       `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"how many at most"`
	Cursor  string    `query:"cursor" doc:"from the page before" maxLength:"200" pattern:"^([0-9]+-[a-z0-9-]+)?$"`
}) (*listOutput[Entry], error) {
	of := store.EntriesOf{Person: in.Person, Since: in.Since, Limit: in.Limit}
	if at, id, ok := strings.Cut(in.Cursor, "-"); ok {
		ms, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return nil, problem(http.StatusUnprocessableEntity, "invalid", "cursor: it is not of the page before", "")
		}
		of.Before, of.BeforeID = time.UnixMilli(ms), id
	}
	narrow(callerOf(ctx), &of, in.Project)
	out := &listOutput[Entry]{List[Entry]{Items: []Entry{}}}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		entries, err := tx.Entries(ctx, of)
		for _, e := range entries {
			out.Body.Items = append(out.Body.Items, Entry{e.ID, e.At, e.Person, e.Token, e.Door, e.Action, e.Project, e.Object, e.Outcome, e.Remote, e.Request})
		}
		if n := len(entries); n == in.Limit {
			last := entries[n-1]
			out.Body.Next = strconv.FormatInt(last.At.UnixMilli(), 10) + "-" + last.ID
		}
		return err
	})
	return out, a.tell(err, nil)
}

// narrow limits the entries to those that a caller may see, and to a project's if one is named: an operator sees all, an
// owner their projects', and everybody what they did themselves.
func narrow(c access.Caller, of *store.EntriesOf, project string) {
	if project = cmp.Or(project, c.Project); project == "" {
		if !c.Everywhere() {
			of.Projects, of.Own = owned(c), c.Name
		}
		return
	}
	of.Projects = []string{project}
	switch {
	case !c.May(access.See, project):
		of.Projects = []string{}
	case c.Operator || c.Roles[project] == access.Owner:
	case of.Person == "" || of.Person == c.Name:
		of.Person = c.Name
	default:
		of.Projects = []string{}
	}
}

// owned lists the projects of which the caller sees all, as their owner does; none, rather than nil.
func owned(c access.Caller) []string {
	if c.Operator && c.Project != "" {
		return []string{c.Project}
	}
	return slices.DeleteFunc(append([]string{}, c.Projects()...), func(p string) bool { return c.Roles[p] != access.Owner })
}
