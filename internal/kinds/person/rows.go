// Package person keeps people, with their projects, tokens, keys, log-ins and sessions, and what they did.
//
// What enters: requests to the API, the gateway and the web door. What leaves: rows, and who a caller is.
package person

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kit/wrap"
)

// FirstUID is the number of the first person's account; what is lower belongs to images.
const FirstUID = 10000

// Person is somebody who may come.
type Person struct {
	Name      string // the account on every node
	UID       int    // its number on every node; the site's, never given twice
	FullName  string
	Operator  bool
	Disabled  bool   // is let in nowhere
	Subject   string // issuer and subject of the OIDC identity, separated by a space; "": cannot log in
	CreatedAt time.Time
}

const columns = `name, uid, full_name, operator, disabled, subject, created_at`

func scan(r core.Scanner) (p Person, err error) {
	var subject sql.NullString
	err = r.Scan(&p.Name, &p.UID, &p.FullName, &p.Operator, &p.Disabled, &subject, core.Time(&p.CreatedAt))
	p.Subject = subject.String
	return p, err
}

// Add makes a person with the next free number; core.ErrExists if the name or the OIDC identity is taken.
func Add(ctx context.Context, tx *core.Tx, p Person) error {
	_, err := tx.Exec(ctx, `INSERT INTO person (name, uid, full_name, operator, subject, created_at)
		VALUES ($1, (SELECT COALESCE(MAX(uid) + 1, CAST($2 AS BIGINT)) FROM person), $3, $4, $5, now_ms())`,
		p.Name, FirstUID, p.FullName, core.Flag(p.Operator), optional(p.Subject))
	if core.Taken(err) {
		return fmt.Errorf("person %s: %w", p.Name, core.ErrExists)
	}
	return wrap.Errorf(err, "add person")
}

// Change writes what can change of a person: full name, operator, disabled, subject.
func Change(ctx context.Context, tx *core.Tx, p Person) error {
	n, err := tx.Exec(ctx, `UPDATE person SET full_name = $2, operator = $3, disabled = $4, subject = $5 WHERE name = $1`,
		p.Name, p.FullName, core.Flag(p.Operator), core.Flag(p.Disabled), optional(p.Subject))
	switch {
	case core.Taken(err):
		return fmt.Errorf("person %s: %w", p.Name, core.ErrExists)
	case err == nil && n == 0:
		err = core.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("change person %s: %w", p.Name, err)
	}
	return AccessChanged(ctx, tx)
}

// Get finds a person by name, disabled or not.
func Get(ctx context.Context, tx *core.Tx, name string) (Person, error) {
	p, err := core.One(ctx, tx, scan, `SELECT `+columns+` FROM person WHERE name = $1`, name)
	return p, wrap.Errorf(err, "person %s", name)
}

// OfSubject finds who an OIDC identity belongs to.
func OfSubject(ctx context.Context, tx *core.Tx, subject string) (Person, error) {
	return core.One(ctx, tx, scan, `SELECT `+columns+` FROM person WHERE subject = $1`, subject)
}

// List lists everybody by name.
func List(ctx context.Context, tx *core.Tx) ([]Person, error) {
	people, err := core.List(ctx, tx, scan, `SELECT `+columns+` FROM person ORDER BY name`)
	return people, wrap.Errorf(err, "list people")
}

// Project is a tenant.
type Project struct {
	Name      string
	Recorded  bool // what terminals show in its clusters is kept
	CreatedAt time.Time
}

func scanProject(r core.Scanner) (p Project, err error) {
	err = r.Scan(&p.Name, &p.Recorded, core.Time(&p.CreatedAt))
	return p, err
}

// AddProject makes a project; core.ErrExists if there is one of that name.
func AddProject(ctx context.Context, tx *core.Tx, p Project) error {
	_, err := tx.Exec(ctx, `INSERT INTO project (name, recorded, created_at) VALUES ($1, $2, now_ms())`, p.Name, core.Flag(p.Recorded))
	if core.Taken(err) {
		return fmt.Errorf("project %s: %w", p.Name, core.ErrExists)
	}
	return wrap.Errorf(err, "add project")
}

// ChangeProject writes what can change of a project.
func ChangeProject(ctx context.Context, tx *core.Tx, p Project) error {
	n, err := tx.Exec(ctx, `UPDATE project SET recorded = $2 WHERE name = $1`, p.Name, core.Flag(p.Recorded))
	if err == nil && n == 0 {
		err = core.ErrNotFound
	}
	return wrap.Errorf(err, "change project %s", p.Name)
}

// Hooks are scripts that run around each job of a project's clusters, as the job's user; "": none.
type Hooks struct{ Prolog, Epilog string }

// HooksOf are those of a project.
func HooksOf(ctx context.Context, tx *core.Tx, project string) (Hooks, error) {
	scan := core.Fields(func(h *Hooks) []any { return []any{&h.Prolog, &h.Epilog} })
	h, err := core.One(ctx, tx, scan, `SELECT prolog, epilog FROM project WHERE name = $1`, project)
	return h, wrap.Errorf(err, "hooks of project %s", project)
}

// SetHooks writes them, and tells the project's clusters.
func SetHooks(ctx context.Context, tx *core.Tx, project string, h Hooks) error {
	if _, err := tx.Exec(ctx, `UPDATE project SET prolog = $2, epilog = $3 WHERE name = $1`, project, h.Prolog,
		h.Epilog); err != nil {
		return fmt.Errorf("set hooks of project %s: %w", project, err)
	}
	return cluster.InformProject(ctx, tx, project)
}

// GetProject finds a project.
func GetProject(ctx context.Context, tx *core.Tx, name string) (Project, error) {
	p, err := core.One(ctx, tx, scanProject, `SELECT name, recorded, created_at FROM project WHERE name = $1`, name)
	return p, wrap.Errorf(err, "project %s", name)
}

// Projects lists all by name.
func Projects(ctx context.Context, tx *core.Tx) ([]Project, error) {
	projects, err := core.List(ctx, tx, scanProject, `SELECT name, recorded, created_at FROM project ORDER BY name`)
	return projects, wrap.Errorf(err, "list projects")
}

// Membership is one person in one project.
type Membership struct {
	Project  string
	Person   string
	UID      int
	Role     access.Role
	Disabled bool // the person

	InvitedBy string // who has offered the role; "": it is taken
	Since     time.Time
}

// SetMember gives a person a role in a project, whether they had one or not; or offers it, if somebody invites them.
func SetMember(ctx context.Context, tx *core.Tx, m Membership) error {
	_, err := tx.Exec(ctx, `INSERT INTO member (project, person, role, invited_by, created_at) VALUES ($1, $2, $3, $4, now_ms())
		ON CONFLICT (project, person) DO UPDATE SET role = excluded.role, invited_by = excluded.invited_by`,
		m.Project, m.Person, string(m.Role), m.InvitedBy)
	if err != nil {
		return fmt.Errorf("make %s %s of project %s: %w", m.Person, m.Role, m.Project, err)
	}
	if m.InvitedBy != "" { // which gives no right
		return nil
	}
	return projectChanged(ctx, tx, m.Project)
}

// AcceptInvitation takes the role that a person is offered; core.ErrNotFound if they are offered none.
func AcceptInvitation(ctx context.Context, tx *core.Tx, project, person string) error {
	n, err := tx.Exec(ctx, `UPDATE member SET invited_by = '', created_at = now_ms() WHERE project = $1 AND person = $2
		AND invited_by <> ''`, project, person)
	if err == nil && n == 0 {
		err = core.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("project %s: %w", project, err)
	}
	return projectChanged(ctx, tx, project)
}

// RemoveMember ends somebody's role in a project, or the offer of one; core.ErrNotFound if there is none.
func RemoveMember(ctx context.Context, tx *core.Tx, project, person string) error {
	n, err := tx.Exec(ctx, `DELETE FROM member WHERE project = $1 AND person = $2`, project, person)
	if err == nil && n == 0 {
		err = core.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("remove %s from project %s: %w", person, project, err)
	}
	return projectChanged(ctx, tx, project)
}

// Memberships lists who is in a project, or in which projects a person is; "" for any. By project, then person.
func Memberships(ctx context.Context, tx *core.Tx, project, person string) ([]Membership, error) {
	return memberships(ctx, tx, project, person, `m.invited_by = ''`)
}

// Invitations is Memberships for roles that are offered and not taken.
func Invitations(ctx context.Context, tx *core.Tx, project, person string) ([]Membership, error) {
	return memberships(ctx, tx, project, person, `m.invited_by <> ''`)
}

func memberships(ctx context.Context, tx *core.Tx, project, person, which string) ([]Membership, error) {
	scan := core.Fields(func(m *Membership) []any {
		return []any{&m.Project, &m.Person, &m.UID, &m.Role, &m.Disabled, &m.InvitedBy, core.Time(&m.Since)}
	})
	members, err := core.List(ctx, tx, scan, `SELECT m.project, m.person, p.uid, m.role, p.disabled, m.invited_by, m.created_at
		FROM member m JOIN person p ON p.name = m.person
		WHERE ($1 = '' OR m.project = $1) AND ($2 = '' OR m.person = $2) AND `+which+` ORDER BY m.project, m.person`,
		project, person)
	return members, wrap.Errorf(err, "list members")
}

// AccessChanged tells every door, and every node, that somebody may do more or less than before.
func AccessChanged(ctx context.Context, tx *core.Tx) error {
	return errors.Join(doorsChanged(ctx, tx), cluster.InformAll(ctx, tx))
}

// projectChanged is AccessChanged for what concerns one project: the nodes of others are not told, who would all read again what
// they know.
func projectChanged(ctx context.Context, tx *core.Tx, project string) error {
	return errors.Join(doorsChanged(ctx, tx), cluster.InformProject(ctx, tx, project))
}

// personChanged is AccessChanged for what concerns the accounts of one person.
func personChanged(ctx context.Context, tx *core.Tx, person string) error {
	err := doorsChanged(ctx, tx)
	members, failed := Memberships(ctx, tx, "", person)
	for _, m := range members {
		err = errors.Join(err, cluster.InformProject(ctx, tx, m.Project))
	}
	return errors.Join(err, failed)
}

// doorsChanged tells the doors alone. The web door looks at clusters too: whatever takes rights away tells those.
func doorsChanged(ctx context.Context, tx *core.Tx) error {
	_, err := tx.Exec(ctx, `UPDATE access_head SET revision = revision + 1 WHERE one = 1`)
	return wrap.Errorf(err, "tell that access has changed")
}

// AccessRevision grows whenever it changes who may do what.
func AccessRevision(ctx context.Context, tx *core.Tx) (int64, error) {
	var revision int64
	err := tx.Row(ctx, `SELECT revision FROM access_head`).Scan(&revision)
	return revision, wrap.Errorf(err, "read the access revision")
}

// EntryRevision is AccessRevision for what lasts in one cluster: it grows also whenever the cluster's file changes, which
// says who of its project is let in. "" is no cluster.
func EntryRevision(ctx context.Context, tx *core.Tx, cluster string) (int64, error) {
	var revision int64
	err := tx.Row(ctx, `SELECT a.revision + COALESCE((SELECT generation FROM cluster WHERE id = $1), 0) FROM access_head a`,
		cluster).Scan(&revision)
	return revision, wrap.Errorf(err, "read the access revision of cluster %s", cluster)
}

// optional is NULL for the empty text.
func optional(text string) sql.NullString { return sql.NullString{String: text, Valid: text != ""} }

// Establish sees to it that there is an administrator, who holds the token with this hash, and the projects
// given. Of the first project, when it is made, the administrator is the owner. Repeating it changes nothing.
func Establish(ctx context.Context, tx *core.Tx, admin, hash, id string, projects ...string) error {
	_, err := tx.Exec(ctx, `INSERT INTO person (name, uid, operator, created_at) VALUES ($1, $2, 1, now_ms()) ON CONFLICT
		(name) DO NOTHING`, admin, FirstUID)
	if err != nil {
		return fmt.Errorf("establish %s: %w", admin, err)
	}
	for i, name := range projects {
		made, err := tx.Exec(ctx, `INSERT INTO project (name, created_at) VALUES ($1, now_ms()) ON CONFLICT (name) DO NOTHING`,
			name)
		if err != nil {
			return fmt.Errorf("establish project %s: %w", name, err)
		}
		if i == 0 && made > 0 {
			if err := SetMember(ctx, tx, Membership{Project: name, Person: admin, Role: access.Owner}); err != nil {
				return err
			}
		}
	}
	return AddToken(ctx, tx, hash, Token{ID: id, Person: admin, Name: "this controller's own", Kind: LocalToken,
		Scope: access.Whole}, 0)
}
