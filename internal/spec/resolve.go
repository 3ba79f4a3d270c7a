package spec

import (
	"cmp"
	"fmt"
	"slices"
)

// Defaults are what the site's catalogue says for what a file leaves out.
type Defaults struct {
	Project string
	Site    string
	Image   string
	Class   string // of queues
	// Classes are of queues by their file's isolation, where that has one of its own; "": it has, and the site has no such class.
	Classes map[string]string
	// Undivided are the values of isolation with which no node is a part of a machine.
	Undivided []string
	// Shapes are those of virtual nodes whose file gives none, by class.
	Shapes    map[string]VM
	HeadClass string
	LeaseFor  string // "" for leases without an end
	HomeSize  string // "" for none
}

// Resolve fills in all that the file leaves out and spells out its short forms: what `muster expand` prints, and what is
// kept of a cluster. To resolve the result again changes nothing. The Cluster may also come from a program: an error is
// Diagnostics, without places until Document.Locate adds them.
func Resolve(c Cluster, d Defaults) (Cluster, error) {
	var missing Diagnostics
	pick := func(path, written, standard string) string {
		if written == "" && standard == "" {
			missing = append(missing, Diagnostic{Code: CodeMissingField, Path: path,
				Text: "is missing, and the site has no default for it",
				Hint: "write " + lastStep(path) + ": NAME"})
		}
		return cmp.Or(written, standard)
	}

	c.Project = pick("project", c.Project, d.Project)
	if len(c.Site) == 0 {
		c.Site = []string{pick("site", "", d.Site)}
	}
	c.Isolation = cmp.Or(c.Isolation, defaultIsolation)
	c.Image = pick("image", c.Image, d.Image)
	c.Boot = cmp.Or(c.Boot, BootMemory)
	var update Update
	if c.Update != nil {
		update = *c.Update
	}
	update.MaxUnavailable = cmp.Or(update.MaxUnavailable, defaultUnavailable)
	c.Update = &update
	class, own := d.Classes[c.Isolation]
	if !own {
		class = d.Class
	}
	var head Head
	if c.Head != nil {
		head = *c.Head
	}
	head.Class = pick("head.class", head.Class, d.HeadClass)
	c.Head = &head

	if c.Nodes != 0 && len(c.Queues) == 0 {
		c.Queues = []Queue{{Name: MainQueue, Nodes: new(c.Nodes)}}
		c.Nodes = 0
	}
	c.Queues = slices.Clone(c.Queues) // the caller keeps its own
	for i := range c.Queues {
		q := &c.Queues[i]
		q.Class = pick(fmt.Sprintf("queues[%d].class", i), q.Class, class)
		q.Placement = cmp.Or(q.Placement, defaultPlacement)
		q.VM = d.shape(*q, c.Isolation)
		if q.Nodes != nil && q.Min == nil && q.Max == nil {
			q.Min, q.Max, q.Nodes = new(*q.Nodes), new(*q.Nodes), nil
		}
		if q.Min == nil && q.Nodes == nil {
			q.Min = new(0)
		}
		if q.Min != nil && q.Max != nil && *q.Min < *q.Max {
			q.IdleAfter = cmp.Or(q.IdleAfter, defaultIdleAfter)
		}
	}
	var lease Lease
	if c.Lease != nil {
		lease = *c.Lease
	}
	c.Lease = &Lease{Start: cmp.Or(lease.Start, Now), For: cmp.Or(lease.For, d.LeaseFor), OnEnd: cmp.Or(lease.OnEnd, OnEndPause)}
	if c.Storage = slices.Clone(c.Storage); len(c.Storage) == 0 {
		c.Storage = []Storage{{Mount: homeMount}}
	}
	for i := range c.Storage {
		if c.Storage[i].Mount == homeMount {
			c.Storage[i].Size = cmp.Or(c.Storage[i].Size, d.HomeSize)
		}
	}
	if c.Access != nil {
		access := *c.Access
		access.OnLogin, access.Apps = cmp.Or(access.OnLogin, OnLoginStay), slices.Clone(access.Apps)
		for i := range access.Apps {
			access.Apps[i].Node = cmp.Or(access.Apps[i].Node, defaultAppNode)
		}
		c.Access = &access
	}
	var software Software
	if c.Software != nil {
		software = *c.Software
	}
	software.Scheduler = cmp.Or(software.Scheduler, SchedulerSlurm)
	c.Software = &software
	if c.Budget != nil {
		c.Budget = &Budget{Limit: c.Budget.Limit, OnLimit: cmp.Or(c.Budget.OnLimit, defaultOnLimit)}
	}
	if len(missing) > 0 {
		return Cluster{}, missing
	}
	return readBack(c)
}

// shape is the part of a machine that nodes of a queue get; nil where none of its classes has such nodes.
func (d Defaults) shape(q Queue, isolation string) *VM {
	vm := q.VM
	for _, class := range q.Classes() {
		if shape, known := d.Shapes[class]; known && vm == nil && !slices.Contains(d.Undivided, isolation) {
			vm = &shape
		}
	}
	if vm == nil || vm.Devices == nil {
		return vm
	}
	placed := *vm
	placed.Locality = cmp.Or(vm.Locality, defaultLocality)
	return &placed
}

// readBack holds a Cluster to every rule of a file by writing it as one.
func readBack(c Cluster) (Cluster, error) {
	doc, err := Parse("", Render(c))
	if ds, bad := err.(Diagnostics); bad {
		for i := range ds {
			ds[i].Line, ds[i].Col = 0, 0 // places in a text that no user has seen
		}
		return Cluster{}, ds
	}
	return doc.Cluster, nil
}

func lastStep(path string) string {
	_, key := splitPattern(path)
	return key
}
