package api

import (
	"context"
	"fmt"
	"slices"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/person"
)

func personView(p person.Person) apiv1.Person {
	return apiv1.Person{Name: p.Name, UID: p.UID, FullName: p.FullName, Operator: p.Operator, Disabled: p.Disabled,
		Subject: p.Subject, CreatedAt: p.CreatedAt}
}

func (a *API) listPeople(ctx context.Context, in *apiv1.Page) (*output[apiv1.List[apiv1.Person]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Person]) error {
		people, err := person.List(ctx, tx)
		*out = pagedAs(*in, people, func(p person.Person) string { return p.Name }, personView)
		return err
	})
}

func (a *API) addPerson(ctx context.Context, in *apiv1.AddPersonInput) (*output[apiv1.Person], error) {
	b := in.Body
	if why := noAccount(b.Name); why != "" {
		return nil, invalid(fmt.Sprintf("name: %q cannot be an account on nodes: %s", b.Name, why),
			"`muster users add "+accountLike(b.Name)+"`")
	}
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Person) error {
		if err := person.Add(ctx, tx, person.Person{Name: b.Name, FullName: b.FullName, Operator: b.Operator,
			Subject: b.Subject}); err != nil {
			return err
		}
		tx.Log(core.Event{Type: "person.requested", Text: fmt.Sprintf("%s may come, by %s", b.Name, identityOf(ctx))})
		p, err := person.Get(ctx, tx, b.Name)
		*out = personView(p)
		return err
	})
}

func (a *API) changePerson(ctx context.Context, in *apiv1.ChangePersonInput) (*output[apiv1.Person], error) {
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Person) error {
		p, err := person.Get(ctx, tx, in.Person)
		if err != nil {
			return err
		}
		b := in.Body
		change(&p.FullName, b.FullName)
		change(&p.Operator, b.Operator)
		change(&p.Disabled, b.Disabled)
		change(&p.Subject, b.Subject)
		if p.Name == identityOf(ctx) && (p.Disabled || !p.Operator) {
			return conflict("you cannot disable yourself or take away your own operator role", "another operator can")
		}
		if err := person.Change(ctx, tx, p); err != nil {
			return err
		}
		tx.Log(core.Event{Type: "person.requested", Text: fmt.Sprintf("%s: operator %t, disabled %t, by %s", p.Name, p.Operator,
			p.Disabled, identityOf(ctx))})
		*out = personView(p)
		return nil
	})
}

// change sets a field if there is something to set it to.
func change[T any](field *T, to *T) {
	if to != nil {
		*field = *to
	}
}

func (a *API) projectView(ctx context.Context, tx *core.Tx, p person.Project) (apiv1.Project, error) {
	view := apiv1.Project{Name: p.Name, Role: apiv1.Role(callerOf(ctx).Roles[p.Name]), Recorded: p.Recorded,
		Permissions: each(callerOf(ctx).Rights(p.Name), func(a access.Action) apiv1.Action { return apiv1.Action(a) }),
		CreatedAt:   p.CreatedAt}
	clusters, err := cluster.List(ctx, tx, p.Name)
	if err != nil {
		return view, err
	}
	members, err := person.Memberships(ctx, tx, p.Name, "")
	view.Clusters, view.Members = len(clusters), len(members)
	return view, err
}

func (a *API) listProjects(ctx context.Context, in *apiv1.Page) (*output[apiv1.List[apiv1.Project]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Project]) error {
		projects, err := person.Projects(ctx, tx)
		if err != nil {
			return err
		}
		var all []apiv1.Project
		for _, p := range projects {
			if !sees(ctx, p.Name) {
				continue
			}
			view, err := a.projectView(ctx, tx, p)
			if err != nil {
				return err
			}
			all = append(all, view)
		}
		offered, err := person.Invitations(ctx, tx, "", identityOf(ctx))
		if err != nil {
			return err
		}
		for _, m := range offered {
			view := apiv1.Project{Name: m.Project, Permissions: []apiv1.Action{}, Invited: apiv1.Role(m.Role),
				InvitedBy: m.InvitedBy, CreatedAt: m.Since}
			if i := slices.IndexFunc(all, func(p apiv1.Project) bool { return p.Name == m.Project }); i >= 0 { // of an operator
				all[i].Invited, all[i].InvitedBy = apiv1.Role(m.Role), m.InvitedBy
			} else if callerOf(ctx).Project == "" {
				all = append(all, view)
			}
		}
		*out = pageOf(*in, all, func(p apiv1.Project) string { return p.Name })
		return nil
	})
}

func (a *API) addProject(ctx context.Context, in *apiv1.AddProjectInput) (*output[apiv1.Project], error) {
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Project) error {
		b := in.Body
		if _, err := person.Get(ctx, tx, b.Owner); err != nil {
			return err
		}
		p := person.Project{Name: b.Name, Recorded: b.Recorded}
		if err := person.AddProject(ctx, tx, p); err != nil {
			return err
		}
		if err := person.SetMember(ctx, tx, person.Membership{Project: b.Name, Person: b.Owner, Role: access.Owner}); err != nil {
			return err
		}
		tx.Log(core.Event{Type: "project.requested", Project: b.Name,
			Text: fmt.Sprintf("project %s of %s, by %s", b.Name, b.Owner, identityOf(ctx))})
		p, err := person.GetProject(ctx, tx, b.Name)
		if err == nil {
			*out, err = a.projectView(ctx, tx, p)
		}
		return err
	})
}

// project is one that the caller may do to what they want to.
func (a *API) project(ctx context.Context, tx *core.Tx, name string) (person.Project, error) {
	p, err := person.GetProject(ctx, tx, name)
	if err == nil {
		err = permit(ctx, name, "project "+name)
	}
	return p, err
}

func (a *API) changeProject(ctx context.Context, in *apiv1.ChangeProjectInput) (*output[apiv1.Project], error) {
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Project) error {
		p, err := a.project(ctx, tx, in.Project)
		if err != nil {
			return err
		}
		change(&p.Recorded, in.Body.Recorded)
		if err := person.ChangeProject(ctx, tx, p); err != nil {
			return err
		}
		tx.Log(core.Event{Type: "project.requested", Project: p.Name, Text: fmt.Sprintf("project %s: recorded %t, by %s", p.Name,
			p.Recorded, identityOf(ctx))})
		*out, err = a.projectView(ctx, tx, p)
		return err
	})
}

func (a *API) listMembers(ctx context.Context, in *apiv1.ListMembersInput) (*output[apiv1.List[apiv1.Member]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Member]) error {
		if _, err := a.project(ctx, tx, in.Project); err != nil {
			return err
		}
		all, err := memberViews(ctx, tx, in.Project, "")
		*out = pageOf(in.Page, all, func(m apiv1.Member) string { return m.Person })
		return err
	})
}

func (a *API) setMember(ctx context.Context, in *apiv1.SetMemberInput) (*output[apiv1.Member], error) {
	out := &output[apiv1.Member]{}
	err := a.DB.Update(ctx, func(tx *core.Tx) error {
		if _, err := a.project(ctx, tx, in.Project); err != nil {
			return err
		}
		if _, err := person.Get(ctx, tx, in.Person); err != nil {
			return err
		}
		if in.Body.Role != apiv1.RoleOwner {
			if err := a.ownerStays(ctx, tx, in.Project, in.Person); err != nil {
				return err
			}
		}
		m := person.Membership{Project: in.Project, Person: in.Person, Role: access.Role(in.Body.Role)}
		before, err := person.Memberships(ctx, tx, in.Project, in.Person)
		if err != nil {
			return err
		}
		text := "is"
		if len(before) == 0 && !callerOf(ctx).Operator { // no person is in a tenant's project without having agreed
			m.InvitedBy, text = identityOf(ctx), "is invited as"
		}
		if err := person.SetMember(ctx, tx, m); err != nil {
			return err
		}
		tx.Log(core.Event{Type: "project.requested", Project: in.Project,
			Text: fmt.Sprintf("%s %s %s of project %s, by %s", in.Person, text, in.Body.Role, in.Project, identityOf(ctx))})
		views, err := memberViews(ctx, tx, in.Project, in.Person)
		if err == nil {
			out.Body = views[0]
		}
		return err
	})
	if err == nil {
		out.Body.Unapplied, err = a.unapplied(ctx, in.Project, in.Person)
	}
	return out, err
}

// memberViews are those of a project, and then those who are invited; of one person, if it is named.
func memberViews(ctx context.Context, tx *core.Tx, project, name string) ([]apiv1.Member, error) {
	members, err := person.Memberships(ctx, tx, project, name)
	if err != nil {
		return nil, err
	}
	offered, err := person.Invitations(ctx, tx, project, name)
	return each(append(members, offered...), func(m person.Membership) apiv1.Member {
		return apiv1.Member{Project: m.Project, Person: m.Person, Role: apiv1.Role(m.Role), Disabled: m.Disabled,
			InvitedBy: m.InvitedBy, Since: m.Since}
	}), err
}

func (a *API) joinProject(ctx context.Context, in *apiv1.ProjectRef) (*output[apiv1.Nothing], error) {
	err := a.DB.Update(ctx, func(tx *core.Tx) error {
		askedOf(ctx).project = in.Project
		tx.Log(core.Event{Type: "project.requested", Project: in.Project,
			Text: fmt.Sprintf("%s has joined project %s", identityOf(ctx), in.Project)})
		return person.AcceptInvitation(ctx, tx, in.Project, identityOf(ctx))
	})
	return nil, err
}

func (a *API) removeMember(ctx context.Context, in *apiv1.RemoveMemberInput) (*output[apiv1.Nothing], error) {
	err := a.DB.Update(ctx, func(tx *core.Tx) error {
		leaves, err := a.leaves(ctx, tx, in)
		if err == nil && !leaves {
			_, err = a.project(ctx, tx, in.Project)
		}
		if err != nil {
			return err
		}
		if err := a.ownerStays(ctx, tx, in.Project, in.Person); err != nil {
			return err
		}
		tx.Log(core.Event{Type: "project.requested", Project: in.Project,
			Text: fmt.Sprintf("%s has left project %s, by %s", in.Person, in.Project, identityOf(ctx))})
		return person.RemoveMember(ctx, tx, in.Project, in.Person)
	})
	return nil, err
}

// leaves says that the caller goes, or declines to come, which takes no permission.
func (a *API) leaves(ctx context.Context, tx *core.Tx, in *apiv1.RemoveMemberInput) (bool, error) {
	caller := callerOf(ctx)
	if in.Person != caller.Name || !caller.May(access.Keep, "") {
		return false, nil
	}
	offered, err := person.Invitations(ctx, tx, in.Project, caller.Name)
	if _, member := caller.Roles[in.Project]; !member && len(offered) == 0 {
		return false, err
	}
	askedOf(ctx).project = in.Project
	return true, err
}

// ownerStays refuses to take its last owner from a project.
func (a *API) ownerStays(ctx context.Context, tx *core.Tx, project, name string) error {
	members, err := person.Memberships(ctx, tx, project, "")
	last := false
	for _, m := range members {
		if m.Role == access.Owner {
			if m.Person != name {
				return err
			}
			last = true
		}
	}
	if err == nil && last {
		err = conflict(fmt.Sprintf("%s is the only owner of project %s", name, project),
			"make somebody else an owner first")
	}
	return err
}
