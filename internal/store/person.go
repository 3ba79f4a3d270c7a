package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"muster/internal/access"
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

const personColumns = `name, uid, full_name, operator, disabled, subject, created_at`

func scanPerson(r scanner) (p Person, err error) {
	var at int64
	var subject sql.NullString
	err = r.Scan(&p.Name, &p.UID, &p.FullName, &p.Operator, &p.Disabled, &subject, &at)
	p.Subject, p.CreatedAt = subject.String, instant(at)
	return p, err
}

// AddPerson makes a person with the next free number; ErrExists if the name or the OIDC identity is taken.
func (tx *Tx) AddPerson(ctx context.Context, p Person) error {
	_, err := tx.exec(ctx, `INSERT INTO person (name, uid, full_name, operator, subject, created_at)
		VALUES ($1, (SELECT COALESCE(MAX(uid) + 1, CAST($2 AS BIGINT)) FROM person), $3, $4, $5, now_ms())`,
		p.Name, FirstUID, p.FullName, bit(p.Operator), optional(p.Subject))
	if taken(err) {
		return fmt.Errorf("person %s: %w", p.Name, ErrExists)
	}
	if err != nil {
		return fmt.Errorf("add person: %w", err)
	}
	return nil
}

// ChangePerson writes what can change of a person: full name, operator, disabled, subject.
func (tx *Tx) ChangePerson(ctx context.Context, p Person) error {
	n, err := tx.exec(ctx, `UPDATE person SET full_name = $2, operator = $3, disabled = $4, subject = $5 WHERE name = $1`,
		p.Name, p.FullName, bit(p.Operator), bit(p.Disabled), optional(p.Subject))
	switch {
	case taken(err):
		return fmt.Errorf("person %s: %w", p.Name, ErrExists)
	case err == nil && n == 0:
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("change person %s: %w", p.Name, err)
	}
	return tx.accessChanged(ctx)
}

// Person finds a person by name, disabled or not.
func (tx *Tx) Person(ctx context.Context, name string) (Person, error) {
	p, err := one(ctx, tx, scanPerson, `SELECT `+personColumns+` FROM person WHERE name = $1`, name)
	if err != nil {
		return p, fmt.Errorf("person %s: %w", name, err)
	}
	return p, nil
}

// PersonOf finds who an OIDC identity belongs to.
func (tx *Tx) PersonOf(ctx context.Context, subject string) (Person, error) {
	return one(ctx, tx, scanPerson, `SELECT `+personColumns+` FROM person WHERE subject = $1`, subject)
}

// People lists everybody by name.
func (tx *Tx) People(ctx context.Context) ([]Person, error) {
	people, err := list(ctx, tx, scanPerson, `SELECT `+personColumns+` FROM person ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("list people: %w", err)
	}
	return people, nil
}

// Project is a tenant.
type Project struct {
	Name      string
	Recorded  bool // what terminals show in its clusters is kept
	CreatedAt time.Time
}

func scanProject(r scanner) (p Project, err error) {
	var at int64
	err = r.Scan(&p.Name, &p.Recorded, &at)
	p.CreatedAt = instant(at)
	return p, err
}

// AddProject makes a project; ErrExists if there is one of that name.
func (tx *Tx) AddProject(ctx context.Context, p Project) error {
	_, err := tx.exec(ctx, `INSERT INTO project (name, recorded, created_at) VALUES ($1, $2, now_ms())`, p.Name, bit(p.Recorded))
	if taken(err) {
		return fmt.Errorf("project %s: %w", p.Name, ErrExists)
	}
	if err != nil {
		return fmt.Errorf("add project: %w", err)
	}
	return nil
}

// ChangeProject writes what can change of a project.
func (tx *Tx) ChangeProject(ctx context.Context, p Project) error {
	n, err := tx.exec(ctx, `UPDATE project SET recorded = $2 WHERE name = $1`, p.Name, bit(p.Recorded))
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("change project %s: %w", p.Name, err)
	}
	return nil
}

// Project finds a project.
func (tx *Tx) Project(ctx context.Context, name string) (Project, error) {
	p, err := one(ctx, tx, scanProject, `SELECT name, recorded, created_at FROM project WHERE name = $1`, name)
	if err != nil {
		return p, fmt.Errorf("project %s: %w", name, err)
	}
	return p, nil
}

// Projects lists all by name.
func (tx *Tx) Projects(ctx context.Context) ([]Project, error) {
	projects, err := list(ctx, tx, scanProject, `SELECT name, recorded, created_at FROM project ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("list projects: %w", err)
	}
	return projects, nil
}

// Membership is one person in one project.
type Membership struct {
	Project  string
	Person   string
	UID      int
	Role     access.Role
	Disabled bool // the person
	Since    time.Time
}

// SetMember gives a person a role in a project, whether they had one or not.
func (tx *Tx) SetMember(ctx context.Context, m Membership) error {
	_, err := tx.exec(ctx, `INSERT INTO member (project, person, role, created_at) VALUES ($1, $2, $3, now_ms())
		ON CONFLICT (project, person) DO UPDATE SET role = excluded.role`, m.Project, m.Person, string(m.Role))
	if err != nil {
		return fmt.Errorf("make %s %s of project %s: %w", m.Person, m.Role, m.Project, err)
	}
	return tx.accessChanged(ctx)
}

// RemoveMember ends somebody's role in a project; ErrNotFound if they have none.
func (tx *Tx) RemoveMember(ctx context.Context, project, person string) error {
	n, err := tx.exec(ctx, `DELETE FROM member WHERE project = $1 AND person = $2`, project, person)
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("remove %s from project %s: %w", person, project, err)
	}
	return tx.accessChanged(ctx)
}

// Memberships lists who is in a project, or in which projects a person is; "" for any. By project, then person.
func (tx *Tx) Memberships(ctx context.Context, project, person string) ([]Membership, error) {
	scan := func(r scanner) (m Membership, err error) {
		var at int64
		err = r.Scan(&m.Project, &m.Person, &m.UID, &m.Role, &m.Disabled, &at)
		m.Since = instant(at)
		return m, err
	}
	members, err := list(ctx, tx, scan, `SELECT m.project, m.person, p.uid, m.role, p.disabled, m.created_at
		FROM member m JOIN person p ON p.name = m.person
		WHERE ($1 = '' OR m.project = $1) AND ($2 = '' OR m.person = $2) ORDER BY m.project, m.person`, project, person)
	if err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	return members, nil
}

// accessChanged tells every door, and every node, that somebody may do more or less than before.
func (tx *Tx) accessChanged(ctx context.Context) error {
	if _, err := tx.exec(ctx, `UPDATE access_head SET revision = revision + 1 WHERE one = 1`); err != nil {
		return fmt.Errorf("tell that access has changed: %w", err)
	}
	return tx.InformAll(ctx)
}

// AccessRevision grows whenever it changes who may do what.
func (tx *Tx) AccessRevision(ctx context.Context) (int64, error) {
	var revision int64
	if err := tx.row(ctx, `SELECT revision FROM access_head`).Scan(&revision); err != nil {
		return 0, fmt.Errorf("read the access revision: %w", err)
	}
	return revision, nil
}

// EntryRevision is AccessRevision for what lasts in one cluster: it grows also whenever the cluster's file changes, which
// says who of its project is let in. "" is no cluster.
func (tx *Tx) EntryRevision(ctx context.Context, cluster string) (int64, error) {
	var revision int64
	err := tx.row(ctx, `SELECT a.revision + COALESCE((SELECT generation FROM cluster WHERE id = $1), 0) FROM access_head a`, cluster).Scan(&revision)
	if err != nil {
		return 0, fmt.Errorf("read the access revision of cluster %s: %w", cluster, err)
	}
	return revision, nil
}

// bit is how a boolean is stored.
func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// optional is NULL for the empty text.
func optional(text string) sql.NullString { return sql.NullString{String: text, Valid: text != ""} }

// Establish sees to it that there is an administrator, who holds the token of which hash is the hash, and the projects
// given. Of the first project, when it is made, the administrator is the owner. Repeating it changes nothing.
func (tx *Tx) Establish(ctx context.Context, admin, hash, id string, projects ...string) error {
	_, err := tx.exec(ctx, `INSERT INTO person (name, uid, operator, created_at) VALUES ($1, $2, 1, now_ms()) ON CONFLICT (name) DO NOTHING`, admin, FirstUID)
	if err != nil {
		return fmt.Errorf("establish %s: %w", admin, err)
	}
	for i, name := range projects {
		made, err := tx.exec(ctx, `INSERT INTO project (name, created_at) VALUES ($1, now_ms()) ON CONFLICT (name) DO NOTHING`, name)
		if err != nil {
			return fmt.Errorf("establish project %s: %w", name, err)
		}
		if i == 0 && made > 0 {
			if err := tx.SetMember(ctx, Membership{Project: name, Person: admin, Role: access.Owner}); err != nil {
				return err
			}
		}
	}
	return tx.AddToken(ctx, hash, Token{ID: id, Person: admin, Name: "this controller's own", Kind: LocalToken, Scope: access.Whole}, 0)
}
