package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muster/internal/access"
	"muster/internal/environment/images"
	"muster/internal/store"
)

// Class is a name for machines alike, with what there is of it.
type Class struct {
	Name     string   `json:"name"`
	Select   []string `json:"select" doc:"conditions on a machine's facts; all must hold"`
	Price    string   `json:"price,omitempty" doc:"per node and hour"`
	Machines int      `json:"machines"`
	Free     int      `json:"free" doc:"of hypervisors: those with room for one more node of the usual size"`
	Default  string   `json:"default,omitempty" doc:"what it is the default of: queues, head"`
}

// Image is an environment that nodes can boot.
type Image struct {
	Name    string    `json:"name"`
	Digest  string    `json:"digest"`
	Arch    string    `json:"arch"`
	Size    int64     `json:"size" doc:"bytes"`
	Created time.Time `json:"created"`
	Summary string    `json:"summary,omitempty"`
	Drivers []string  `json:"drivers" doc:"of GPUs and HCAs, that it carries"`
}

// Site is what the controller says of itself.
type Site struct {
	Site     string `json:"site"`
	Version  string `json:"version"`
	Identity string `json:"identity" doc:"who the token says you are"`
	Operator bool   `json:"operator,omitempty" doc:"you run the site"`
	Project  string `json:"project,omitempty" doc:"that clusters of yours are in whose file names none; absent: name one"`

	Roles     map[string]access.Role `json:"roles" doc:"what you are, by project"`
	Token     string                 `json:"token" doc:"ID of the token that you hold"`
	Scope     access.Scope           `json:"scope" enum:"all,read" doc:"read: the token changes nothing and enters nowhere"`
	Only      string                 `json:"only,omitempty" doc:"the one project that the token is for"`
	ExpiresAt time.Time              `json:"expires_at,omitzero" doc:"when the token ends"`
	Web       *Web                   `json:"web,omitempty" doc:"the door for web apps, if there is one"`
}

func (a *API) registerCatalogue(api huma.API) {
	tags := []string{"catalogue"}
	op := func(id, path, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: tags}
	}
	huma.Register(api, op("list-classes", "/v1/classes", "List the site's classes"), a.listClasses)
	huma.Register(api, op("list-images", "/v1/images", "List images"), a.listImages)
	huma.Register(api, op("get-site", "/v1/site", "Show the site and who you are"), func(ctx context.Context, _ *struct{}) (*struct{ Body Site }, error) {
		catalogue, caller := a.Admission.Catalogue, callerOf(ctx)
		site := Site{Site: catalogue.Site, Version: a.Version, Identity: caller.Name, Operator: caller.Operator, Project: usual(caller, catalogue.Project),
			Roles: map[string]access.Role{}, Token: caller.Token, Scope: caller.Scope, Only: caller.Project, ExpiresAt: caller.Until, Web: a.webView()}
		for _, project := range caller.Projects() {
			site.Roles[project] = caller.Roles[project]
		}
		return &struct{ Body Site }{site}, nil
	})
}

func (a *API) listClasses(ctx context.Context, in *Page) (*listOutput[Class], error) {
	out := &listOutput[Class]{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		machines, err := tx.Machines(ctx)
		if err != nil {
			return err
		}
		var all []Class
		catalogue := a.Admission.Catalogue
		for _, class := range catalogue.Classes {
			view := Class{Name: class.Name, Price: class.Price.String(), Select: []string{}}
			for _, condition := range class.Select {
				view.Select = append(view.Select, condition.String())
			}
			roomy := map[string]bool{}
			if class.Hypervisor {
				roomy = a.Admission.Roomy(class, machines)
			}
			for _, m := range machines {
				if class.Has(m.Machine) && m.Host == "" && (m.Hosts == class.Hypervisor || m.Network != "") { // what boots by itself may be either
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
		slices.SortFunc(all, func(a, b Class) int { return strings.Compare(a.Name, b.Name) })
		out.Body = pageOf(*in, all, func(c Class) string { return c.Name })
		return nil
	})
	return out, a.tell(err, nil)
}

func (a *API) listImages(_ context.Context, in *Page) (*listOutput[Image], error) {
	all, err := a.Images.List()
	if err != nil {
		return nil, a.tell(err, nil)
	}
	key := func(m images.Image) string { return m.Name + "@" + m.Digest }
	slices.SortFunc(all, func(a, b images.Image) int { return strings.Compare(key(a), key(b)) })
	cut := pageOf(*in, all, key)
	out := &listOutput[Image]{List[Image]{Items: []Image{}, Next: cut.Next}}
	for _, m := range cut.Items {
		out.Body.Items = append(out.Body.Items, Image{m.Name, m.Digest, m.Arch, m.Size, m.Created, m.Summary, some(m.Carries)})
	}
	return out, nil
}
