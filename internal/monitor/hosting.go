package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"muster/internal/core"
	"muster/internal/identity"
	"muster/internal/kinds/authority"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kit/lists"
	"muster/internal/protocol"
)

// hosting answers a hypervisor with all that it is to hold, as soon as that is newer than what it knows.
func (m *Monitor) hosting(w http.ResponseWriter, r *http.Request, who identity.Agent) {
	after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if err != nil {
		http.Error(w, "after must be a revision", http.StatusBadRequest)
		return
	}
	ctx := r.Context()
	// From here on it counts as one that holds guests: what it is told it may make before it says so.
	err = m.db.Update(ctx, func(tx *core.Tx) error {
		if _, err := hostBoot(ctx, tx, who); err != nil {
			return err
		}
		return host.MarkSeen(ctx, tx, who.Node, who.Boot)
	})
	var what protocol.Hosting
	if err == nil {
		what, err = m.hostingOf(ctx, who)
	}
	if err == nil && what.Revision <= after {
		waiting, cancel := context.WithTimeout(ctx, longPoll)
		defer cancel()
		if !m.notifier.waitHost(waiting, who.Node, after) {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		what, err = m.hostingOf(ctx, who)
	}
	m.answer(w, r, what, err)
}

// hostBoot is the boot of a hypervisor, if it is the one that its agent is of and goes on.
func hostBoot(ctx context.Context, tx *core.Tx, who identity.Agent) (machine.Boot, error) {
	boot, err := ownBoot(ctx, tx, who)
	if err == nil && boot.File.Duty != protocol.Host {
		err = errRefused
	}
	return boot, err
}

// hostingOf composes what one hypervisor is to hold, from one snapshot.
func (m *Monitor) hostingOf(ctx context.Context, who identity.Agent) (protocol.Hosting, error) {
	what := protocol.Hosting{Networks: []protocol.HostedNetwork{}, Images: []protocol.HostedImage{},
		Guests: []protocol.HostedGuest{}}
	networks, images := map[string]bool{}, map[string]bool{}
	err := m.db.View(ctx, func(tx *core.Tx) error {
		if _, err := hostBoot(ctx, tx, who); err != nil {
			return err
		}
		revision, all, err := host.HostedOn(ctx, tx, who.Node)
		if err != nil {
			return err
		}
		what.Revision = revision
		ways, err := host.MigrationsAt(ctx, tx, who.Node)
		if err != nil {
			return err
		}
		comes := func(g protocol.HostedGuest) error {
			images[g.Image] = true
			if networks[g.Cluster] {
				return nil
			}
			networks[g.Cluster] = true
			cluster, err := cluster.Get(ctx, tx, g.Cluster)
			what.Networks = append(what.Networks, protocol.HostedNetwork{Cluster: cluster.ID, Segment: cluster.Segment})
			return err
		}
		left := map[string]bool{}
		for _, a := range ways {
			move, told, err := moveOf(ctx, tx, a, who.Node)
			if err == nil && told {
				what.Moves = append(what.Moves, move)
				err = comes(a.Guest)
			}
			if err != nil {
				return err
			}
			left[a.Node] = a.Source.Host == who.Node && !a.Kept
		}
		for _, g := range all {
			if left[g.Guest.Node] {
				continue
			}
			g.Guest.File.Authority = m.authority.AgentsPEM()
			g.Guest.File.Token = m.authority.Token(g.Guest.Node, g.Guest.Boot)
			what.Guests = append(what.Guests, g.Guest)
			if err := comes(g.Guest); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return what, err
	}
	for digest := range images {
		files, err := m.Images.BootFiles(digest)
		if err != nil { // the guests that boot it fail by that, and no others
			m.log.Error("a hypervisor cannot be told of an image", "machine", who.Node, "image", digest, "error", err)
			continue
		}
		what.Images = append(what.Images, protocol.HostedImage{Digest: digest, Root: files.Root, Kernel: files.Kernel,
			Drivers: files.Drivers})
	}
	return what, nil
}

// moveOf is a move as one of its hosts is told of it, if it is.
func moveOf(ctx context.Context, tx *core.Tx, a host.Migration, hostID string) (m protocol.HostedMove, told bool, err error) {
	own, other := a.Source, a.Target
	if a.Target.Host == hostID {
		own, other = a.Target, a.Source
	}
	if own.Does == "" {
		return m, false, nil
	}
	m = protocol.HostedMove{Guest: a.Guest, Number: a.Number, Step: a.Step, Do: own.Does, Description: a.Description,
		Address: a.Address, Peer: other.Host}
	seen, err := host.SeenOf(ctx, tx, other.Host)
	if errors.Is(err, core.ErrNotFound) { // it is off, and will not be spoken to
		err = nil
	}
	m.PeerBoot = seen.Boot
	return m, true, err
}

// hosted writes down what a hypervisor says that there is.
func (m *Monitor) hosted(w http.ResponseWriter, r *http.Request, who identity.Agent) {
	var report protocol.HostReport
	if !m.read(w, r, bodyLimit, &report) {
		return
	}
	report.Boot = who.Boot // the certificate knows better
	reply, err := m.recordHosted(r.Context(), who, report, m.authority.LivesBy(r.TLS))
	m.answer(w, r, reply, err)
}

func (m *Monitor) recordHosted(ctx context.Context, who identity.Agent, report protocol.HostReport,
	lives int64) (protocol.ReportReply, error) {
	reply := protocol.ReportReply{Every: heartbeat}
	err := m.db.Update(ctx, func(tx *core.Tx) error {
		boot, err := hostBoot(ctx, tx, who)
		if err != nil {
			return err
		}
		if m.authority.Several(identity.Agents) {
			if err := authority.RaiseTrust(ctx, tx, who.Node, who.Boot, lives); err != nil {
				return err
			}
		}
		if boot.Detail == machine.AskedAgain { // not this machine, which lives
			if _, err := machine.MarkBoot(ctx, tx, who.Node, who.Boot, protocol.StepAgent, ""); err != nil {
				return err
			}
		}
		before, err := host.SeenOf(ctx, tx, who.Node)
		if err != nil && !errors.Is(err, core.ErrNotFound) {
			return err
		}
		for _, text := range strange(before, report) {
			tx.Log(core.Event{Type: "machine.warning", Machine: boot.File.Name, Text: text})
		}
		if err := host.SaveReport(ctx, tx, who.Node, report); err != nil {
			return err
		}
		var all []host.Hosted
		if reply.Revision, all, err = host.HostedOn(ctx, tx, who.Node); err != nil {
			return err
		}
		nodes := lists.SetBy(all, func(g host.Hosted) string { return g.Guest.Node })
		ways, err := host.MigrationsAt(ctx, tx, who.Node)
		if err != nil {
			return err
		}
		for _, a := range ways {
			nodes[a.Node] = true
		}
		for nodeID := range nodes {
			if changed(before, report, nodeID) {
				tx.Wake(node.Kind, nodeID)
			}
		}
		if before.Report == nil || before.Report.Trouble != report.Trouble || !maps.Equal(before.Report.Lost, report.Lost) {
			tx.Wake(machine.Kind, who.Node)
		}
		return nil
	})
	return reply, err
}

// strange are what a hypervisor newly says of InfiniBand partitions that guests saw, or lack.
func strange(before host.Seen, now protocol.HostReport) (words []string) {
	for _, address := range slices.Sorted(maps.Keys(now.Partitions)) {
		what := now.Partitions[address]
		if before.Report == nil || before.Report.Partitions[address] != what {
			words = append(words, fmt.Sprintf("virtual function %s: %s", address, what))
		}
	}
	return words
}

// changed says whether a hypervisor says something else of a node than before.
func changed(before host.Seen, now protocol.HostReport, node string) bool {
	of := func(r protocol.HostReport) (found []string) {
		add := func(about string, said any) {
			if about == node {
				text, _ := json.Marshal(said)
				found = append(found, string(text))
			}
		}
		for _, s := range r.Guests {
			add(s.Node, s)
		}
		for _, s := range r.Moves {
			add(s.Node, s)
		}
		slices.Sort(found)
		return found
	}
	return before.Report == nil || !slices.Equal(of(*before.Report), of(now))
}
