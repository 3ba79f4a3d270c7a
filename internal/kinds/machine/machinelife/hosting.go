package machinelife

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kit/words"
)

// Hypervisors that are machines of their own. A whole machine becomes one when guests are placed on it: it is reserved for them,
// boots the hypervisor image, and is in use until its last guest has left and it was idle for a while. Then it is switched off,
// seen off, inspected and erased as after any node, and is a whole machine again. No operator asks for either: see
// docs/decisions/hypervisors.md.

// hostLooks is how often a hypervisor is looked at while no change of it is expected.
const hostLooks = 10 * time.Second

// heardFactor is how many times longer than a host's agent may be silent while its guests are heard: then it is the agent that
// ails, and to switch the machine off would end nodes that work. So it is while guests sleep there: that would end them, and no
// user waits for them now.
const heardFactor = 10

// hostView is a machine's part of being a hypervisor elsewhere.
type hostView struct {
	seen     *host.Seen // nil: its agent is not there
	heard    bool       // some guest on it was heard lately
	sleeps   bool       // some guest on it sleeps, or is about to, or wakes
	left     time.Time  // when its last guest left; zero: none ever has
	listened time.Time  // since then agents of its network are heard without a gap
	alarmed  bool       // so many are, or were, silent there at once that an alarm is, or was, raised
	// of its network; only once the host has been silent for a while, since it is every node's there
	failureDomain life.FailureDomain
}

func (w Handlers) loadHost(ctx context.Context, tx *core.Tx, m machine.Machine) (hostView, error) {
	var h hostView
	seen, err := host.SeenOf(ctx, tx, m.ID)
	if err == nil {
		h.seen = &seen
	} else if !errors.Is(err, core.ErrNotFound) {
		return h, err
	}
	if h.left, err = host.LeftAt(ctx, tx, m.ID); err != nil {
		return h, err
	}
	if h.listened, err = host.ListenedSince(ctx, tx, m.Network); err != nil {
		return h, err
	}
	if h.alarmed, err = host.Alarmed(ctx, tx, m.Network); err != nil {
		return h, err
	}
	limits := w.Providers[m.Substrate].Limits
	now, err := tx.Now(ctx)
	if err != nil {
		return h, err
	}
	if h.seen != nil && now.Sub(life.Later(h.seen.At, h.listened)) >= limits.Silence/2 {
		if h.failureDomain, err = w.FailureDomain(ctx, tx, m.Network, "", limits); err != nil {
			return h, err
		}
	}
	if h.sleeps, err = node.SleepsOn(ctx, tx, m.ID); err != nil {
		return h, err
	}
	h.heard, err = host.GuestsHeard(ctx, tx, m.ID, limits.Silence/2)
	return h, err
}

// becomeHost begins the boot of a machine on which guests were placed. From here on its disks may hold what is a tenant's.
func (m machineView) becomeHost() core.Outcome {
	return core.Advance(machine.Reserved, "becomes a hypervisor, for %s", words.Count(m.guests, "guest")).
		With(func(ctx context.Context, tx *core.Tx) error {
			if err := machine.MarkDirty(ctx, tx, m.ID); err != nil {
				return err
			}
			return machine.StartInspection(ctx, tx, m.ID, false)
		})
}

// hostStarts takes the machine to where its agent has reported. That is the end of it, or the deadline is.
func (w Handlers) hostStarts(ctx context.Context, m machineView) core.Outcome {
	provider := w.Providers[m.Substrate]
	switch {
	case m.QuarantineReason != "":
		return m.endHost("%s", m.QuarantineReason)
	case m.guests == 0:
		return m.endIdle("its guests have gone before it began")
	case m.host.seen != nil && m.host.seen.Boot == m.Boot && m.host.seen.Report != nil:
		return core.Advance(machine.InUse, "is a hypervisor").With(m.wakeGuests)
	case m.now.After(w.inspectionDeadline(m)):
		return m.hostAgain(fmt.Sprintf("did not become a hypervisor within %s", provider.Limits.Inspection))
	}
	doing, stuck, err := provider.HypervisorBooter.Host(ctx, m.Machine.Machine, m.Boot)
	switch {
	case errors.Is(err, substrate.ErrUnderway):
		return core.WaitFor(inspectionLooks, "%s", err)
	case err != nil:
		return core.Retry(err)
	case stuck != "":
		return m.hostAgain(stuck)
	}
	return core.WaitFor(inspectionLooks, "becomes a hypervisor: %s", doing)
}

// hostAgain boots the machine once more before it is given up, and with it the guests that are to come.
func (m machineView) hostAgain(why string) core.Outcome {
	if m.Tries >= inspectionTries {
		return m.suspectHost(why)
	}
	return core.WaitFor(time.Millisecond, "once more, since it %s", why).With(func(ctx context.Context, tx *core.Tx) error {
		tx.Log(core.Event{Type: "machine.retried", Machine: m.Name, Phase: m.Phase, Text: why + "; is tried once more"})
		return machine.StartInspection(ctx, tx, m.ID, true)
	})
}

// hostWorks is hostStays, with what the host says that it has lost: of that admission gives nothing any more.
func (w Handlers) hostWorks(_ context.Context, m machineView) core.Outcome {
	o := w.hostStays(m)
	lost, changed := m.lostSince()
	if !changed {
		return o
	}
	return o.With(func(ctx context.Context, tx *core.Tx) error {
		for _, text := range lost {
			tx.Log(core.Event{Type: "machine.warning", Machine: m.Name, Text: text})
		}
		return host.MarkLost(ctx, tx, m.Machine, m.host.seen.Report.Lost)
	})
}

// lostSince says which devices are newly lost, and whether any are, or are back.
func (m machineView) lostSince() (words []string, changed bool) {
	if m.host.seen == nil || m.host.seen.Report == nil {
		return nil, false
	}
	for _, d := range m.Facts.Devices {
		why := m.host.seen.Report.Lost[d.PCI]
		changed = changed || why != d.Lost
		if why != "" && d.Lost == "" {
			words = append(words, fmt.Sprintf("%s %s is lost to guests: %s", d.Kind, d.PCI, why))
		}
	}
	return words, changed
}

// hostStays keeps the machine while it holds guests, and a while after.
func (w Handlers) hostStays(m machineView) core.Outcome {
	limits := w.Providers[m.Substrate].Limits
	if m.host.seen == nil || m.host.seen.Boot != m.Boot {
		return m.suspectHost("is no longer a hypervisor")
	}
	silence := limits.Silence
	if m.host.heard || m.host.sleeps {
		silence *= heardFactor
	}
	spoke := life.Later(m.host.seen.At, m.host.listened)
	left := silence - m.now.Sub(spoke)
	switch trouble := m.trouble(); {
	case m.QuarantineReason != "":
		return m.endHost("%s", m.QuarantineReason)
	case left <= 0 && m.host.failureDomain.Many(): // see alive
		all := m.host.failureDomain
		return core.WaitFor(life.MassLooks, "its agent is silent, and it is not given up: %s", all).
			With(func(ctx context.Context, tx *core.Tx) error {
				return host.RaiseAlarm(ctx, tx, m.Network,
					fmt.Sprintf("%s; none is given up for it; if it is true, `muster machines quarantine NAME…` gives them up",
						all))
			})
	case left <= 0 && m.host.alarmed:
		return core.WaitFor(life.AlarmLooks, "its agent is silent, and it is not given up before the alarm is over")
	case left <= 0:
		return m.suspectHost(fmt.Sprintf("its agent was silent for %.0f s", m.now.Sub(m.host.seen.At).Seconds())).
			Because(life.CauseLost)
	case trouble != "" && !m.host.heard:
		return m.suspectHost("can hold no guests: " + trouble)
	case m.guests > 0 && m.Desired != machine.ForService:
		return m.awaitGuests()
	case m.guests > 0:
		return core.WaitFor(min(hostLooks, left+time.Millisecond), "holds %s", words.Count(m.guests, "guest"))
	case m.Desired != machine.ForService || m.ToInspect:
		return m.endIdle("its guests have gone, and it is to be inspected")
	}
	idle := m.now.Sub(life.Later(m.host.left, m.PhaseAt))
	if idle >= limits.Idle {
		return m.endIdle("was without guests for %s", limits.Idle)
	}
	return core.WaitFor(min(hostLooks, left, limits.Idle-idle)+time.Millisecond, "is an idle hypervisor, until %s",
		m.now.Add(limits.Idle-idle).Format("15:04:05 UTC"))
}

// trouble is why the host says that it can hold no guest.
func (m machineView) trouble() string {
	if m.host.seen.Report == nil {
		return ""
	}
	return m.host.seen.Report.Trouble
}

// endHost goes on to the machine's end as a hypervisor.
func (m machineView) endHost(format string, args ...any) core.Outcome {
	return core.Advance(core.Releasing, format, args...)
}

// endIdle is endHost for a host without guests, unless somebody places one on it in this moment.
func (m machineView) endIdle(format string, args ...any) core.Outcome {
	return m.endHost(format, args...).With(func(ctx context.Context, tx *core.Tx) error {
		if err := cluster.LockAdmission(ctx, tx); err != nil {
			return err
		}
		guests, err := machine.GuestsOn(ctx, tx, m.ID)
		if err == nil && len(guests) > 0 {
			err = fmt.Errorf("guest %s was placed on it meanwhile", guests[0].Name)
		}
		return err
	})
}

// suspectHost is endHost for a host that failed: its guests' nodes fail at once, and go elsewhere. Their end is proved when the
// machine was seen off.
func (m machineView) suspectHost(why string) core.Outcome {
	return m.endHost("%s; is switched off", why).Because(life.CauseInspection).With(func(ctx context.Context, tx *core.Tx) error {
		return machine.Quarantine(ctx, tx, m.Machine, "as a hypervisor: "+why)
	})
}

// hostEnds switches the machine off. What its guests were is gone from then on, and is told so.
func (w Handlers) hostEnds(ctx context.Context, m machineView) core.Outcome {
	err := w.Providers[m.Substrate].HypervisorBooter.End(ctx, m.Machine.Machine)
	switch {
	case errors.Is(err, substrate.ErrUnderway):
		return core.WaitFor(inspectionLooks, "%s", err)
	case err != nil:
		return core.Retry(err)
	}
	o := m.inspect("was switched off and seen off; is inspected before it is used again")
	if m.QuarantineReason != "" {
		o = core.Advance(machine.Quarantined, "%s", m.QuarantineReason).Because(life.CauseSuspect)
	}
	return o.With(m.wakeGuests).With(func(ctx context.Context, tx *core.Tx) error { return host.IsOff(ctx, tx, m.ID) })
}

// wakeGuests has the nodes of its guests look again: what they wait for has come, or has gone.
func (m machineView) wakeGuests(ctx context.Context, tx *core.Tx) error {
	guests, err := machine.GuestsOn(ctx, tx, m.ID)
	for _, g := range guests {
		if g.Holder != "" {
			tx.Wake(node.Kind, g.Holder)
		}
	}
	return err
}

// endHypervisor makes the machine whole again.
func (m machineView) endHypervisor() core.Outcome {
	return core.WaitFor(time.Millisecond, "is a whole machine again").With(func(ctx context.Context, tx *core.Tx) error {
		if err := cluster.LockAdmission(ctx, tx); err != nil { // placement of guests comes before, or sees it whole
			return err
		}
		onDemand, err := host.EndHypervisor(ctx, tx, m.ID)
		if onDemand {
			tx.Log(core.Event{Type: "machine.turned", Machine: m.Name, Text: "is a whole machine again"})
		}
		return err
	})
}
