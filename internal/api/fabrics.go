package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/fabric"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/machine"
	"muster/internal/place/topology"
)

func (a *API) listFabrics(ctx context.Context, in *apiv1.Page) (*output[apiv1.List[apiv1.Fabric]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Fabric]) error {
		all, err := fabrics.List(ctx, tx)
		*out = pagedAs(*in, all, func(f fabrics.Fabric) string { return f.Name }, fabricView)
		return err
	})
}

func fabricView(f fabrics.Fabric) apiv1.Fabric {
	if f.Desired == core.ToDelete {
		f.Reason = "it is no longer managed, once what is under way there has ended"
	}
	return apiv1.Fabric{
		FabricSpec: apiv1.FabricSpec{Name: f.Name, Driver: f.Driver, Config: f.Config, Managers: spelled(f.Managers)},
		Phase:      apiv1.Phase(f.Phase), Reason: f.Reason, Since: f.PhaseAt,
		Revision: f.Revision, Applied: f.Applied, Seen: f.Seen, SeenAt: f.SeenAt, Partitions: []apiv1.FabricPartition{},
		Ports: []apiv1.FabricPort{},
	}
}

// wholeFabric is a fabric with its partitions and ports.
func wholeFabric(ctx context.Context, tx *core.Tx, name string) (apiv1.Fabric, error) {
	f, err := fabrics.Get(ctx, tx, name)
	if err != nil {
		return apiv1.Fabric{}, err
	}
	view := fabricView(f)
	if _, view.SnapshotAt, err = fabrics.Snapshot(ctx, tx, f.ID); err != nil && !errors.Is(err, core.ErrNotFound) {
		return view, err
	}
	partitions, err := fabrics.Partitions(ctx, tx, f.ID)
	if err != nil {
		return view, err
	}
	view.Partitions = some(each(partitions, partitionView))
	ports, err := fabrics.Ports(ctx, tx, f.ID)
	if err != nil {
		return view, err
	}
	seen, err := fabrics.PortsSeen(ctx, tx, f.ID)
	for _, p := range ports {
		s := seen[p.GUID]
		view.Ports = append(view.Ports, apiv1.FabricPort{Port: p.GUID.String(), Adapter: p.Adapter.String(), Name: p.Name,
			Machine: p.Machine, Assigned: p.Assigned, Answers: s.Answered, Entries: some(spelled(s.Entries)),
			Capacity: s.Capacity})
	}
	return view, err
}

func partitionView(p fabrics.Partition) apiv1.FabricPartition {
	return apiv1.FabricPartition{Key: p.Key.String(), Cluster: p.Cluster, Name: p.Name, Open: p.Open, Ending: !p.Wanted,
		Members: some(each(p.Members, func(m fabrics.Member) apiv1.FabricMember {
			return apiv1.FabricMember{Port: m.GUID.String(), Membership: membershipWord(m.Membership), Node: m.NodeID,
				Leaving: !m.Wanted}
		}))}
}

func membershipWord(m fabric.Membership) string {
	if m == fabric.Full {
		return "full"
	}
	return "limited"
}

// onFabric changes a fabric and shows it as it is then.
func (a *API) onFabric(ctx context.Context, name, what string, act func(*core.Tx, fabrics.Fabric) error) (*output[apiv1.Fabric],
	error) {
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Fabric) error {
		f, err := fabrics.Get(ctx, tx, name)
		if err != nil {
			return err
		}
		if err := act(tx, f); err != nil {
			return err
		}
		tx.Log(core.Event{Type: "fabric.requested", Text: fmt.Sprintf("fabric %s: %s, by %s", f.Name, what, identityOf(ctx))})
		*out, err = wholeFabric(ctx, tx, f.ID)
		return err
	})
}

func (a *API) addFabric(ctx context.Context, in *apiv1.AddFabricInput) (*output[apiv1.Fabric], error) {
	f := fabrics.Fabric{ID: core.NewID("f"), Name: in.Body.Name, Driver: in.Body.Driver, Config: in.Body.Config,
		CreatedBy: identityOf(ctx)}
	for _, manager := range in.Body.Managers {
		port, err := guidOf("managers", manager)
		if err != nil {
			return nil, err
		}
		f.Managers = append(f.Managers, port)
	}
	if a.CheckFabric == nil {
		return nil, invalid("this controller has no drivers of fabrics", "")
	}
	if err := a.CheckFabric(f); err != nil {
		return nil, invalid(fmt.Sprintf("fabric %s: %v", f.Name, err), "docs/fabrics.md lists what drivers are told")
	}
	if twice := firstTwice(f.Managers); twice != 0 {
		return nil, invalid(fmt.Sprintf("fabric %s: manager %s is named twice", f.Name, twice),
			"name the port of each subnet manager once")
	}
	err := a.DB.Update(ctx, func(tx *core.Tx) error { return fabrics.Add(ctx, tx, f) })
	if err != nil {
		return nil, err
	}
	return a.onFabric(ctx, f.Name, "its partitions are kept from now on", func(*core.Tx, fabrics.Fabric) error { return nil })
}

// firstTwice is the first port that is in a list more than once; 0 if none is.
func firstTwice(ports []fabric.GUID) fabric.GUID {
	for i, p := range ports {
		if slices.Contains(ports[:i], p) {
			return p
		}
	}
	return 0
}

func (a *API) getFabric(ctx context.Context, in *apiv1.FabricRef) (*output[apiv1.Fabric], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.Fabric) (err error) {
		*out, err = wholeFabric(ctx, tx, in.Fabric)
		return err
	})
}

func (a *API) removeFabric(ctx context.Context, in *apiv1.FabricRef) (*output[apiv1.Nothing], error) {
	_, err := a.onFabric(ctx, in.Fabric, "its partitions are no longer managed", func(tx *core.Tx, f fabrics.Fabric) error {
		if err := fabrics.WantDeleted(ctx, tx, f); err != nil {
			return err
		}
		return fabrics.DropTopology(ctx, tx, f.Name)
	})
	return nil, err
}

func (a *API) diffFabric(ctx context.Context, in *apiv1.FabricRef) (*output[apiv1.FabricDiff], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.FabricDiff) error {
		*out = apiv1.FabricDiff{Ports: []apiv1.FabricDifference{}}
		f, err := fabrics.Get(ctx, tx, in.Fabric)
		if err != nil {
			return err
		}
		partitions, err := fabrics.Partitions(ctx, tx, f.ID)
		if err != nil {
			return err
		}
		seen, err := fabrics.PortsSeen(ctx, tx, f.ID)
		if err != nil {
			return err
		}
		ports, err := fabrics.Ports(ctx, tx, f.ID)
		if err != nil {
			return err
		}
		machines := map[fabric.GUID]string{}
		for _, p := range ports {
			machines[p.GUID] = p.Machine
		}
		tables := fabric.Tables{}
		for guid, p := range seen {
			if p.Answered {
				tables[guid] = fabric.Port{Entries: p.Entries, Capacity: p.Capacity}
			}
		}
		out.Revision, out.Applied, out.SeenAt = f.Revision, f.Applied, f.SeenAt
		if f.Phase == core.Degraded && f.Attempts > 0 {
			out.Reason = f.Reason
		}
		for _, d := range fabric.Compare(f.Intent(partitions), tables) {
			out.Ports = append(out.Ports, apiv1.FabricDifference{Port: d.Port.String(), Machine: machines[d.Port],
				Surplus: spelled(d.Surplus), Missing: spelled(d.Missing), Silent: d.Silent})
		}
		return nil
	})
}

func (a *API) importFabric(ctx context.Context, in *apiv1.ImportFabricInput) (*output[apiv1.Fabric], error) {
	graph, err := topology.Parse(in.Body.Snapshot)
	if err != nil {
		return nil, invalid("snapshot: "+err.Error(), "give the unchanged output of `ibnetdiscover`")
	}
	var ports []fabrics.Port
	for _, p := range graph.Ports {
		if p.GUID != 0 {
			ports = append(ports, fabrics.Port{GUID: p.GUID, Adapter: p.Adapter, Number: p.Rail, Name: p.Host})
		}
	}
	return a.onFabric(ctx, in.Fabric, "a snapshot is imported, "+graph.String(), func(tx *core.Tx, f fabrics.Fabric) error {
		if err := fabrics.PutPorts(ctx, tx, f.ID, ports, in.Body.Snapshot); err != nil {
			return err
		}
		return fabrics.SetTopology(ctx, tx, f.Name, graph)
	})
}

func (a *API) putPartition(ctx context.Context, in *apiv1.PutFabricPartitionInput) (*output[apiv1.Fabric], error) {
	members := map[fabric.GUID]fabric.Membership{}
	for _, m := range in.Body.Members {
		as := fabric.Limited
		if m.Membership == "full" {
			as = fabric.Full
		}
		port, err := guidOf("members", m.Port)
		if err != nil {
			return nil, err
		}
		members[port] = as
	}
	return a.onFabric(ctx, in.Fabric, fmt.Sprintf("partition %s with %d members", in.Partition, len(members)),
		func(tx *core.Tx, f fabrics.Fabric) error {
			for _, port := range slices.Sorted(maps.Keys(members)) {
				if err := a.onPort(ctx, tx, f, port); err != nil { // it would never be seen without the key
					return err
				}
			}
			err := fabrics.PutSitePartition(ctx, tx, f, in.Partition, in.Body.Open, members)
			if full := (*fabrics.TableFull)(nil); errors.As(err, &full) {
				return conflict(full.Error(), "end partitions of the site's own that are not needed, or clusters there")
			}
			return err
		})
}

func (a *API) removePartition(ctx context.Context, in *apiv1.FabricPartitionRef) (*output[apiv1.Nothing], error) {
	_, err := a.onFabric(ctx, in.Fabric, "partition "+in.Partition+" ends", func(tx *core.Tx, f fabrics.Fabric) error {
		return fabrics.RemoveSitePartition(ctx, tx, f, in.Partition)
	})
	return nil, err
}

func (a *API) assignPort(ctx context.Context, in *apiv1.AssignFabricPortInput) (*output[apiv1.Fabric], error) {
	port, err := guidOf("port", in.Port)
	if err != nil {
		return nil, err
	}
	return a.onFabric(ctx, in.Fabric, fmt.Sprintf("port %s belongs to machine %s", port, in.Body.Machine),
		func(tx *core.Tx, f fabrics.Fabric) error {
			if err := a.onPort(ctx, tx, f, port); err != nil {
				return err
			}
			id := ""
			if in.Body.Machine != "" {
				m, err := machine.Get(ctx, tx, in.Body.Machine)
				if err != nil {
					return err
				}
				if m.IsGuest() {
					return invalid(fmt.Sprintf("machine %s is a guest of %s, which has the port", m.Name, m.HostName),
						"name "+m.HostName)
				}
				if m.Holder != "" {
					return conflict(fmt.Sprintf("machine %s is in use by %s, whose cluster would not have the port", m.Name,
						m.HolderName),
						"say it when the machine is free")
				}
				id = m.ID
			}
			return fabrics.GivePort(ctx, tx, port, id, id != "")
		})
}

func (a *API) forgetPort(ctx context.Context, in *apiv1.FabricPortRef) (*output[apiv1.Nothing], error) {
	port, err := guidOf("port", in.Port)
	if err != nil {
		return nil, err
	}
	_, err = a.onFabric(ctx, in.Fabric, fmt.Sprintf("port %s is removed", port), func(tx *core.Tx, f fabrics.Fabric) error {
		if err := a.onPort(ctx, tx, f, port); err != nil {
			return err
		}
		return fabrics.ForgetPort(ctx, tx, port)
	})
	return nil, err
}

// guidOf reads the GUID of a port from a field of a request.
func guidOf(field, text string) (fabric.GUID, error) {
	port, err := fabric.ParseGUID(text)
	if err != nil {
		return 0, invalid(fmt.Sprintf("%s: %v", field, err), "")
	}
	return port, nil
}

// spelled are GUIDs or entries as the API writes them.
func spelled[T fmt.Stringer](all []T) []string { return each(all, T.String) }

// onPort checks that a port is on a fabric.
func (a *API) onPort(ctx context.Context, tx *core.Tx, f fabrics.Fabric, port fabric.GUID) error {
	on, err := fabrics.FabricOf(ctx, tx, port)
	if err == nil && on != f.ID {
		err = notFound(fmt.Sprintf("port %s is not on fabric %s", port, f.Name),
			"`muster fabric get "+f.Name+"` shows its ports; `muster fabric import` adds some")
	}
	return err
}

// portViews are a machine's ports with what was seen of them, and the clusters whose keys they are to have.
func portViews(ctx context.Context, tx *core.Tx, machine string) ([]apiv1.MachinePort, error) {
	mine, err := fabrics.MachinePorts(ctx, tx, machine)
	if err != nil || len(mine) == 0 {
		return nil, err
	}
	all, err := fabrics.List(ctx, tx)
	if err != nil {
		return nil, err
	}
	seen, err := fabrics.MachinePortsSeen(ctx, tx, machine)
	if err != nil {
		return nil, err
	}
	var ports []apiv1.MachinePort
	for _, f := range all {
		for _, p := range mine {
			if s := seen[p.GUID]; p.Fabric == f.ID {
				ports = append(ports, apiv1.MachinePort{Fabric: f.Name, Port: p.GUID.String(), Answers: s.Answered,
					Entries: some(spelled(s.Entries)), Capacity: s.Capacity})
			}
		}
	}
	return ports, nil
}
