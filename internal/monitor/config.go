package monitor

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/identity"
	"muster/internal/kinds/cluster"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kinds/person"
	"muster/internal/kit/lists"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// config answers with the node's desired state as soon as it is newer than what the agent has.
func (m *Monitor) config(w http.ResponseWriter, r *http.Request, who identity.Agent) {
	after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if err != nil {
		http.Error(w, "after must be a revision", http.StatusBadRequest)
		return
	}
	ctx := r.Context()
	key := who.Node
	if after == 0 { // as a head asks before it has nodes removed
		key += " first"
	}
	if after == 0 || after < m.told.revision(who) {
		if over := m.again.More(key, time.Now()); over != nil {
			tooMuch(w, over)
			return
		}
	}
	config, self, err := m.configOf(ctx, who, after)
	if err == nil && config == nil {
		waiting, cancel := context.WithTimeout(ctx, longPoll)
		defer cancel()
		if m.notifier.wait(waiting, self, after-self.News) {
			config, _, err = m.configOf(ctx, who, after)
		}
	}
	if err == nil && config == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if err == nil && after > 0 {
		m.told.set(who, config.Revision)
	}
	m.answer(w, r, config, err)
}

// told remembers which revision each agent was told last as it followed them: to ask for an older one again reads a cluster for
// nothing, which an agent whose answer was lost does a few times.
type told struct {
	mu sync.Mutex
	of map[identity.Agent]int64
}

func (t *told) revision(who identity.Agent) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[who]
}

func (t *told) set(who identity.Agent, revision int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil || len(t.of) >= mostOrigins {
		t.of = map[identity.Agent]int64{}
	}
	t.of[who] = revision
}

// configOf composes what one node has to be, from one snapshot; nil if its revision is not above after. A cluster's nodes all
// ask again when they have heard: only what is new is worth reading a cluster for.
func (m *Monitor) configOf(ctx context.Context, who identity.Agent, after int64) (config *protocol.Config, self node.Node,
	err error) {
	err = m.db.View(ctx, func(tx *core.Tx) error {
		config = nil // it may be called again
		if m.Refresh != nil {
			if err := m.Refresh(ctx, tx); err != nil {
				return err
			}
		}
		if self, err = node.Get(ctx, tx, who.Node); err != nil {
			return err
		}
		if _, err := wanted(ctx, tx, self, who); err != nil {
			return err
		}
		cluster, err := cluster.Get(ctx, tx, self.Cluster)
		if err != nil {
			return err
		}
		revision := cluster.Revision + self.News
		if revision <= after {
			return nil
		}
		nodes, err := node.Of(ctx, tx, self.Cluster)
		if err != nil {
			return err
		}
		sizes, err := machine.Under(ctx, tx, self.Cluster)
		if err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		c := &protocol.Config{
			Revision: revision, Cluster: cluster.Name, ClusterID: cluster.ID, Stamp: m.authority.Stamp(),
			Self:       m.peer(cluster, self, sizes[self.MachineID], sizes[self.HostID], now),
			Network:    substrate.Gateway().Masked().String(),
			SharedCPUs: !m.Substrates.Of(sizes[self.MachineID].Substrate).OwnCPUs,
			Gateway: protocol.Neighbour{Address: substrate.Gateway().Addr().String(),
				MAC: substrate.MAC(cluster.Segment, substrate.GatewaySlot).String()},
			Account: cluster.Project, Accounting: cluster.Spec.Accounting, QOS: qosOf(cluster.Spec),
			Shares: sharesOf(cluster.Spec),
			SSH:    protocol.SSH{UserCA: m.authority.UserCA(), HostCA: m.authority.HostCA()},
		}
		known := m.Schedulers.Of(cluster.Spec.Scheduler())
		if c.Scheduler = known.Name; known.Caps.Credential.Bytes > 0 {
			if c.Credential, err = tx.Reveal(ctx, cluster.Credential); err != nil {
				return err
			}
		}
		if self.Boot == 1 && cluster.Snapshot == "" { // a snapshot may hold a scheduler's state
			earlier, err := node.HadNode(ctx, tx, self)
			if err != nil {
				return err
			}
			c.First = !earlier
		}
		for _, n := range nodes {
			c.ExportHome = c.ExportHome || self.Role == protocol.Head && m.elsewhere(n, sizes[n.MachineID])
			between := n.Renew && n.Phase == node.Attaching && n.Role == protocol.Compute // boots: its scheduler is to forget it
			if n.Phase != core.Failed && n.Phase != core.Releasing && !between {
				c.Peers = append(c.Peers, m.peer(cluster, n, sizes[n.MachineID], sizes[n.HostID], now))
			}
		}
		c.Test = testOf(self, nodes, c.SharedCPUs)
		for i, q := range cluster.Spec.Queues {
			queue := protocol.Queue{Name: q.Name, Default: i == 0, Most: *q.Max}
			if q.VM != nil {
				queue.CPUs, queue.MemoryMiB = q.VM.CPUs, spec.MiB(q.VM.Memory)
			}
			c.Queues = append(c.Queues, queue)
		}
		for _, n := range nodes { // those of queues that are no more
			known := slices.ContainsFunc(c.Queues, func(q protocol.Queue) bool { return q.Name == n.Queue })
			if n.Role == protocol.Compute && !known {
				c.Queues = append(c.Queues, protocol.Queue{Name: n.Queue, Closed: true})
			}
		}
		c.Pause = pauseStep(cluster, self)
		if c.Tasks, err = tasksOf(ctx, tx, self); err != nil {
			return err
		}
		ports, err := fabrics.NodePorts(ctx, tx, self.ID)
		if err != nil {
			return err
		}
		c.Partitions = partitionsOf(ports)
		if m.Mail != nil && self.Role == protocol.Head {
			c.MailTo = m.Mail.Domains
		}
		hooks, err := person.HooksOf(ctx, tx, cluster.Project)
		if err != nil {
			return err
		}
		c.Hooks = protocol.Hooks(hooks)
		c.Users, err = usersOf(ctx, tx, cluster)
		config = c
		return err
	})
	return config, self, err
}

// partitionsOf are the keys that a node's ports are to hold.
func partitionsOf(ports []fabrics.NodePort) map[string]uint16 {
	var keys map[string]uint16
	for _, p := range ports {
		if !p.Wanted {
			continue
		}
		if keys == nil {
			keys = map[string]uint16{}
		}
		keys[p.GUID.String()] = uint16(p.Key)
	}
	return keys
}

// usersOf are those who may log in to a cluster, with their keys.
func usersOf(ctx context.Context, tx *core.Tx, c cluster.Cluster) ([]protocol.User, error) {
	members, err := person.Memberships(ctx, tx, c.Project, "")
	if err != nil {
		return nil, err
	}
	users, roles := []protocol.User{}, access.Rules()[access.Enter].Roles
	for _, m := range members {
		if m.Disabled || !slices.Contains(roles, m.Role) || !c.Admits(m.Person) {
			continue
		}
		keys, err := person.Keys(ctx, tx, m.Person)
		if err != nil {
			return nil, err
		}
		lines := lists.Map(keys, func(k person.Key) string { return k.Line })
		users = append(users, protocol.User{Name: m.Person, UID: m.UID, Keys: lines})
	}
	return users, nil
}

func (m *Monitor) peer(c cluster.Cluster, n node.Node, on, host machine.Machine, now time.Time) protocol.Peer {
	caps := m.Substrates.Of(on.Substrate)
	draining := n.Desired == node.Absent || n.Renew && n.Role == protocol.Compute
	fails := ""
	if n.Phase == core.Ready && n.Role == protocol.Compute && !draining {
		fails = n.Seen.Fails(n.Boot)
	}
	return protocol.Peer{
		Name: n.Name, Address: address(n), MAC: substrate.MAC(c.Segment, n.Slot).String(), Role: n.Role, Queue: n.Queue,
		CPUs: on.Facts.CPUs, MemoryMiB: on.Facts.MemoryMiB, GPUs: gpusOf(caps, on, host), Leaf: n.Leaf, LeafNumber: n.LeafNumber,
		Ready:   n.Phase == core.Ready && !draining && fails == "",
		OwnCPUs: caps.OwnCPUs,
		Mounts:  n.Role == protocol.Compute && m.elsewhere(n, on),
		Drain:   draining || fails != "", DrainKill: draining && !n.DrainUntil.IsZero() && now.After(n.DrainUntil),
		Fails: fails,
	}
}

// elsewhere says whether a node is not on this host: what is there by itself on this one comes to it over the network.
func (m *Monitor) elsewhere(n node.Node, on machine.Machine) bool {
	return n.MachineID != "" && !m.Substrates.Of(on.Substrate).OnHost
}

// pauseStep is what a head has to do now for its cluster's pause.
func pauseStep(c cluster.Cluster, n node.Node) protocol.PauseStep {
	switch {
	case n.Role == protocol.Head && n.Renew && n.Phase == node.Draining:
		return protocol.PauseHalt
	case n.Role != protocol.Head || c.Phase != cluster.Pausing:
		return ""
	case n.Desired == node.Absent && c.KeepsMemory:
		return protocol.PauseSleep
	case n.Desired == node.Absent:
		return protocol.PauseHalt
	case c.KeepsMemory: // what jobs have done is in it
		return ""
	}
	return protocol.PauseBegins
}

// hostNames are the names that a node's SSH host certificate is good for: those inside its cluster, and those by which
// people reach it through a gateway. The zone is no domain of the world's, so that no cluster's name can be another host's.
func hostNames(c cluster.Cluster, n node.Node) []string {
	const zone = ".muster"
	long := c.Name + "." + c.Project
	names := []string{n.Name, n.Name + "." + c.Name, address(n), n.Name + "." + long, n.Name + "." + c.Name + zone,
		n.Name + "." + long + zone}
	if n.Role == protocol.Head {
		names = append(names, c.Name+zone, long+zone)
	}
	return names
}

func address(n node.Node) string { return substrate.Address(n.Slot).Addr().String() }

// sharesOf are those of a cluster's users, as its head is told.
func sharesOf(c spec.Cluster) map[string]int {
	shares := map[string]int{}
	for _, s := range c.Shares {
		shares[s.User] = s.Share
	}
	return shares
}

// qosOf are a cluster's QOS, as its head is told.
func qosOf(c spec.Cluster) []protocol.QOS {
	var all []protocol.QOS
	for _, q := range c.QOS {
		told := protocol.QOS{Name: q.Name, Priority: q.Priority, Nodes: q.MaxNodes,
			Minutes: int(spec.Duration(q.MaxTime).Minutes())}
		if u := q.PerUser; u != nil {
			told.UserCPUs, told.UserNodes, told.UserJobs, told.UserSubmitted = u.CPUs, u.Nodes, u.Jobs, u.Submitted
		}
		all = append(all, told)
	}
	return all
}
