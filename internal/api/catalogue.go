package api

import (
	"cmp"
	"context"
	"slices"
	"strings"

	apiv1 "muster/api/v1"
	"muster/internal/boot/images"
	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/kit/lists"
)

func (a *API) getSite(ctx context.Context, _ *apiv1.Nothing) (*output[apiv1.Site], error) {
	catalogue, caller := a.Admission.Catalogue, callerOf(ctx)
	site := apiv1.Site{Site: catalogue.Site, Version: a.Version, Identity: caller.Name, Operator: caller.Operator,
		Project: usual(caller, catalogue.Project),
		Roles:   map[string]apiv1.Role{}, Token: caller.Token, Scope: apiv1.Scope(caller.Scope), Only: caller.Project,
		ExpiresAt: caller.Until,
		Web:       a.webView()}
	for _, project := range caller.Projects() {
		site.Roles[project] = apiv1.Role(caller.Roles[project])
	}
	return &output[apiv1.Site]{Body: site}, nil
}

func (a *API) listClasses(ctx context.Context, in *apiv1.Page) (*output[apiv1.List[apiv1.Class]], error) {
	return viewed(core.Apart(ctx), a, func(tx *core.Tx, out *apiv1.List[apiv1.Class]) error {
		machines, err := machine.List(ctx, tx)
		if err != nil {
			return err
		}
		var all []apiv1.Class
		catalogue := a.Admission.Catalogue
		for _, class := range catalogue.Classes {
			view := apiv1.Class{Name: class.Name, Price: class.Price.String(),
				Select: some(each(class.Select, inventory.Condition.String))}
			roomy := map[string]bool{}
			if class.Hypervisor {
				roomy = a.Admission.Roomy(class, machines)
			}
			for _, m := range machines {
				// what boots by itself may be either
				if class.Has(m.Machine) && !m.IsGuest() && (m.Hosts == class.Hypervisor || m.BootsFromNetwork()) {
					view.Machines++
					if !class.Hypervisor && m.Free() || roomy[m.ID] {
						view.Free++
					}
				}
			}
			var defaults []string
			if class.Name == catalogue.Class {
				defaults = append(defaults, "queues")
			}
			if class.Name == catalogue.Head {
				defaults = append(defaults, "head")
			}
			view.Default = strings.Join(defaults, ", ")
			all = append(all, view)
		}
		slices.SortFunc(all, func(a, b apiv1.Class) int { return strings.Compare(a.Name, b.Name) })
		*out = pageOf(*in, all, func(c apiv1.Class) string { return c.Name })
		return nil
	})
}

// mostUsers is how many clusters are named that use an image.
const mostUsers = 100

func (a *API) listImages(ctx context.Context, in *apiv1.Page) (*output[apiv1.List[apiv1.Image]], error) {
	all, err := a.Images.List()
	if err != nil {
		return nil, err
	}
	clusters, err := core.Look(ctx, a.DB, func(tx *core.Tx) ([]cluster.Cluster, error) { return cluster.List(ctx, tx, "") })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(clusters, func(a, b cluster.Cluster) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Name, b.Name))
	})
	usedBy := map[string][]string{}
	for _, c := range clusters {
		for digest := range lists.Set([]string{c.Image, c.Rollout.Good.Image}) {
			if sees(ctx, c.Project) && len(usedBy[digest]) < mostUsers {
				usedBy[digest] = append(usedBy[digest], c.Project+"/"+c.Name)
			}
		}
	}
	key := func(m images.Image) string { return m.Name + "@" + m.Digest }
	slices.SortFunc(all, func(a, b images.Image) int { return strings.Compare(key(a), key(b)) })
	page := pagedAs(*in, all, key, func(m images.Image) apiv1.Image {
		return apiv1.Image{Name: m.Name, Digest: m.Digest, Arch: m.Arch, Size: m.Size, Created: m.Created, Summary: m.Summary,
			Drivers: some(m.Carries), UsedBy: some(usedBy[m.Digest])}
	})
	return &output[apiv1.List[apiv1.Image]]{Body: page}, nil
}
