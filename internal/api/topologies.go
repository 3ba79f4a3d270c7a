package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muster/internal/admission"
	"muster/internal/fabric/topology"
	"muster/internal/store"
)

// Topology is where machines are in a fabric, by its last snapshot.
type Topology struct {
	Fabric  string    `json:"fabric"`
	TakenAt time.Time `json:"taken_at" doc:"when it was imported"`
	Summary string    `json:"summary" doc:"how large it is"`
	Leaves  []Leaf    `json:"leaves" doc:"those with machines of the inventory, by name"`
}

// Leaf is a switch, or all leaves of machines with several rails, and who hangs on it.
type Leaf struct {
	Name     string   `json:"name"`
	Cables   int      `json:"cables,omitempty" doc:"to other switches; 0: not known"`
	Machines []string `json:"machines"`
}

type topologyOutput struct{ Body Topology }

func (a *API) registerTopologies(api huma.API) {
	op := func(id, method, path, summary string, errors ...int) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{"fabrics"}, Errors: errors}
	}
	huma.Register(api, op("list-topologies", http.MethodGet, "/v1/topologies", "List how fabrics are cabled and where machines are in them"), a.listTopologies)
	put := op("put-topology", http.MethodPut, "/v1/topologies/{fabric}", "Import how a fabric is cabled, for placement alone", 409, 422)
	put.MaxBodyBytes = longestSnapshot
	huma.Register(api, put, a.putTopology)
	huma.Register(api, op("remove-topology", http.MethodDelete, "/v1/topologies/{fabric}", "Forget how a fabric is cabled", 404, 409), a.removeTopology)
}

func (a *API) listTopologies(ctx context.Context, in *Page) (*listOutput[Topology], error) {
	out := &listOutput[Topology]{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		all, err := topologies(ctx, tx)
		out.Body = pageOf(*in, all, func(t Topology) string { return t.Fabric })
		return err
	})
	return out, a.tell(err, nil)
}

func topologies(ctx context.Context, tx *store.Tx) ([]Topology, error) {
	known, err := admission.Terrains(ctx, tx)
	var all []Topology
	for _, k := range known {
		t := Topology{Fabric: k.Fabric, TakenAt: k.TakenAt, Summary: k.Graph.String(), Leaves: []Leaf{}}
		for i, p := range k.Map.Places {
			t.Leaves = append(t.Leaves, Leaf{Name: p.Name, Cables: p.Up, Machines: k.Machines[i]})
		}
		all = append(all, t)
	}
	return all, err
}

func (a *API) putTopology(ctx context.Context, in *struct {
	Fabric string `path:"fabric" doc:"name; of none whose partitions are kept" maxLength:"32" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"`
	Body   struct {
		Snapshot string `json:"snapshot" doc:"what ibnetdiscover prints, or lldpctl -f keyvalue on machines, each after a line machine=NAME" maxLength:"67108864"`
	}
}) (*topologyOutput, error) {
	graph, err := topology.Read(in.Body.Snapshot)
	if err != nil {
		return nil, problem(http.StatusUnprocessableEntity, "invalid", "snapshot: "+err.Error(), "it is what `ibnetdiscover` prints, or `lldpctl -f keyvalue` after lines machine=NAME, unchanged")
	}
	out := &topologyOutput{}
	err = a.DB.Update(ctx, func(tx *store.Tx) error {
		if err := notKept(ctx, tx, in.Fabric); err != nil {
			return err
		}
		if err := tx.SetTopology(ctx, in.Fabric, graph); err != nil {
			return err
		}
		tx.Log(store.Event{Type: "topology.imported", Text: fmt.Sprintf("fabric %s: %s, by %s", in.Fabric, graph, identityOf(ctx))})
		all, err := topologies(ctx, tx)
		for _, t := range all {
			if t.Fabric == in.Fabric {
				out.Body = t
			}
		}
		return err
	})
	return out, a.tell(err, nil)
}

// notKept refuses a fabric whose partitions are kept: its ports and its cables come from the same snapshot.
func notKept(ctx context.Context, tx *store.Tx, name string) error {
	f, err := tx.Fabric(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return problem(http.StatusConflict, "conflict", "the partitions of fabric "+f.Name+" are kept, and its cables are known from the same snapshot", "`muster fabric import "+f.Name+" FILE` imports both")
}

func (a *API) removeTopology(ctx context.Context, in *struct {
	Fabric string `path:"fabric" doc:"name" maxLength:"32"`
}) (*struct{}, error) {
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		if err := notKept(ctx, tx, in.Fabric); err != nil {
			return err
		}
		known, err := tx.Topology(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(known, func(c store.Cabling) bool { return c.Fabric == in.Fabric }) {
			return problem(http.StatusNotFound, "not-found", "of fabric "+in.Fabric+" no cables are known", "`muster fabric cables list` shows of which they are")
		}
		return tx.DropTopology(ctx, in.Fabric)
	})
	return nil, a.tell(err, nil)
}
