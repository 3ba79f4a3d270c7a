package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apiv1 "muster/api/v1"
	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/door/external"
	"muster/internal/kinds/cluster"
	externals "muster/internal/kinds/external"
	"muster/internal/kinds/person"
	"muster/internal/spec"
)

// externalView is an external cluster as the caller may see it; false if they may not know of it.
func externalView(ctx context.Context, c externals.Cluster) (apiv1.ExternalCluster, bool) {
	all := callerOf(ctx).Everywhere()
	v := apiv1.ExternalCluster{
		Name: c.Name,
		ExternalClusterSpec: apiv1.ExternalClusterSpec{
			Login:    c.Login,
			HostCA:   c.HostCA,
			HostKeys: c.HostKeys,
			Probe:    c.Probe,
			Projects: []apiv1.ExternalClusterProject{},
		},
		State:     apiv1.ExternalClusterOpen,
		SeenAt:    c.SeenAt,
		System:    c.System,
		Queues:    []apiv1.ExternalClusterQueue{},
		CreatedAt: c.CreatedAt,
	}
	switch {
	case !c.Asked():
		v.State = apiv1.ExternalClusterNew
	case c.Silent():
		v.State, v.Since, v.Reason = apiv1.ExternalClusterSilent, c.PhaseAt, c.Reason
	}
	if all {
		v.Accounts = c.Accounts
	}
	for _, p := range c.Projects {
		if sees(ctx, p.Project) {
			v.Projects = append(v.Projects, apiv1.ExternalClusterProject{Project: p.Project, Queues: p.Queues,
				Rule: string(p.Rule), Account: p.Account})
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
			v.Queues = append(v.Queues, apiv1.ExternalClusterQueue{SeenQueue: apiv1.SeenQueue(q), Projects: users})
		}
	}
	return v, all || len(v.Projects) > 0
}

func (a *API) listExternalClusters(ctx context.Context, in *apiv1.Page) (*output[apiv1.List[apiv1.ExternalCluster]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.ExternalCluster]) error {
		clusters, err := externals.List(ctx, tx)
		var all []apiv1.ExternalCluster
		for _, c := range clusters {
			if view, seen := externalView(ctx, c); seen {
				all = append(all, view)
			}
		}
		*out = pageOf(*in, all, func(c apiv1.ExternalCluster) string { return c.Name })
		return err
	})
}

func (a *API) getExternalCluster(ctx context.Context, in *apiv1.ExternalClusterRef) (*output[apiv1.ExternalCluster], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.ExternalCluster) error {
		return showExternal(ctx, tx, in.ExternalCluster, out)
	})
}

func showExternal(ctx context.Context, tx *core.Tx, name string, out *apiv1.ExternalCluster) error {
	c, err := externals.Get(ctx, tx, name)
	if err != nil {
		return err
	}
	var seen bool
	if *out, seen = externalView(ctx, c); !seen {
		err = fmt.Errorf("external cluster %s: %w", name, core.ErrNotFound)
	}
	return err
}

// said is an external cluster as operators say it is, if that makes sense.
func said(ctx context.Context, tx *core.Tx, name string, s apiv1.ExternalClusterSpec) (externals.Cluster, error) {
	c := externals.Cluster{Name: name, Login: s.Login, HostCA: s.HostCA, HostKeys: s.HostKeys, Probe: s.Probe,
		Accounts: s.Accounts}
	for _, p := range s.Projects {
		if _, err := person.GetProject(ctx, tx, p.Project); err != nil {
			return c, err
		}
		if _, twice := c.Of(p.Project); twice {
			return c, invalid("projects: "+p.Project+" is listed twice", "")
		}
		if (p.Account != "") != (p.Rule == string(externals.SharedAccount)) {
			return c, invalid(fmt.Sprintf("projects: %s: rule %s, account %q", p.Project, p.Rule, p.Account),
				"an account is given with the rule shared, and with no other")
		}
		c.Projects = append(c.Projects, externals.Project{Project: p.Project, Queues: p.Queues,
			Rule: externals.AccountRule(p.Rule), Account: p.Account})
		clusters, err := cluster.List(ctx, tx, p.Project)
		if err != nil {
			return c, err
		}
		if slices.ContainsFunc(clusters, func(other cluster.Cluster) bool { return other.Name == name }) {
			return c, conflict(fmt.Sprintf("project %s has a cluster %s", p.Project, name),
				"at the door both would have the same name: take another one")
		}
	}
	for personName := range s.Accounts {
		if _, err := person.Get(ctx, tx, personName); err != nil {
			return c, err
		}
	}
	c, err := external.Check(c)
	if err != nil {
		err = invalid(err.Error(), "")
	}
	return c, err
}

// notExternal refuses a cluster the name of an external cluster that its project may use: at the door one could not tell them
// apart.
func notExternal(ctx context.Context, tx *core.Tx, c spec.Cluster) error {
	other, err := externals.Get(ctx, tx, c.Name)
	if isNotFound(err) {
		return nil
	}
	if _, used := other.Of(c.Project); err != nil || !used {
		return err
	}
	return &admission.Refusal{Kind: admission.Invalid, Diagnostics: spec.Diagnostics{{Code: spec.CodeBadValue, Path: "name",
		Text: fmt.Sprintf("%s is a registered cluster that project %s may use", c.Name, c.Project), Hint: "take another name"}}}
}

// who tells the projects of an external cluster, for the log of events.
func who(c externals.Cluster) string {
	names := each(c.Projects, func(p externals.Project) string { return p.Project })
	return cmp.Or(strings.Join(names, ", "), "nobody")
}

func (a *API) addExternalCluster(ctx context.Context, in *apiv1.AddExternalClusterInput) (*output[apiv1.ExternalCluster], error) {
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.ExternalCluster) error {
		c, err := said(ctx, tx, in.Body.Name, in.Body.ExternalClusterSpec)
		if err != nil {
			return err
		}
		if err := externals.Add(ctx, tx, c); err != nil {
			return err
		}
		tx.Log(core.Event{Type: "external_cluster.requested",
			Text: fmt.Sprintf("external cluster %s at %s for %s, by %s", c.Name, c.Login, who(c), identityOf(ctx))})
		return showExternal(ctx, tx, c.Name, out)
	})
}

func (a *API) changeExternalCluster(ctx context.Context,
	in *apiv1.ChangeExternalClusterInput) (*output[apiv1.ExternalCluster], error) {
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.ExternalCluster) error {
		c, err := said(ctx, tx, in.ExternalCluster, in.Body)
		if err != nil {
			return err
		}
		if err := externals.Change(ctx, tx, c); err != nil {
			return err
		}
		tx.Log(core.Event{Type: "external_cluster.requested",
			Text: fmt.Sprintf("external cluster %s: at %s for %s, by %s", c.Name, c.Login, who(c), identityOf(ctx))})
		return showExternal(ctx, tx, c.Name, out)
	})
}

func (a *API) removeExternalCluster(ctx context.Context, in *apiv1.ExternalClusterRef) (*output[apiv1.Nothing], error) {
	err := a.DB.Update(ctx, func(tx *core.Tx) error {
		tx.Log(core.Event{Type: "external_cluster.requested",
			Text: fmt.Sprintf("external cluster %s is forgotten, by %s", in.ExternalCluster, identityOf(ctx))})
		return externals.Remove(ctx, tx, in.ExternalCluster)
	})
	return nil, err
}

func (a *API) externalClusterAuthority(context.Context, *apiv1.Nothing) (*output[apiv1.ExternalClusterAuthority], error) {
	return &output[apiv1.ExternalClusterAuthority]{Body: apiv1.ExternalClusterAuthority{PublicKey: a.Authority.ExternalCA()}}, nil
}
