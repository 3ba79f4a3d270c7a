package remote

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"

	"muster/internal/drivers/substrate"
	"muster/internal/kit/wrap"
	"muster/internal/place"
	"muster/internal/protocol"
)

// Guest is a node's boot in the words of the protocol. How often it was tried is the ledger's to say.
func Guest(n substrate.Node) (protocol.HostedGuest, error) {
	g := protocol.HostedGuest{
		Cluster: n.Cluster, Node: n.Node, Boot: n.Boot, Name: n.Name, Machine: n.Machine, Address: n.Address.String(),
		MAC:   n.MAC.String(),
		Image: n.Image, CPUs: n.CPUs, MemoryMiB: n.MemoryMiB, Keys: n.Keys.Words(), File: n.File,
	}
	var err error
	if n.Allocation != nil {
		g.Allocation, err = json.Marshal(n.Allocation)
	}
	if err == nil {
		g.Asked, err = json.Marshal(n.Asked)
	}
	return g, wrap.Errorf(err, "describe node %s to its hypervisor", n.Node)
}

// Node is the inverse: what a hypervisor's driver is to make.
func Node(g protocol.HostedGuest) (substrate.Node, error) {
	n := substrate.Node{
		Ref: substrate.Ref{Cluster: g.Cluster, Node: g.Node, Boot: g.Boot}, Name: g.Name, Machine: g.Machine,
		Image: g.Image, CPUs: g.CPUs, MemoryMiB: g.MemoryMiB, File: g.File,
	}
	var err error
	if n.Address, err = netip.ParsePrefix(g.Address); err == nil {
		n.MAC, err = net.ParseMAC(g.MAC)
	}
	if err == nil && len(g.Allocation) > 0 {
		n.Allocation = new(place.Allocation)
		err = json.Unmarshal(g.Allocation, n.Allocation)
	}
	if err == nil && len(g.Asked) > 0 {
		err = json.Unmarshal(g.Asked, &n.Asked)
	}
	if err == nil {
		n.Keys, err = substrate.ReadPortKeys(g.Keys)
	}
	return n, wrap.Errorf(err, "guest of node %s", g.Node)
}

// State is what a hypervisor's driver observes of a boot, in the words of the protocol.
func State(r substrate.Ref, o substrate.Observation) (protocol.HostedState, error) {
	s := protocol.HostedState{
		Cluster: r.Cluster, Node: r.Node, Boot: r.Boot, Present: o.Present, Running: o.Running, CPU: o.Limits.CPU,
		Memory: o.Limits.Memory, Detail: o.Detail,
	}
	if o.Present {
		s.Boot = o.Boot
	}
	var err error
	if o.Allocation != nil {
		s.Allocation, err = json.Marshal(o.Allocation)
	}
	return s, err
}

// Seen is the inverse: what is observed where a hypervisor says this.
func Seen(s protocol.HostedState) (substrate.Observation, error) {
	if !s.Present {
		return substrate.Observation{}, nil
	}
	o := substrate.Observation{
		Present: true, Running: s.Running, Boot: s.Boot, Limits: substrate.Limits{CPU: s.CPU, Memory: s.Memory}, Detail: s.Detail,
	}
	if len(s.Allocation) > 0 && string(s.Allocation) != "null" {
		o.Allocation = new(place.Allocation)
		if err := json.Unmarshal(s.Allocation, o.Allocation); err != nil {
			return o, fmt.Errorf("what it says that node %s holds: %w", s.Node, err)
		}
	}
	return o, nil
}
