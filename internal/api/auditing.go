package api

import (
	"cmp"
	"context"
	"slices"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/person"
)

func (a *API) listAudit(ctx context.Context, in *apiv1.ListAuditInput) (*output[apiv1.List[apiv1.Entry]], error) {
	of := person.EntriesOf{Person: in.Person, Since: in.Since, Until: in.Until, Limit: in.Limit, Action: in.Action,
		Object: in.Object, Show: person.Show(in.Show)}
	var err error
	if of.Before, of.BeforeID, err = placeAt(in.Cursor); err != nil {
		return nil, err
	}
	narrow(callerOf(ctx), &of, in.Project)
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Entry]) error {
		entries, err := person.Entries(ctx, tx, of)
		out.Items = some(each(entries, func(e person.Entry) apiv1.Entry {
			return apiv1.Entry{ID: e.ID, At: e.At, Person: e.Person, Token: e.Token, Door: apiv1.Door(e.Door), Action: e.Action,
				Project: e.Project, Object: e.Object, Outcome: e.Outcome, Remote: e.Remote, Request: e.Request}
		}))
		if n := len(entries); n == in.Limit {
			last := entries[n-1]
			out.Next = cursor(last.At, last.ID)
		}
		return err
	})
}

// narrow limits the entries to those that a caller may see, and to a project's if one is named: an operator sees all, an
// owner their projects', and everybody what they did themselves.
func narrow(c access.Caller, of *person.EntriesOf, project string) {
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

// owned lists the projects in which the caller sees everything, as their owner does; none, rather than nil.
func owned(c access.Caller) []string {
	if c.Operator && c.Project != "" {
		return []string{c.Project}
	}
	return slices.DeleteFunc(append([]string{}, c.Projects()...), func(p string) bool { return c.Roles[p] != access.Owner })
}
