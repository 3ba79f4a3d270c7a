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
	"muster/internal/fabric"
	"muster/internal/fabric/topology"
	"muster/internal/store"
)

// FabricSpec is what operators say of a fabric.
type FabricSpec struct {
	Name     string            `json:"name" maxLength:"32" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"`
	Driver   string            `json:"driver" maxLength:"32" doc:"what tells its subnet manager" example:"opensm"`
	Config   map[string]string `json:"config,omitempty" doc:"what the driver is told; docs/fabrics.md lists it" maxProperties:"64"`
	Managers []fabric.GUID     `json:"managers" minItems:"1" maxItems:"64" doc:"ports of all that may manage the subnet"`
}

// Fabric is an InfiniBand fabric whose partitions Muster keeps.
type Fabric struct {
	FabricSpec
	Phase      store.Phase       `json:"phase" enum:"pending,ready,degraded,deleted" doc:"pending: not read yet; degraded: ports differ from what is wanted, or cannot be read"`
	Reason     string            `json:"reason,omitempty"`
	Since      time.Time         `json:"since"`
	Revision   int64             `json:"revision" doc:"of what is wanted"`
	Applied    int64             `json:"applied" doc:"the revision that its manager took last"`
	Seen       int64             `json:"seen" doc:"the revision that its manager had when all ports were read last"`
	SeenAt     time.Time         `json:"seen_at,omitzero" doc:"when that was"`
	SnapshotAt time.Time         `json:"snapshot_at,omitzero" doc:"when its cables were imported last"`
	Partitions []FabricPartition `json:"partitions" doc:"by key"`
	Ports      []FabricPort      `json:"ports" doc:"that are known, by GUID"`
}

// FabricPartition is a cluster's, or one of the site's own.
type FabricPartition struct {
	Key     fabric.Key     `json:"key"`
	Cluster string         `json:"cluster,omitempty"`
	Name    string         `json:"name,omitempty" doc:"of one of the site's own"`
	Open    bool           `json:"open,omitempty" doc:"all clusters' ports are limited members"`
	Ending  bool           `json:"ending,omitempty" doc:"it is there until its ports were seen without its key"`
	Members []FabricMember `json:"members"`
}

// FabricMember is a port in a partition.
type FabricMember struct {
	Port       fabric.GUID `json:"port"`
	Membership string      `json:"membership" enum:"full,limited"`
	Node       string      `json:"node,omitempty" doc:"ID"`
	Leaving    bool        `json:"leaving,omitempty" doc:"it is there until its port was seen without the key"`
}

// FabricPort is a port and what was seen of it.
type FabricPort struct {
	Port     fabric.GUID    `json:"port"`
	Adapter  fabric.GUID    `json:"adapter"`
	Name     string         `json:"name,omitempty" doc:"as its host calls itself; not believed"`
	Machine  string         `json:"machine,omitempty" doc:"whose it is"`
	Assigned bool           `json:"assigned,omitempty" doc:"because an operator says so"`
	Answers  bool           `json:"answers" doc:"it did when it was read last"`
	Entries  []fabric.Entry `json:"entries" doc:"of its table, as it last answered"`
	Capacity int            `json:"capacity,omitempty" doc:"of its table"`
}

// FabricDiff is what is wanted of a fabric beside what was seen.
type FabricDiff struct {
	Revision int64              `json:"revision" doc:"of what is wanted"`
	Applied  int64              `json:"applied" doc:"the revision that the manager took last"`
	SeenAt   time.Time          `json:"seen_at,omitzero" doc:"when the ports were read last"`
	Reason   string             `json:"reason,omitempty" doc:"why its manager was not told, or its ports cannot be read"`
	Ports    []FabricDifference `json:"ports" doc:"those that differ"`
}

// FabricDifference is how a port differs from what is wanted.
type FabricDifference struct {
	Port    fabric.GUID    `json:"port"`
	Machine string         `json:"machine,omitempty"`
	Surplus []fabric.Entry `json:"surplus,omitempty" doc:"it holds, and must not"`
	Missing []fabric.Entry `json:"missing,omitempty" doc:"it should hold"`
	Silent  bool           `json:"silent,omitempty" doc:"it does not answer, so that nothing is known of it"`
}

type fabricRef struct {
	Fabric string `path:"fabric" doc:"name" maxLength:"32"`
}

type fabricOutput struct{ Body Fabric }

// FabricPortRef is a port in a path.
type FabricPortRef struct {
	Fabric string `path:"fabric" doc:"name" maxLength:"32"`
	Port   guid   `path:"port" doc:"GUID"`
}

// guid is one in a path, where whatever is a number to Go would be read in decimal.
type guid struct{ fabric.GUID }

// FabricPartitionRef is a partition of the site's own in a path.
type FabricPartitionRef struct {
	Fabric    string `path:"fabric" doc:"name" maxLength:"32"`
	Partition string `path:"partition" doc:"name of one of the site's own" maxLength:"32" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"`
}

// longestSnapshot is that of a fabric with some ten thousand ports.
const longestSnapshot = 64 << 20

func (a *API) registerFabrics(api huma.API) {
	op := func(id, method, path, summary string, errors ...int) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{"fabrics"}, Errors: errors}
	}
	huma.Register(api, op("list-fabrics", http.MethodGet, "/v1/fabrics", "List the InfiniBand fabrics whose partitions are kept"), a.listFabrics)
	add := op("add-fabric", http.MethodPost, "/v1/fabrics", "Keep the partitions of a fabric", 409, 422)
	add.DefaultStatus = http.StatusCreated
	huma.Register(api, add, a.addFabric)
	huma.Register(api, op("get-fabric", http.MethodGet, "/v1/fabrics/{fabric}", "Show a fabric with its partitions and ports", 404), a.getFabric)
	huma.Register(api, op("remove-fabric", http.MethodDelete, "/v1/fabrics/{fabric}", "Stop keeping a fabric that no cluster is on", 404, 409), a.removeFabric)
	huma.Register(api, op("diff-fabric", http.MethodGet, "/v1/fabrics/{fabric}/diff", "Show how ports differ from what is wanted", 404), a.diffFabric)
	snapshot := op("import-fabric", http.MethodPut, "/v1/fabrics/{fabric}/snapshot", "Import a fabric's ports and cables", 404, 409, 422)
	snapshot.MaxBodyBytes = longestSnapshot
	huma.Register(api, snapshot, a.importFabric)
	huma.Register(api, op("put-fabric-partition", http.MethodPut, "/v1/fabrics/{fabric}/partitions/{partition}", "Make a partition of the site's own, or change who is in it", 404, 422), a.putPartition)
	huma.Register(api, op("remove-fabric-partition", http.MethodDelete, "/v1/fabrics/{fabric}/partitions/{partition}", "End a partition of the site's own", 404), a.removePartition)
	huma.Register(api, op("assign-fabric-port", http.MethodPut, "/v1/fabrics/{fabric}/ports/{port}", "Say whose machine's a port is", 404, 409, 422), a.assignPort)
	a.registerTopologies(api)
	huma.Register(api, op("forget-fabric-port", http.MethodDelete, "/v1/fabrics/{fabric}/ports/{port}", "Forget a port whose adapter is no more", 404, 409), a.forgetPort)
}

func (a *API) listFabrics(ctx context.Context, in *Page) (*listOutput[Fabric], error) {
	out := &listOutput[Fabric]{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		fabrics, err := tx.Fabrics(ctx)
		var all []Fabric
		for _, f := range fabrics {
			all = append(all, fabricView(f))
		}
		out.Body = pageOf(*in, all, func(f Fabric) string { return f.Name })
		return err
	})
	return out, a.tell(err, nil)
}

func fabricView(f store.Fabric) Fabric {
	if f.Desired == store.ToDelete {
		f.Reason = "it is no more kept, as soon as what is underway there has ended"
	}
	return Fabric{
		FabricSpec: FabricSpec{Name: f.Name, Driver: f.Driver, Config: f.Config, Managers: f.Managers}, Phase: f.Phase, Reason: f.Reason, Since: f.PhaseAt,
		Revision: f.Revision, Applied: f.Applied, Seen: f.Seen, SeenAt: f.SeenAt, Partitions: []FabricPartition{}, Ports: []FabricPort{},
	}
}

// wholeFabric is a fabric with its partitions and ports.
func wholeFabric(ctx context.Context, tx *store.Tx, name string) (Fabric, error) {
	f, err := tx.Fabric(ctx, name)
	if err != nil {
		return Fabric{}, err
	}
	view := fabricView(f)
	if _, view.SnapshotAt, err = tx.FabricSnapshot(ctx, f.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
		return view, err
	}
	partitions, err := tx.Partitions(ctx, f.ID)
	if err != nil {
		return view, err
	}
	for _, p := range partitions {
		to := FabricPartition{Key: p.Key, Cluster: p.Cluster, Name: p.Name, Open: p.Open, Ending: !p.Wanted, Members: []FabricMember{}}
		for _, m := range p.Members {
			to.Members = append(to.Members, FabricMember{m.GUID, membershipWord(m.Membership), m.NodeID, !m.Wanted})
		}
		view.Partitions = append(view.Partitions, to)
	}
	ports, err := tx.FabricPorts(ctx, f.ID)
	if err != nil {
		return view, err
	}
	seen, err := tx.PortsSeen(ctx, f.ID)
	for _, p := range ports {
		s := seen[p.GUID]
		view.Ports = append(view.Ports, FabricPort{p.GUID, p.Adapter, p.Name, p.Machine, p.Assigned, s.Answered, some(s.Entries), s.Capacity})
	}
	return view, err
}

func membershipWord(m fabric.Membership) string {
	if m == fabric.Full {
		return "full"
	}
	return "limited"
}

// onFabric changes a fabric and shows it as it is then.
func (a *API) onFabric(ctx context.Context, name, what string, act func(*store.Tx, store.Fabric) error) (*fabricOutput, error) {
	out := &fabricOutput{}
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		f, err := tx.Fabric(ctx, name)
		if err != nil {
			return err
		}
		if err := act(tx, f); err != nil {
			return err
		}
		tx.Log(store.Event{Type: "fabric.requested", Text: fmt.Sprintf("fabric %s: %s, by %s", f.Name, what, identityOf(ctx))})
		out.Body, err = wholeFabric(ctx, tx, f.ID)
		return err
	})
	return out, a.tell(err, nil)
}

func (a *API) addFabric(ctx context.Context, in *struct{ Body FabricSpec }) (*fabricOutput, error) {
	f := store.Fabric{ID: admission.NewID("f"), Name: in.Body.Name, Driver: in.Body.Driver, Config: in.Body.Config, Managers: in.Body.Managers, CreatedBy: identityOf(ctx)}
	if a.CheckFabric == nil {
		return nil, problem(http.StatusUnprocessableEntity, "invalid", "this controller has no drivers of fabrics", "")
	}
	if err := a.CheckFabric(f); err != nil {
		return nil, problem(http.StatusUnprocessableEntity, "invalid", fmt.Sprintf("fabric %s: %v", f.Name, err), "docs/fabrics.md lists what drivers are told")
	}
	if twice := firstTwice(f.Managers); twice != 0 {
		return nil, problem(http.StatusUnprocessableEntity, "invalid", fmt.Sprintf("fabric %s: manager %s is named twice", f.Name, twice), "name the port of each subnet manager once")
	}
	err := a.DB.Update(ctx, func(tx *store.Tx) error { return tx.AddFabric(ctx, f) })
	if err != nil {
		return nil, a.tell(err, nil)
	}
	return a.onFabric(ctx, f.Name, "its partitions are kept from now on", func(*store.Tx, store.Fabric) error { return nil })
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

func (a *API) getFabric(ctx context.Context, in *fabricRef) (*fabricOutput, error) {
	out := &fabricOutput{}
	err := a.DB.View(ctx, func(tx *store.Tx) (err error) {
		out.Body, err = wholeFabric(ctx, tx, in.Fabric)
		return err
	})
	return out, a.tell(err, nil)
}

func (a *API) removeFabric(ctx context.Context, in *fabricRef) (*struct{}, error) {
	_, err := a.onFabric(ctx, in.Fabric, "its partitions are no more kept", func(tx *store.Tx, f store.Fabric) error {
		if err := tx.WantFabricDeleted(ctx, f); err != nil {
			return err
		}
		return tx.DropTopology(ctx, f.Name)
	})
	return nil, err
}

func (a *API) diffFabric(ctx context.Context, in *fabricRef) (*struct{ Body FabricDiff }, error) {
	out := &struct{ Body FabricDiff }{FabricDiff{Ports: []FabricDifference{}}}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		f, err := tx.Fabric(ctx, in.Fabric)
		if err != nil {
			return err
		}
		partitions, err := tx.Partitions(ctx, f.ID)
		if err != nil {
			return err
		}
		seen, err := tx.PortsSeen(ctx, f.ID)
		if err != nil {
			return err
		}
		ports, err := tx.FabricPorts(ctx, f.ID)
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
		out.Body.Revision, out.Body.Applied, out.Body.SeenAt = f.Revision, f.Applied, f.SeenAt
		if f.Phase == store.Degraded && f.Attempts > 0 {
			out.Body.Reason = f.Reason
		}
		for _, d := range fabric.Compare(f.Intent(partitions), tables) {
			out.Body.Ports = append(out.Body.Ports, FabricDifference{d.Port, machines[d.Port], d.Surplus, d.Missing, d.Silent})
		}
		return nil
	})
	return out, a.tell(err, nil)
}

func (a *API) importFabric(ctx context.Context, in *struct {
	Fabric string `path:"fabric" doc:"name" maxLength:"32"`
	Body   struct {
		Snapshot string `json:"snapshot" doc:"what ibnetdiscover prints" maxLength:"67108864"`
	}
}) (*fabricOutput, error) {
	graph, err := topology.Parse(in.Body.Snapshot)
	if err != nil {
		return nil, problem(http.StatusUnprocessableEntity, "invalid", "snapshot: "+err.Error(), "it is what `ibnetdiscover` prints, unchanged")
	}
	var ports []store.FabricPort
	for _, p := range graph.Ports {
		if p.GUID != 0 {
			ports = append(ports, store.FabricPort{GUID: p.GUID, Adapter: p.Adapter, Number: p.Rail, Name: p.Host})
		}
	}
	return a.onFabric(ctx, in.Fabric, "a snapshot is imported, "+graph.String(), func(tx *store.Tx, f store.Fabric) error {
		if err := tx.PutPorts(ctx, f.ID, ports, in.Body.Snapshot); err != nil {
			return err
		}
		return tx.SetTopology(ctx, f.Name, graph)
	})
}

func (a *API) putPartition(ctx context.Context, in *struct {
	FabricPartitionRef
	Body struct {
		Open    bool           `json:"open,omitempty" doc:"all clusters' ports are limited members: they reach its full members, and not each other"`
		Members []FabricMember `json:"members" maxItems:"10000"`
	}
}) (*fabricOutput, error) {
	members := map[fabric.GUID]fabric.Membership{}
	for _, m := range in.Body.Members {
		as := fabric.Limited
		if m.Membership == "full" {
			as = fabric.Full
		}
		members[m.Port] = as
	}
	return a.onFabric(ctx, in.Fabric, fmt.Sprintf("partition %s with %d members", in.Partition, len(members)), func(tx *store.Tx, f store.Fabric) error {
		for _, m := range in.Body.Members {
			if err := a.onPort(ctx, tx, f, m.Port); err != nil { // nobody would ever see it without the key
				return err
			}
		}
		err := tx.PutSitePartition(ctx, f, in.Partition, in.Body.Open, members)
		if full := (*store.TableFull)(nil); errors.As(err, &full) {
			return problem(http.StatusConflict, "conflict", full.Error(), "end partitions of the site's own that are not needed, or clusters there")
		}
		return err
	})
}

func (a *API) removePartition(ctx context.Context, in *FabricPartitionRef) (*struct{}, error) {
	_, err := a.onFabric(ctx, in.Fabric, "partition "+in.Partition+" ends", func(tx *store.Tx, f store.Fabric) error {
		return tx.RemoveSitePartition(ctx, f, in.Partition)
	})
	return nil, err
}

func (a *API) assignPort(ctx context.Context, in *struct {
	FabricPortRef
	Body struct {
		Machine string `json:"machine" maxLength:"63" doc:"its name; empty: nobody's"`
	}
}) (*fabricOutput, error) {
	return a.onFabric(ctx, in.Fabric, fmt.Sprintf("port %s is that of machine %s", in.Port, in.Body.Machine), func(tx *store.Tx, f store.Fabric) error {
		if err := a.onPort(ctx, tx, f, in.Port.GUID); err != nil {
			return err
		}
		id := ""
		if in.Body.Machine != "" {
			m, err := tx.Machine(ctx, in.Body.Machine)
			if err != nil {
				return err
			}
			if m.Host != "" {
				return problem(http.StatusUnprocessableEntity, "invalid", fmt.Sprintf("machine %s is a guest of %s, which has the port", m.Name, m.HostName), "name "+m.HostName)
			}
			if m.Holder != "" {
				return problem(http.StatusConflict, "conflict", fmt.Sprintf("machine %s is in use by %s, whose cluster would not have the port", m.Name, m.HolderName), "say it when the machine is free")
			}
			id = m.ID
		}
		return tx.GivePort(ctx, in.Port.GUID, id, id != "")
	})
}

func (a *API) forgetPort(ctx context.Context, in *FabricPortRef) (*struct{}, error) {
	_, err := a.onFabric(ctx, in.Fabric, fmt.Sprintf("port %s is forgotten", in.Port), func(tx *store.Tx, f store.Fabric) error {
		if err := a.onPort(ctx, tx, f, in.Port.GUID); err != nil {
			return err
		}
		return tx.ForgetPort(ctx, in.Port.GUID)
	})
	return nil, err
}

// onPort checks that a port is on a fabric.
func (a *API) onPort(ctx context.Context, tx *store.Tx, f store.Fabric, port fabric.GUID) error {
	ports, err := tx.FabricPorts(ctx, f.ID)
	if err == nil && !slices.ContainsFunc(ports, func(p store.FabricPort) bool { return p.GUID == port }) {
		err = problem(http.StatusNotFound, "not-found", fmt.Sprintf("port %s is not on fabric %s", port, f.Name), "`muster fabric get "+f.Name+"` shows its ports; `muster fabric import` adds some")
	}
	return err
}

// portViews are a machine's ports with what was seen of them, and the clusters whose keys they are to have.
func portViews(ctx context.Context, tx *store.Tx, machine string) ([]MachinePort, error) {
	mine, err := tx.MachinePorts(ctx, machine)
	if err != nil || len(mine) == 0 {
		return nil, err
	}
	fabrics, err := tx.Fabrics(ctx)
	if err != nil {
		return nil, err
	}
	var ports []MachinePort
	for _, f := range fabrics {
		seen, err := tx.PortsSeen(ctx, f.ID)
		if err != nil {
			return nil, err
		}
		for _, p := range mine {
			if s := seen[p.GUID]; p.Fabric == f.ID {
				ports = append(ports, MachinePort{f.Name, p.GUID, s.Answered, some(s.Entries), s.Capacity})
			}
		}
	}
	return ports, nil
}

// MachinePort is a port of a machine on a fabric.
type MachinePort struct {
	Fabric   string         `json:"fabric"`
	Port     fabric.GUID    `json:"port"`
	Answers  bool           `json:"answers"`
	Entries  []fabric.Entry `json:"entries" doc:"of its partition table, as it last answered"`
	Capacity int            `json:"capacity,omitempty"`
}
