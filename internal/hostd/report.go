package hostd

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/remote"
	"muster/internal/protocol"
)

const (
	reportEvery = 5 * time.Second        // until the controller says otherwise
	reportRetry = 250 * time.Millisecond // after a failed report; doubles up to reportEvery
)

// tell reports until ctx ends, or until the controller refuses to hear more.
func (h *host) tell(ctx context.Context) error {
	every, retry := reportEvery, reportRetry
	var said protocol.HostReport
	var due time.Time // of the next report, whatever there is to say
	failing := false
	for {
		report, ready := h.report()
		wait := time.Until(due)
		if ready && (wait <= 0 || !failing && !reflect.DeepEqual(report, said)) {
			reply, err := h.Controller.Hosted(ctx, report)
			switch {
			case ctx.Err() != nil:
				return nil
			case h.Refused != nil && errors.Is(err, h.Refused):
				return err
			case err != nil:
				if !failing {
					h.say("%v; trying on", err)
				}
				wait, retry = retry, min(2*retry, reportEvery)
			default:
				said, retry = report, reportRetry
				if reply.Every > 0 {
					every = reply.Every
				}
				wait = every
				h.poll.Newest(reply.Revision)
			}
			failing, due = err != nil, time.Now().Add(wait)
		}
		unsaid := h.unsaid
		if failing {
			unsaid = nil // a change does not shorten the pause
		}
		timer := time.NewTimer(max(wait, 10*time.Millisecond))
		select {
		case <-timer.C:
		case <-unsaid:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		timer.Stop()
	}
}

// report is what there is; false while that has not been seen.
func (h *host) report() (r protocol.HostReport, ready bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r = protocol.HostReport{
		Boot: h.Boot, Emulates: h.emulates, Networks: slices.Clone(h.networks), Lost: maps.Clone(h.lost),
		Partitions: maps.Clone(h.strange), Trouble: h.Trouble, Guests: []protocol.HostedState{}, Moves: h.movedOn(),
	}
	if h.wanted != nil {
		r.Revision = h.wanted.Revision
	}
	ready = h.looked || h.Trouble != ""
	for _, g := range h.guests {
		r.Guests = append(r.Guests, g.state())
		// A guest that the agent has not tried to look at would be taken for one that has ended. One that cannot be looked at is
		// told as that: it does not keep the host from telling of the others.
		ready = ready && (g.known || g.making > 0 || g.blind != "")
	}
	slices.SortFunc(r.Guests, func(a, b protocol.HostedState) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Node, b.Node))
	})
	return r, ready
}

// state is the guest as it is told of. The caller has the lock.
func (g *guest) state() protocol.HostedState {
	// numbers and names: it cannot fail
	s, _ := remote.State(substrate.Ref{Cluster: g.cluster, Node: g.node, Boot: g.making}, g.seen)
	s.Detail, s.Doing = cmp.Or(g.stuck, g.blind, s.Detail), g.doing
	if !g.known && g.making == 0 && g.blind != "" {
		s.Unseen, s.Boot = true, max(s.Boot, g.there)
	}
	if w := g.want; w != nil && g.over.Boot == w.Boot {
		s.Try, s.Bytes, s.Refused, s.NoRoom, s.Gone, s.Failed = g.over.Try, g.over.Bytes, g.over.Refused, g.over.NoRoom,
			g.over.Gone, g.over.Failed
		if !g.seen.Present {
			s.Boot = w.Boot
		}
	}
	return s
}
