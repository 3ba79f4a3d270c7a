package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muster/internal/admission"
	"muster/internal/centre"
	"muster/internal/spec"
	"muster/internal/store"
)

// CentreState says whether a centre answers.
type CentreState string

// The states.
const (
	CentreNew    CentreState = "new"    // not looked at since it was registered or changed
	CentreOpen   CentreState = "open"   // answers
	CentreSilent CentreState = "silent" // does not
)

// CentreSpec is what operators say of a cluster that Muster did not build.
type CentreSpec struct {
	Login    string            `json:"login" doc:"HOST or HOST:PORT of its sshd" maxLength:"300" example:"arc.example.org"`
	HostCA   string            `json:"host_ca,omitempty" doc:"the authority that signs its host keys, authorized_keys format; or else" maxLength:"16384"`
	HostKeys []string          `json:"host_keys,omitempty" doc:"its host keys, authorized_keys format" maxItems:"20"`
	Probe    string            `json:"probe,omitempty" doc:"the account there that asks for queues" default:"muster" maxLength:"32"`
	Projects []CentreProject   `json:"projects" doc:"whose owners and members may go there; you see those that you may look at" maxItems:"1000"`
	Accounts map[string]string `json:"accounts,omitempty" doc:"for the rule listed: accounts by person; shown to operators"`
}

// CentreProject lets the owners and members of a project into a centre.
type CentreProject struct {
	Project string   `json:"project" maxLength:"63"`
	Queues  []string `json:"queues,omitempty" doc:"those that they may use; absent: all" maxItems:"1000"`
	Rule    string   `json:"rule" enum:"same,shared,listed" doc:"same: everybody under their own name; shared: all as one account; listed: everybody as accounts says"`
	Account string   `json:"account,omitempty" doc:"the shared one" maxLength:"32"`
}

// CentreQueue is what was seen of a queue.
type CentreQueue struct {
	store.CentreQueue
	Projects []string `json:"projects" doc:"who may use it; of those that you may look at"`
}

// Centre is a cluster that Muster did not build, behind the same door.
type Centre struct {
	Name string `json:"name"`
	CentreSpec
	State     CentreState   `json:"state" enum:"new,open,silent" doc:"new: not looked at since it was registered or changed; open: it answers; silent: it does not"`
	Since     time.Time     `json:"since,omitzero" doc:"when it fell silent"`
	Reason    string        `json:"reason,omitempty" doc:"why it is silent"`
	SeenAt    time.Time     `json:"seen_at,omitzero" doc:"when it last answered, which is how old the queues are"`
	System    string        `json:"system,omitempty" doc:"the batch system" example:"Slurm 22.05.8"`
	Queues    []CentreQueue `json:"queues" doc:"that projects may use which you may look at"`
	CreatedAt time.Time     `json:"created_at"`
}

// CentreAuthority is what the sshd of a centre has to trust.
type CentreAuthority struct {
	PublicKey string `json:"public_key" doc:"authorized_keys format; for the file of sshd's TrustedUserCAKeys"`
}

// CentreRef is a centre in a path.
type CentreRef struct {
	Centre string `path:"centre" doc:"name" maxLength:"63"`
}

func (a *API) registerCentres(api huma.API) {
	op := func(id, method, path, summary string, errors ...int) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{"centres"}, Errors: append(errors, http.StatusForbidden)}
	}
	add := op("add-centre", http.MethodPost, "/v1/centres", "Register a cluster that Muster did not build", 404, 409, 422)
	add.DefaultStatus = http.StatusCreated
	huma.Register(api, op("list-centres", http.MethodGet, "/v1/centres", "List the registered centres that your projects may use, or all as an operator"), a.listCentres)
	huma.Register(api, add, a.addCentre)
	huma.Register(api, op("get-centre", http.MethodGet, "/v1/centres/{centre}", "Show a centre and its queues", 404), a.getCentre)
	huma.Register(api, op("change-centre", http.MethodPut, "/v1/centres/{centre}", "Change what is said of a centre, and look at it anew", 404, 409, 422), a.changeCentre)
	huma.Register(api, op("remove-centre", http.MethodDelete, "/v1/centres/{centre}", "Forget a centre", 404), a.removeCentre)
	huma.Register(api, op("get-centre-authority", http.MethodGet, "/v1/centre-authority", "Show what the sshd of a centre has to trust"), a.centreAuthority)
}

// centreView is a centre as the caller may see it; false if they may not know of it.
func centreView(ctx context.Context, c store.Centre) (Centre, bool) {
	all := callerOf(ctx).Everywhere()
	v := Centre{
		Name: c.Name, CentreSpec: CentreSpec{Login: c.Login, HostCA: c.HostCA, HostKeys: c.HostKeys, Probe: c.Probe, Projects: []CentreProject{}},
		State: CentreOpen, Since: c.LostAt, Reason: c.Reason, SeenAt: c.SeenAt, System: c.System, Queues: []CentreQueue{}, CreatedAt: c.CreatedAt,
	}
	switch {
	case c.LookedAt.IsZero():
		v.State = CentreNew
	case !c.LostAt.IsZero():
		v.State = CentreSilent
	}
	if all {
		v.Accounts = c.Accounts
	}
	for _, p := range c.Projects {
		if sees(ctx, p.Project) {
			v.Projects = append(v.Projects, CentreProject{p.Project, p.Queues, string(p.Rule), p.Account})
		}
	}
	for _, q := range c.Queues {
		users := []string{}
		for _, p := range v.Projects {
			if len(p.Queues) == 0 || slices.Contains(p.Queues, q.Name) {
				users = append(users, p.Project)
			}
		}
		if all || len(users) > 0 {
			v.Queues = append(v.Queues, CentreQueue{q, users})
		}
	}
	return v, all || len(v.Projects) > 0
}

func (a *API) listCentres(ctx context.Context, in *Page) (*listOutput[Centre], error) {
	out := &listOutput[Centre]{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		centres, err := tx.Centres(ctx)
		var all []Centre
		for _, c := range centres {
			if view, seen := centreView(ctx, c); seen {
				all = append(all, view)
			}
		}
		out.Body = pageOf(*in, all, func(c Centre) string { return c.Name })
		return err
	})
	return out, a.tell(err, nil)
}

type centreOutput struct{ Body Centre }

func (a *API) getCentre(ctx context.Context, in *CentreRef) (*centreOutput, error) {
	out := &centreOutput{}
	err := a.DB.View(ctx, func(tx *store.Tx) error { return showCentre(ctx, tx, in.Centre, out) })
	return out, a.tell(err, nil)
}

func showCentre(ctx context.Context, tx *store.Tx, name string, out *centreOutput) error {
	c, err := tx.Centre(ctx, name)
	if err != nil {
		return err
	}
	var seen bool
	if out.Body, seen = centreView(ctx, c); !seen {
		err = fmt.Errorf("centre %s: %w", name, store.ErrNotFound)
	}
	return err
}

// said is a centre as operators say it is, if that makes sense.
func (s CentreSpec) said(ctx context.Context, tx *store.Tx, name string) (store.Centre, error) {
	c := store.Centre{Name: name, Login: s.Login, HostCA: s.HostCA, HostKeys: s.HostKeys, Probe: s.Probe, Accounts: s.Accounts}
	for _, p := range s.Projects {
		if _, err := tx.Project(ctx, p.Project); err != nil {
			return c, err
		}
		if _, twice := c.Of(p.Project); twice {
			return c, problem(http.StatusUnprocessableEntity, "invalid", "projects: "+p.Project+" stands there twice", "")
		}
		if (p.Account != "") != (p.Rule == string(store.SharedAccount)) {
			return c, problem(http.StatusUnprocessableEntity, "invalid", fmt.Sprintf("projects: %s: rule %s, account %q", p.Project, p.Rule, p.Account), "an account is given with the rule shared, and with no other")
		}
		c.Projects = append(c.Projects, store.CentreProject{Project: p.Project, Queues: p.Queues, Rule: store.AccountRule(p.Rule), Account: p.Account})
		clusters, err := tx.Clusters(ctx, p.Project)
		if err != nil {
			return c, err
		}
		if slices.ContainsFunc(clusters, func(other store.Cluster) bool { return other.Name == name }) {
			return c, problem(http.StatusConflict, "conflict", fmt.Sprintf("project %s has a cluster %s", p.Project, name), "at the door both would have the same name: take another one")
		}
	}
	for person := range s.Accounts {
		if _, err := tx.Person(ctx, person); err != nil {
			return c, err
		}
	}
	c, err := centre.Check(c)
	if err != nil {
		err = problem(http.StatusUnprocessableEntity, "invalid", err.Error(), "")
	}
	return c, err
}

// notACentre refuses a cluster the name of a centre that its project may use: at the door one could not tell them apart.
func notACentre(ctx context.Context, tx *store.Tx, c spec.Cluster) error {
	centre, err := tx.Centre(ctx, c.Name)
	if isNotFound(err) {
		return nil
	}
	if _, used := centre.Of(c.Project); err != nil || !used {
		return err
	}
	return &admission.Refusal{Kind: admission.Invalid, Diagnostics: spec.Diagnostics{{Code: spec.CodeBadValue, Path: "name",
		Text: fmt.Sprintf("%s is a registered cluster that project %s may use", c.Name, c.Project), Hint: "take another name"}}}
}

// who tells the projects of a centre, for the log of events.
func who(c store.Centre) string {
	var names []string
	for _, p := range c.Projects {
		names = append(names, p.Project)
	}
	if len(names) == 0 {
		return "nobody"
	}
	return strings.Join(names, ", ")
}

func (a *API) addCentre(ctx context.Context, in *struct {
	Body struct {
		Name string `json:"name" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$" maxLength:"63"`
		CentreSpec
	}
}) (*centreOutput, error) {
	out := &centreOutput{}
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		c, err := in.Body.said(ctx, tx, in.Body.Name)
		if err != nil {
			return err
		}
		if err := tx.AddCentre(ctx, c); err != nil {
			return err
		}
		tx.Log(store.Event{Type: "centre.requested", Text: fmt.Sprintf("centre %s at %s for %s, by %s", c.Name, c.Login, who(c), identityOf(ctx))})
		return showCentre(ctx, tx, c.Name, out)
	})
	return out, a.tell(err, nil)
}

func (a *API) changeCentre(ctx context.Context, in *struct {
	CentreRef
	Body CentreSpec
}) (*centreOutput, error) {
	out := &centreOutput{}
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		c, err := in.Body.said(ctx, tx, in.Centre)
		if err != nil {
			return err
		}
		if err := tx.ChangeCentre(ctx, c); err != nil {
			return err
		}
		tx.Log(store.Event{Type: "centre.requested", Text: fmt.Sprintf("centre %s: at %s for %s, by %s", c.Name, c.Login, who(c), identityOf(ctx))})
		return showCentre(ctx, tx, c.Name, out)
	})
	return out, a.tell(err, nil)
}

func (a *API) removeCentre(ctx context.Context, in *CentreRef) (*struct{}, error) {
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		tx.Log(store.Event{Type: "centre.requested", Text: fmt.Sprintf("centre %s is forgotten, by %s", in.Centre, identityOf(ctx))})
		return tx.RemoveCentre(ctx, in.Centre)
	})
	return nil, a.tell(err, nil)
}

func (a *API) centreAuthority(context.Context, *struct{}) (*struct{ Body CentreAuthority }, error) {
	return &struct{ Body CentreAuthority }{CentreAuthority{a.Authority.CentreCA()}}, nil
}
