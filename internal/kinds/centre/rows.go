// Package centre keeps clusters that Muster did not build: who may go there, and what was seen of their batch systems.
//
// What enters: registrations from operators, looks from the watcher. What leaves: rows.
package centre

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/person"
)

// AccountRule says as whom a project's people go to a centre.
type AccountRule string

// The rules.
const (
	SameAccount   AccountRule = "same"   // everybody under their own name
	SharedAccount AccountRule = "shared" // all as one account of the project's
	ListedAccount AccountRule = "listed" // everybody as the list says
)

// Project lets the owners and members of a project in.
type Project struct {
	Project string
	Queues  []string // those that they may use; empty: all
	Rule    AccountRule
	Account string // the shared one
}

// Queue is what was seen of a queue.
type Queue struct {
	Name    string `json:"name"`
	Up      bool   `json:"up"`                // runs jobs
	State   string `json:"state,omitempty"`   // as the batch system calls it
	Nodes   int    `json:"nodes"`             // that its jobs may run on
	Free    int    `json:"free"`              // with nothing on them
	Used    int    `json:"used"`              // with jobs; the rest is out of order, or taken out
	Running *int   `json:"running,omitempty"` // jobs; nil: not told
	Waiting *int   `json:"waiting,omitempty"`

	// Of the smallest of its nodes; 0: not told.
	Cores     int `json:"cores,omitempty"`
	MemoryMiB int `json:"memory_mib,omitempty"`
}

// Centre is a cluster that Muster did not build.
type Centre struct {
	Name      string
	Login     string   // HOST:PORT of its sshd
	HostCA    string   // the authority of its host keys; or
	HostKeys  []string // the keys themselves
	Probe     string   // the account that asks for queues
	Projects  []Project
	Accounts  map[string]string // by person, for ListedAccount
	CreatedAt time.Time

	AskedAt  time.Time // when somebody last set out to look at it
	LookedAt time.Time // when the last look ended; zero: not since it was last changed
	SeenAt   time.Time // last answered; zero: never
	LostAt   time.Time // since when it does not answer; zero: it does
	Reason   string    // why not
	System   string
	Queues   []Queue // as they were at SeenAt
}

// Of is what a project may there.
func (c Centre) Of(project string) (Project, bool) {
	i := slices.IndexFunc(c.Projects, func(p Project) bool { return p.Project == project })
	if i < 0 {
		return Project{}, false
	}
	return c.Projects[i], true
}

// Account is as whom a person goes there who comes by a project; "" if there is no account for them.
func (c Centre) Account(p Project, person string) string {
	switch p.Rule {
	case SameAccount:
		return person
	case SharedAccount:
		return p.Account
	}
	return c.Accounts[person]
}

// Add registers a centre; core.ErrExists if there is one of that name, or if two projects would share an account.
func Add(ctx context.Context, tx *core.Tx, c Centre) error {
	_, err := tx.Exec(ctx, `INSERT INTO external_cluster (name, login, host_ca, host_keys, probe, created_at) VALUES ($1, $2, $3, $4,
		$5, now_ms())`,
		c.Name, c.Login, c.HostCA, strings.Join(c.HostKeys, "\n"), c.Probe)
	if core.Taken(err) {
		return fmt.Errorf("external cluster %s: %w", c.Name, core.ErrExists)
	}
	if err != nil {
		return fmt.Errorf("add centre: %w", err)
	}
	return admitTo(ctx, tx, c)
}

// Change writes everything that operators say of a centre, and has it looked at again. What was seen stays.
func Change(ctx context.Context, tx *core.Tx, c Centre) error {
	n, err := tx.Exec(ctx, `UPDATE external_cluster SET login = $2, host_ca = $3, host_keys = $4, probe = $5, asked_at = 0, looked_at =
		NULL WHERE name = $1`,
		c.Name, c.Login, c.HostCA, strings.Join(c.HostKeys, "\n"), c.Probe)
	if err == nil && n == 0 {
		return fmt.Errorf("external cluster %s: %w", c.Name, core.ErrNotFound)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM external_cluster_project WHERE external_cluster = $1`, c.Name)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM external_cluster_account WHERE external_cluster = $1`, c.Name)
	}
	if err != nil {
		return fmt.Errorf("change external cluster %s: %w", c.Name, err)
	}
	return admitTo(ctx, tx, c)
}

// admitTo writes who may go to a centre.
func admitTo(ctx context.Context, tx *core.Tx, c Centre) error {
	for _, p := range c.Projects {
		_, err := tx.Exec(ctx, `INSERT INTO external_cluster_project (external_cluster, project, queues, rule, account) VALUES ($1, $2, $3, $4, $5)`,
			c.Name, p.Project, core.JSON(append([]string{}, p.Queues...)), string(p.Rule), p.Account)
		if core.Taken(err) {
			return fmt.Errorf("account %s of external cluster %s for a second project: %w", p.Account, c.Name, core.ErrExists)
		}
		if err != nil {
			return fmt.Errorf("let project %s into external cluster %s: %w", p.Project, c.Name, err)
		}
	}
	for person, account := range c.Accounts {
		if _, err := tx.Exec(ctx, `INSERT INTO external_cluster_account (external_cluster, person, account) VALUES ($1, $2, $3)`, c.Name, person,
			account); err != nil {
			return fmt.Errorf("account of %s at external cluster %s: %w", person, c.Name, err)
		}
	}
	return person.AccessChanged(ctx, tx)
}

// Remove forgets a centre; core.ErrNotFound if there is none.
func Remove(ctx context.Context, tx *core.Tx, name string) error {
	n, err := tx.Exec(ctx, `DELETE FROM external_cluster WHERE name = $1`, name)
	if err == nil && n == 0 {
		err = core.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("remove external cluster %s: %w", name, err)
	}
	return person.AccessChanged(ctx, tx)
}

// Get finds a centre.
func Get(ctx context.Context, tx *core.Tx, name string) (Centre, error) {
	all, err := list(ctx, tx, name)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("external cluster %s: %w", name, core.ErrNotFound)
	}
	if err != nil {
		return Centre{}, err
	}
	return all[0], nil
}

// List lists all by name.
func List(ctx context.Context, tx *core.Tx) ([]Centre, error) { return list(ctx, tx, "") }

// list lists those of a name, "" for all.
func list(ctx context.Context, tx *core.Tx, name string) ([]Centre, error) {
	all, err := core.List(ctx, tx, scan, `SELECT name, login, host_ca, host_keys, probe, created_at, asked_at, looked_at,
		seen_at, lost_at, reason, system, queues
		FROM external_cluster WHERE $1 = '' OR name = $1 ORDER BY name`, name)
	if err != nil {
		return nil, fmt.Errorf("list centres: %w", err)
	}
	at := map[string]*Centre{}
	for i := range all {
		at[all[i].Name] = &all[i]
	}
	projects := func(r core.Scanner) (p Project, err error) {
		var centre, queues string
		if err = r.Scan(&centre, &p.Project, &queues, &p.Rule, &p.Account); err == nil {
			err = json.Unmarshal([]byte(queues), &p.Queues)
		}
		if c := at[centre]; c != nil { // nil: registered since, by another replica
			c.Projects = append(c.Projects, p)
		}
		return p, err
	}
	if _, err := core.List(ctx, tx, projects, `SELECT external_cluster, project, queues, rule, account FROM external_cluster_project
		WHERE $1 = '' OR external_cluster = $1 ORDER BY external_cluster, project`, name); err != nil {
		return nil, fmt.Errorf("list the projects of centres: %w", err)
	}
	accounts := func(r core.Scanner) (account string, err error) {
		var centre, person string
		err = r.Scan(&centre, &person, &account)
		if c := at[centre]; c != nil {
			c.Accounts[person] = account
		}
		return account, err
	}
	_, err = core.List(ctx, tx, accounts, `SELECT external_cluster, person, account FROM external_cluster_account WHERE $1 = '' OR external_cluster = $1`,
		name)
	return all, core.Wrapf(err, "list the accounts of centres")
}

func scan(r core.Scanner) (Centre, error) {
	c := Centre{Accounts: map[string]string{}}
	var keys string
	err := r.Scan(&c.Name, &c.Login, &c.HostCA, &keys, &c.Probe, core.Time(&c.CreatedAt), core.Time(&c.AskedAt),
		core.Time(&c.LookedAt), core.Time(&c.SeenAt), core.Time(&c.LostAt), &c.Reason, &c.System, core.JSON(&c.Queues))
	if keys != "" {
		c.HostKeys = strings.Split(keys, "\n")
	}
	return c, core.Wrapf(err, "row of external cluster %s", c.Name)
}

// Due is a centre that no controller has looked at for as long as every; core.ErrNotFound if there is none. It counts as looked
// at from now on, so that no other replica does the same.
func Due(ctx context.Context, tx *core.Tx, every time.Duration) (Centre, error) {
	name, err := core.One(ctx, tx, core.Value[string], `UPDATE external_cluster SET asked_at = now_ms() WHERE name = (
			SELECT name FROM external_cluster WHERE asked_at <= now_ms() - $1
			ORDER BY asked_at LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING name`, every.Milliseconds())
	if err != nil {
		return Centre{}, fmt.Errorf("find a centre to look at: %w", err)
	}
	return Get(ctx, tx, name)
}

// Seen writes what a centre answered to the look that began when Due returned c; back says that it had not,
// before. A look that a change of the centre has overtaken leaves nothing.
func Seen(ctx context.Context, tx *core.Tx, c Centre, system string, queues []Queue) (back bool, err error) {
	n, err := tx.Exec(ctx, `UPDATE external_cluster SET lost_at = NULL, reason = '' WHERE name = $1 AND asked_at = $2 AND (lost_at IS
		NOT NULL OR seen_at IS NULL)`,
		c.Name, c.AskedAt.UnixMilli())
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE external_cluster SET looked_at = now_ms(), seen_at = now_ms(), system = $3, queues = $4 WHERE
			name = $1 AND asked_at = $2`,
			c.Name, c.AskedAt.UnixMilli(), system, core.JSON(append([]Queue{}, queues...)))
	}
	return n > 0, core.Wrapf(err, "write what external cluster %s answered", c.Name)
}

// Lost is Seen for a look that failed, and why; gone says that the centre did answer, before.
func Lost(ctx context.Context, tx *core.Tx, c Centre, reason string) (gone bool, err error) {
	n, err := tx.Exec(ctx, `UPDATE external_cluster SET lost_at = now_ms() WHERE name = $1 AND asked_at = $2 AND lost_at IS NULL`, c.Name,
		c.AskedAt.UnixMilli())
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE external_cluster SET looked_at = now_ms(), reason = $3 WHERE name = $1 AND asked_at = $2`, c.Name,
			c.AskedAt.UnixMilli(), reason)
	}
	return n > 0, core.Wrapf(err, "write why external cluster %s does not answer", c.Name)
}
