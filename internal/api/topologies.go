package api

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apiv1 "muster/api/v1"
	"muster/internal/admission"
	"muster/internal/core"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/place/topology"
)

func (a *API) listTopologies(ctx context.Context, in *apiv1.Page) (*output[apiv1.List[apiv1.Topology]], error) {
	return viewed(core.Apart(ctx), a, func(tx *core.Tx, out *apiv1.List[apiv1.Topology]) error {
		all, err := topologies(ctx, tx)
		*out = pageOf(*in, all, func(t apiv1.Topology) string { return t.Fabric })
		return err
	})
}

func topologies(ctx context.Context, tx *core.Tx) ([]apiv1.Topology, error) {
	known, err := admission.Topologies(ctx, tx)
	var all []apiv1.Topology
	for _, k := range known {
		t := apiv1.Topology{Fabric: k.Fabric, TakenAt: k.TakenAt, Summary: k.Graph.String(), Leaves: []apiv1.Leaf{}}
		for i, p := range k.Map.Places {
			t.Leaves = append(t.Leaves, apiv1.Leaf{Name: p.Name, Cables: p.Up, Machines: some(k.Machines[i])})
		}
		g := k.Graph
		t.Switches = some(each(g.Switches, func(s topology.Switch) apiv1.TopologySwitch {
			return apiv1.TopologySwitch{ID: s.ID, Name: s.String(), Ports: []string{}}
		}))
		for _, p := range g.Ports {
			on := &t.Switches[p.Switch]
			on.Ports = append(on.Ports, p.String())
		}
		t.Links = some(each(g.Links, func(l topology.Link) apiv1.TopologyLink {
			return apiv1.TopologyLink{A: g.Switches[l.A].ID, B: g.Switches[l.B].ID, Cables: l.Count}
		}))
		all = append(all, t)
	}
	return all, err
}

func (a *API) putTopology(ctx context.Context, in *apiv1.PutTopologyInput) (*output[apiv1.Topology], error) {
	graph, err := topology.Read(in.Body.Snapshot)
	if err != nil {
		return nil, invalid("snapshot: "+err.Error(),
			"give the unchanged output of `ibnetdiscover`, or of `lldpctl -f keyvalue` after lines machine=NAME")
	}
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Topology) error {
		if err := notKept(ctx, tx, in.Fabric); err != nil {
			return err
		}
		if err := fabrics.SetTopology(ctx, tx, in.Fabric, graph); err != nil {
			return err
		}
		tx.Log(core.Event{Type: "topology.imported", Text: fmt.Sprintf("fabric %s: %s, by %s", in.Fabric, graph,
			identityOf(ctx))})
		all, err := topologies(ctx, tx)
		for _, t := range all {
			if t.Fabric == in.Fabric {
				*out = t
			}
		}
		return err
	})
}

// notKept refuses a fabric whose partitions are kept: its ports and its cables come from the same snapshot.
func notKept(ctx context.Context, tx *core.Tx, name string) error {
	f, err := fabrics.Get(ctx, tx, name)
	if errors.Is(err, core.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return conflict("the partitions of fabric "+f.Name+
		" are kept, and its cables are known from the same snapshot", "`muster fabric import "+f.Name+" FILE` imports both")
}

func (a *API) removeTopology(ctx context.Context, in *apiv1.RemoveTopologyInput) (*output[apiv1.Nothing], error) {
	err := a.DB.Update(ctx, func(tx *core.Tx) error {
		if err := notKept(ctx, tx, in.Fabric); err != nil {
			return err
		}
		known, err := fabrics.Topology(ctx, tx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(known, func(c fabrics.Cabling) bool { return c.Fabric == in.Fabric }) {
			return notFound("of fabric "+in.Fabric+" no cables are known",
				"`muster fabric cables list` shows of which they are")
		}
		return fabrics.DropTopology(ctx, tx, in.Fabric)
	})
	return nil, err
}
