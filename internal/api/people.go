package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muster/internal/access"
	"muster/internal/store"
)

// Person is somebody who may come.
type Person struct {
	Name      string    `json:"name" doc:"also the account on the clusters' nodes"`
	UID       int       `json:"uid" doc:"of the account, the same on every node of the site"`
	FullName  string    `json:"full_name,omitempty"`
	Operator  bool      `json:"operator,omitempty" doc:"runs the site"`
	Disabled  bool      `json:"disabled,omitempty" doc:"is let in nowhere"`
	Subject   string    `json:"subject,omitempty" doc:"issuer and subject of the OIDC identity that logs in as this person"`
	CreatedAt time.Time `json:"created_at"`
}

// Project is a tenant.
type Project struct {
	Name      string      `json:"name"`
	Role      access.Role `json:"role,omitempty" enum:"owner,member,viewer" doc:"what you are in it; absent: nothing, you see it as an operator"`
	Recorded  bool        `json:"recorded,omitempty" doc:"what terminals show in its clusters is kept"`
	Clusters  int         `json:"clusters"`
	Members   int         `json:"members"`
	CreatedAt time.Time   `json:"created_at"`
}

// Member is a person in a project.
type Member struct {
	Project  string      `json:"project"`
	Person   string      `json:"person"`
	Role     access.Role `json:"role" enum:"owner,member,viewer"`
	Disabled bool        `json:"disabled,omitempty" doc:"the person is let in nowhere"`
	Since    time.Time   `json:"since"`
}

// PersonRef is a person in a path.
type PersonRef struct {
	Person string `path:"person" doc:"name" maxLength:"32"`
}

// ProjectRef is a project in a path.
type ProjectRef struct {
	Project string `path:"project" doc:"name" maxLength:"63"`
}

func (a *API) registerPeople(api huma.API) {
	op := func(id, method, path, summary, tag string, errors ...int) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{tag}, Errors: append(errors, http.StatusForbidden)}
	}
	made := func(o huma.Operation) huma.Operation { o.DefaultStatus = http.StatusCreated; return o }
	huma.Register(api, op("list-people", http.MethodGet, "/v1/people", "List everybody who may come", "people"), a.listPeople)
	huma.Register(api, made(op("add-person", http.MethodPost, "/v1/people", "Let somebody in", "people", 409)), a.addPerson)
	huma.Register(api, op("change-person", http.MethodPut, "/v1/people/{person}", "Change what a person is to the site", "people", 404, 409), a.changePerson)
	huma.Register(api, op("list-projects", http.MethodGet, "/v1/projects", "List your projects, or all as an operator", "projects"), a.listProjects)
	huma.Register(api, made(op("add-project", http.MethodPost, "/v1/projects", "Make a project", "projects", 404, 409)), a.addProject)
	huma.Register(api, op("change-project", http.MethodPut, "/v1/projects/{project}", "Change a project", "projects", 404), a.changeProject)
	huma.Register(api, op("list-members", http.MethodGet, "/v1/projects/{project}/members", "List who is in a project", "projects", 404), a.listMembers)
	huma.Register(api, op("set-member", http.MethodPut, "/v1/projects/{project}/members/{person}", "Give a person a role in a project", "projects", 404, 409), a.setMember)
	huma.Register(api, op("remove-member", http.MethodDelete, "/v1/projects/{project}/members/{person}", "Remove a person from a project", "projects", 404, 409), a.removeMember)
}

func personView(p store.Person) Person {
	return Person{Name: p.Name, UID: p.UID, FullName: p.FullName, Operator: p.Operator, Disabled: p.Disabled, Subject: p.Subject, CreatedAt: p.CreatedAt}
}

func (a *API) listPeople(ctx context.Context, in *Page) (*listOutput[Person], error) {
	out := &listOutput[Person]{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		people, err := tx.People(ctx)
		var all []Person
		for _, p := range people {
			all = append(all, personView(p))
		}
		out.Body = pageOf(*in, all, func(p Person) string { return p.Name })
		return err
	})
	return out, a.tell(err, nil)
}

type personOutput struct{ Body Person }

func (a *API) addPerson(ctx context.Context, in *struct {
	Body struct {
		Name     string `json:"name" doc:"also the account on nodes: a letter, then letters, digits, - and _" maxLength:"64"`
		FullName string `json:"full_name,omitempty" maxLength:"200"`
		Operator bool   `json:"operator,omitempty"`
		Subject  string `json:"subject,omitempty" doc:"issuer and subject of the OIDC identity, separated by a space" maxLength:"600"`
	}
}) (*personOutput, error) {
	b := in.Body
	if !canBeAccount(b.Name) {
		return nil, problem(http.StatusUnprocessableEntity, "invalid", fmt.Sprintf("name: %q cannot be an account", b.Name),
			"a letter, then letters, digits, - and _, 32 in all; and no name of a system's user or group, as root, sudo or docker")
	}
	out := &personOutput{}
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		if err := tx.AddPerson(ctx, store.Person{Name: b.Name, FullName: b.FullName, Operator: b.Operator, Subject: b.Subject}); err != nil {
			return err
		}
		tx.Log(store.Event{Type: "person.requested", Text: fmt.Sprintf("%s may come, by %s", b.Name, identityOf(ctx))})
		p, err := tx.Person(ctx, b.Name)
		out.Body = personView(p)
		return err
	})
	return out, a.tell(err, nil)
}

func (a *API) changePerson(ctx context.Context, in *struct {
	PersonRef
	Body struct {
		FullName *string `json:"full_name,omitempty" maxLength:"200"`
		Operator *bool   `json:"operator,omitempty"`
		Disabled *bool   `json:"disabled,omitempty" doc:"ends their sessions and closes every door to them; undone by false"`
		Subject  *string `json:"subject,omitempty" doc:"empty: cannot log in" maxLength:"600"`
	}
}) (*personOutput, error) {
	out := &personOutput{}
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		p, err := tx.Person(ctx, in.Person)
		if err != nil {
			return err
		}
		b := in.Body
		change(&p.FullName, b.FullName)
		change(&p.Operator, b.Operator)
		change(&p.Disabled, b.Disabled)
		change(&p.Subject, b.Subject)
		if p.Name == identityOf(ctx) && (p.Disabled || !p.Operator) {
			return problem(http.StatusConflict, "conflict", "nobody takes their own place away", "another operator can")
		}
		if err := tx.ChangePerson(ctx, p); err != nil {
			return err
		}
		tx.Log(store.Event{Type: "person.requested", Text: fmt.Sprintf("%s: operator %t, disabled %t, by %s", p.Name, p.Operator, p.Disabled, identityOf(ctx))})
		out.Body = personView(p)
		return nil
	})
	return out, a.tell(err, nil)
}

// change sets a field if there is something to set it to.
func change[T any](field *T, to *T) {
	if to != nil {
		*field = *to
	}
}

func (a *API) projectView(ctx context.Context, tx *store.Tx, p store.Project) (Project, error) {
	view := Project{Name: p.Name, Role: callerOf(ctx).Roles[p.Name], Recorded: p.Recorded, CreatedAt: p.CreatedAt}
	clusters, err := tx.Clusters(ctx, p.Name)
	if err != nil {
		return view, err
	}
	members, err := tx.Memberships(ctx, p.Name, "")
	view.Clusters, view.Members = len(clusters), len(members)
	return view, err
}

func (a *API) listProjects(ctx context.Context, in *Page) (*listOutput[Project], error) {
	out := &listOutput[Project]{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		projects, err := tx.Projects(ctx)
		if err != nil {
			return err
		}
		var all []Project
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
		out.Body = pageOf(*in, all, func(p Project) string { return p.Name })
		return nil
	})
	return out, a.tell(err, nil)
}

type projectOutput struct{ Body Project }

func (a *API) addProject(ctx context.Context, in *struct {
	Body struct {
		Name     string `json:"name" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$" maxLength:"63"`
		Owner    string `json:"owner" doc:"the person who decides who is in it" maxLength:"32"`
		Recorded bool   `json:"recorded,omitempty" doc:"keep what terminals show in its clusters"`
	}
}) (*projectOutput, error) {
	out := &projectOutput{}
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		b := in.Body
		if _, err := tx.Person(ctx, b.Owner); err != nil {
			return err
		}
		p := store.Project{Name: b.Name, Recorded: b.Recorded}
		if err := tx.AddProject(ctx, p); err != nil {
			return err
		}
		if err := tx.SetMember(ctx, store.Membership{Project: b.Name, Person: b.Owner, Role: access.Owner}); err != nil {
			return err
		}
		tx.Log(store.Event{Type: "project.requested", Project: b.Name, Text: fmt.Sprintf("project %s of %s, by %s", b.Name, b.Owner, identityOf(ctx))})
		p, err := tx.Project(ctx, b.Name)
		if err == nil {
			out.Body, err = a.projectView(ctx, tx, p)
		}
		return err
	})
	return out, a.tell(err, nil)
}

// project is one that the caller may do to what they want to.
func (a *API) project(ctx context.Context, tx *store.Tx, name string) (store.Project, error) {
	p, err := tx.Project(ctx, name)
	if err == nil {
		err = permit(ctx, name, "project "+name)
	}
	return p, err
}

func (a *API) changeProject(ctx context.Context, in *struct {
	ProjectRef
	Body struct {
		Recorded *bool `json:"recorded,omitempty" doc:"keep what terminals show in its clusters from now on"`
	}
}) (*projectOutput, error) {
	out := &projectOutput{}
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		p, err := a.project(ctx, tx, in.Project)
		if err != nil {
			return err
		}
		change(&p.Recorded, in.Body.Recorded)
		if err := tx.ChangeProject(ctx, p); err != nil {
			return err
		}
		tx.Log(store.Event{Type: "project.requested", Project: p.Name, Text: fmt.Sprintf("project %s: recorded %t, by %s", p.Name, p.Recorded, identityOf(ctx))})
		out.Body, err = a.projectView(ctx, tx, p)
		return err
	})
	return out, a.tell(err, nil)
}

func (a *API) listMembers(ctx context.Context, in *struct {
	ProjectRef
	Page
}) (*listOutput[Member], error) {
	out := &listOutput[Member]{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		if _, err := a.project(ctx, tx, in.Project); err != nil {
			return err
		}
		members, err := tx.Memberships(ctx, in.Project, "")
		var all []Member
		for _, m := range members {
			all = append(all, Member{m.Project, m.Person, m.Role, m.Disabled, m.Since})
		}
		out.Body = pageOf(in.Page, all, func(m Member) string { return m.Person })
		return err
	})
	return out, a.tell(err, nil)
}

func (a *API) setMember(ctx context.Context, in *struct {
	ProjectRef
	PersonRef
	Body struct {
		Role access.Role `json:"role" enum:"owner,member,viewer"`
	}
}) (*struct{ Body Member }, error) {
	out := &struct{ Body Member }{}
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		if _, err := a.project(ctx, tx, in.Project); err != nil {
			return err
		}
		if _, err := tx.Person(ctx, in.Person); err != nil {
			return err
		}
		if in.Body.Role != access.Owner {
			if err := a.ownerStays(ctx, tx, in.Project, in.Person); err != nil {
				return err
			}
		}
		if err := tx.SetMember(ctx, store.Membership{Project: in.Project, Person: in.Person, Role: in.Body.Role}); err != nil {
			return err
		}
		tx.Log(store.Event{Type: "project.requested", Project: in.Project, Text: fmt.Sprintf("%s is %s of project %s, by %s", in.Person, in.Body.Role, in.Project, identityOf(ctx))})
		members, err := tx.Memberships(ctx, in.Project, in.Person)
		for _, m := range members {
			out.Body = Member{m.Project, m.Person, m.Role, m.Disabled, m.Since}
		}
		return err
	})
	return out, a.tell(err, nil)
}

func (a *API) removeMember(ctx context.Context, in *struct {
	ProjectRef
	PersonRef
}) (*struct{}, error) {
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		if _, err := a.project(ctx, tx, in.Project); err != nil {
			return err
		}
		if err := a.ownerStays(ctx, tx, in.Project, in.Person); err != nil {
			return err
		}
		tx.Log(store.Event{Type: "project.requested", Project: in.Project, Text: fmt.Sprintf("%s has left project %s, by %s", in.Person, in.Project, identityOf(ctx))})
		return tx.RemoveMember(ctx, in.Project, in.Person)
	})
	return nil, a.tell(err, nil)
}

// ownerStays refuses to take its last owner from a project.
func (a *API) ownerStays(ctx context.Context, tx *store.Tx, project, person string) error {
	members, err := tx.Memberships(ctx, project, "")
	last := false
	for _, m := range members {
		if m.Role == access.Owner {
			if m.Person != person {
				return err
			}
			last = true
		}
	}
	if err == nil && last {
		err = problem(http.StatusConflict, "conflict", fmt.Sprintf("%s is the only owner of project %s", person, project), "make somebody else an owner first")
	}
	return err
}
