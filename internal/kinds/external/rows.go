// Package external keeps clusters that Muster did not build: who may go there, and what was seen of their batch systems.
//
// What enters: registrations from operators, and what was seen there, from their life. What leaves: rows.
package external

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/person"
	"muster/internal/kit/lists"
	"muster/internal/kit/wrap"
)

// AccountRule says as whom a project's people go to an external cluster.
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

// Cluster is one that Muster did not build.
type Cluster struct {
	Name      string
	Login     string   // HOST:PORT of its sshd
	HostCA    string   // the authority of its host keys; or
	HostKeys  []string // the keys themselves
	Probe     string   // the account that asks for queues
	Projects  []Project
	Accounts  map[string]string // by person, for ListedAccount
	CreatedAt time.Time

	core.Life            // the reason is, of one that is silent, why it does not answer
	Generation int64     // counts what operators have said of it
	Reached    int64     // the generation that was looked at last
	SeenAt     time.Time // last answered; zero: never
	System     string
	Queues     []Queue // as they were at SeenAt
}

// Asked says that it was asked since operators last said anything of it.
func (c Cluster) Asked() bool { return c.Reached == c.Generation }

// Silent says that it did not answer when it was last asked.
func (c Cluster) Silent() bool { return c.Phase == core.Degraded }

// Of is what a project may there.
func (c Cluster) Of(project string) (Project, bool) {
	return lists.Find(c.Projects, func(p Project) bool { return p.Project == project })
}

// Account is as whom a person goes there who comes by a project; "" if there is no account for them.
func (c Cluster) Account(p Project, person string) string {
	switch p.Rule {
	case SameAccount:
		return person
	case SharedAccount:
		return p.Account
	}
	return c.Accounts[person]
}

// Add registers an external cluster; core.ErrExists if there is one of that name, or if two projects would share an account. Its
// numbers begin with the time: no claim, and no question, of one that had its name before is taken for its own.
func Add(ctx context.Context, tx *core.Tx, c Cluster) error {
	_, err := tx.Exec(ctx, `INSERT INTO external_cluster (id, login, host_ca, host_keys, probe, created_at, phase_at, wake_at,
		generation, fence) VALUES ($1, $2, $3, $4, $5, now_ms(), now_ms(), now_ms(), now_ms(), now_ms())`,
		c.Name, c.Login, c.HostCA, strings.Join(c.HostKeys, "\n"), c.Probe)
	if core.Taken(err) {
		return fmt.Errorf("external cluster %s: %w", c.Name, core.ErrExists)
	}
	if err != nil {
		return fmt.Errorf("add external cluster: %w", err)
	}
	return admitTo(ctx, tx, c)
}

// Change writes everything that operators say of an external cluster, and has it looked at again. What was seen stays.
func Change(ctx context.Context, tx *core.Tx, c Cluster) error {
	n, err := tx.Exec(ctx, `UPDATE external_cluster SET login = $2, host_ca = $3, host_keys = $4, probe = $5,
		generation = generation + 1, `+core.Woken+` WHERE id = $1`,
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

// admitTo writes who may go to an external cluster.
func admitTo(ctx context.Context, tx *core.Tx, c Cluster) error {
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

// Remove forgets an external cluster; core.ErrNotFound if there is none.
func Remove(ctx context.Context, tx *core.Tx, name string) error {
	n, err := tx.Exec(ctx, `DELETE FROM external_cluster WHERE id = $1`, name)
	if err == nil && n == 0 {
		err = core.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("remove external cluster %s: %w", name, err)
	}
	return person.AccessChanged(ctx, tx)
}

// Get finds an external cluster.
func Get(ctx context.Context, tx *core.Tx, name string) (Cluster, error) {
	all, err := list(ctx, tx, name)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("external cluster %s: %w", name, core.ErrNotFound)
	}
	if err != nil {
		return Cluster{}, err
	}
	return all[0], nil
}

// List lists all by name.
func List(ctx context.Context, tx *core.Tx) ([]Cluster, error) { return list(ctx, tx, "") }

// list lists those of a name, "" for all.
func list(ctx context.Context, tx *core.Tx, name string) ([]Cluster, error) {
	all, err := core.List(ctx, tx, scan, `SELECT id, login, host_ca, host_keys, probe, created_at, generation, reached,
		seen_at, system, queues, `+core.LifeColumns+` FROM external_cluster WHERE $1 = '' OR id = $1 ORDER BY id`, name)
	if err != nil {
		return nil, fmt.Errorf("list external clusters: %w", err)
	}
	at := map[string]*Cluster{}
	for i := range all {
		at[all[i].Name] = &all[i]
	}
	projects := func(r core.Scanner) (p Project, err error) {
		var cluster, queues string
		if err = r.Scan(&cluster, &p.Project, &queues, &p.Rule, &p.Account); err == nil {
			err = json.Unmarshal([]byte(queues), &p.Queues)
		}
		if c := at[cluster]; c != nil { // nil: registered since, by another replica
			c.Projects = append(c.Projects, p)
		}
		return p, err
	}
	if _, err := core.List(ctx, tx, projects, `SELECT external_cluster, project, queues, rule, account FROM external_cluster_project
		WHERE $1 = '' OR external_cluster = $1 ORDER BY external_cluster, project`, name); err != nil {
		return nil, fmt.Errorf("list the projects of external clusters: %w", err)
	}
	accounts := func(r core.Scanner) (account string, err error) {
		var cluster, person string
		err = r.Scan(&cluster, &person, &account)
		if c := at[cluster]; c != nil {
			c.Accounts[person] = account
		}
		return account, err
	}
	_, err = core.List(ctx, tx, accounts, `SELECT external_cluster, person, account FROM external_cluster_account WHERE $1 = '' OR external_cluster = $1`,
		name)
	return all, wrap.Errorf(err, "list the accounts of external clusters")
}

func scan(r core.Scanner) (Cluster, error) {
	c := Cluster{Accounts: map[string]string{}}
	var keys string
	err := r.Scan(append([]any{&c.Name, &c.Login, &c.HostCA, &keys, &c.Probe, core.Time(&c.CreatedAt), &c.Generation, &c.Reached,
		core.Time(&c.SeenAt), &c.System, core.JSON(&c.Queues)}, c.Life.Fields()...)...)
	if keys != "" {
		c.HostKeys = strings.Split(keys, "\n")
	}
	return c, wrap.Errorf(err, "row of external cluster %s", c.Name)
}

// SaveSeen writes what an external cluster answered when it was asked as c says; core.ErrFenced if it was changed meanwhile.
func SaveSeen(ctx context.Context, tx *core.Tx, c Cluster, system string, queues []Queue) error {
	if err := SaveReached(ctx, tx, c); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE external_cluster SET seen_at = now_ms(), system = $2, queues = $3 WHERE id = $1`, c.Name, system,
		core.JSON(append([]Queue{}, queues...)))
	return wrap.Errorf(err, "write what external cluster %s answered", c.Name)
}

// SaveReached writes that an external cluster was asked as c says, whether or not it answered; core.ErrFenced if it was changed
// meanwhile.
func SaveReached(ctx context.Context, tx *core.Tx, c Cluster) error {
	n, err := tx.Exec(ctx, `UPDATE external_cluster SET reached = generation WHERE id = $1 AND generation = $2`, c.Name, c.Generation)
	if err == nil && n == 0 {
		err = core.ErrFenced
	}
	return wrap.Errorf(err, "write that external cluster %s was asked", c.Name)
}
