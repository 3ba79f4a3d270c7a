// Package machinelife is the life of machines: inspected, reserved, used, released, quarantined; and the life of hypervisors.
//
// What enters: rows of machines and of their boots. What leaves: inspections, new phases, and an event for every change.
package machinelife

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/power"
	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
)

// machineLooks is how often a machine that waits for its node looks again by itself.
const machineLooks = 5 * time.Second

// inspectionLooks is how often an inspection that goes on is looked at; its reports wake it at once.
const inspectionLooks = 2 * time.Second

// machineView is a machine as its handlers see it.
type machineView struct {
	machine.Machine
	boot   *machine.Boot      // of its inspection; nil if nothing tells
	slow   int                // times in a row that it was refused for being slow
	guests int                // that it holds
	ports  []fabrics.NodePort // that were not yet seen without the keys of nodes that have gone
	host   hostView           // of a hypervisor that is a machine of its own
	holder string             // that had it last: "cluster/node"
	now    time.Time
}

// inspectionTries is how often a machine is booted for one inspection before it is given up.
const inspectionTries = 2

// removalTries is how often a machine that leaves the inventory is switched off before it leaves as it is: it may be
// gone already.
const removalTries = 3

// Handlers are those of machines, with what they act on.
type Handlers struct{ life.Deps }

// Table is the life of machines.
func Table(d life.Deps) core.Table {
	w := Handlers{d}
	return core.StateTable[machineView]{
		DB:   w.DB,
		Of:   machine.Kind,
		Load: w.loadMachine,
		Phases: map[core.Phase]core.Handler[machineView]{
			machine.Enrolled:    {Do: machineEnrolled},
			machine.Inspecting:  {Do: w.machineInspect, Deadline: w.inspectionDeadline, Late: w.machineSilent},
			machine.Available:   {Do: w.machineAvailable},
			machine.Reserved:    {Do: w.machineReserved},
			machine.InUse:       {Do: w.machineInUse},
			core.Releasing:      {Do: w.machineReleasing},
			machine.Maintenance: {Do: machineMaintained},
			machine.Quarantined: {Do: w.machineQuarantined},
		},
	}
}

func (w Handlers) loadMachine(ctx context.Context, tx *core.Tx, id string) (machineView, core.Subject, error) {
	var m machineView
	var err error
	if m.Machine, err = machine.Get(ctx, tx, id); err != nil {
		return m, core.Subject{}, err
	}
	if m.BootsFromNetwork() {
		boot, err := machine.BootOf(ctx, tx, id)
		if err == nil && boot.Number == m.Boot {
			m.boot = &boot
		} else if err != nil && !errors.Is(err, core.ErrNotFound) {
			return m, core.Subject{}, err
		}
		if m.holder, err = machine.LastHolder(ctx, tx, m.Name); err != nil {
			return m, core.Subject{}, err
		}
	}
	if m.Hosts {
		guests, err := machine.GuestsOn(ctx, tx, id)
		if err != nil {
			return m, core.Subject{}, err
		}
		m.guests = len(guests)
	}
	if m.HostsOnDemand() {
		if m.host, err = w.loadHost(ctx, tx, m.Machine); err != nil {
			return m, core.Subject{}, err
		}
	}
	if m.Phase == machine.Inspecting {
		if m.ports, err = fabrics.Unclean(ctx, tx, id); err != nil {
			return m, core.Subject{}, err
		}
	}
	if m.Phase == machine.Quarantined {
		if m.slow, err = node.SlowInARow(ctx, tx, id); err != nil {
			return m, core.Subject{}, err
		}
	}
	m.now, err = tx.Now(ctx)
	return m, core.Subject{Life: m.Life, Event: core.Event{Machine: m.Name}}, err
}

// inspect goes on to an inspection.
func (m machineView) inspect(why string) core.Outcome {
	return core.Advance(machine.Inspecting, "%s", why).With(func(ctx context.Context, tx *core.Tx) error {
		return machine.StartInspection(ctx, tx, m.ID, false)
	})
}

// quarantine sets the machine apart after an inspection that failed.
func (m machineView) quarantine(format string, args ...any) core.Outcome {
	return core.Advance(machine.Quarantined, format, args...).Because(life.CauseInspection).
		With(func(ctx context.Context, tx *core.Tx) error {
			return machine.FailInspection(ctx, tx, m.ID, m.Inspections)
		})
}

func machineEnrolled(_ context.Context, m machineView) core.Outcome {
	return m.inspect("enrolled; is inspected before it is used")
}

// machineInspect lets only a machine that answered, is healthy, and holds no tenant's data into the pool.
func (w Handlers) machineInspect(ctx context.Context, m machineView) core.Outcome {
	inspector := w.Providers[m.Substrate].Inspector
	if m.Desired == machine.ForRemoval && !m.Dirty && m.guests == 0 {
		_, err := inspector.EnsureOff(ctx, m.Machine.Machine)
		switch {
		case errors.Is(err, substrate.ErrUnderway):
			return core.WaitFor(inspectionLooks, "%s", err)
		case err != nil && m.Attempts < removalTries:
			return core.Retry(err)
		}
		return removal(m)
	}
	seen, err := inspector.Inspect(ctx, substrate.Inspection{Machine: m.Machine.Machine, Number: m.Boot, Erase: m.Dirty})
	switch {
	case errors.Is(err, substrate.ErrUnderway):
		return core.WaitFor(inspectionLooks, "%s", err)
	case err != nil:
		return core.Retry(err)
	case seen.Stuck != "":
		return m.inspectAgain(seen.Stuck)
	case !seen.Done:
		return core.WaitFor(inspectionLooks, "%s", seen.Doing)
	}
	if o, clean := m.cleanPorts(); !clean {
		return o
	}
	return m.judge(seen, w.Power.Capabilities(m.Power.Control))
}

// judge draws the conclusions of an inspection that is over.
func (m machineView) judge(seen substrate.Inspected, can power.Capabilities) core.Outcome {
	var bad []string
	for _, disk := range seen.Erased {
		if !disk.OK {
			bad = append(bad, fmt.Sprintf("disk %s was not erased: %s", disk.Disk, disk.Error))
		}
	}
	if m.Dirty && m.BootsFromNetwork() {
		bad = append(bad, m.unproved(seen)...)
	}
	clean := len(bad) == 0
	for _, check := range seen.Checks {
		if !check.OK {
			bad = append(bad, check.Name+": "+check.Text)
		}
	}
	doors, taken := m.bmc(seen)
	if doors != "" && !taken {
		bad = append(bad, "bmc: "+doors)
	}
	if seen.Unread != "" {
		seen.Facts.BMC = m.Facts.BMC // which is compared with next time
	}
	var o core.Outcome
	switch {
	case len(bad) > 0:
		o = m.quarantine("inspection: %s", strings.Join(bad, "; "))
	case m.Desired == machine.ForMaintenance:
		o = core.Advance(machine.Maintenance, "taken out of service")
	default:
		o = core.Advance(machine.Available, "%s", found(seen.Facts))
	}
	return o.With(func(ctx context.Context, tx *core.Tx) error {
		for _, change := range seen.Facts.Since(m.Facts) {
			tx.Log(core.Event{Type: "machine.changed", Machine: m.Name, Text: "since its last inspection: " + change})
		}
		if doors != "" && taken {
			tx.Log(core.Event{Type: "machine.changed", Machine: m.Name, Text: "BMC, as it is from now on: " + doors})
		}
		if m.Dirty {
			r := machine.Release{From: m.holder, At: m.now, Power: m.powerCycle(can), Disks: seen.Erased, Clean: clean,
				Boot: m.Boot, Key: seen.Key}
			if err := machine.SaveRelease(ctx, tx, m.ID, r); err != nil {
				return err
			}
		}
		if len(bad) > 0 {
			return nil
		}
		return machine.SaveFacts(ctx, tx, m.ID, m.Inspections, seen.Facts)
	})
}

// bmc says how the way in to a machine's BMC has changed since the inspection that passed last, "" if it has not. A user who was
// root on the machine may have changed it, and keep a way to its power and console. It stays so until somebody has looked: taken
// says that an operator has the machine out of service and asked for this inspection, so it is as they leave it.
func (m machineView) bmc(seen substrate.Inspected) (changed string, taken bool) {
	if len(m.Facts.BMC) == 0 {
		return "", false // the first look, or it tells nothing
	}
	taken = m.Desired == machine.ForMaintenance && m.ToInspect && !m.Dirty
	if seen.Unread != "" {
		return "its users cannot be read: " + seen.Unread, taken
	}
	var changes []string
	for _, line := range seen.Facts.BMC {
		if !slices.Contains(m.Facts.BMC, line) {
			changes = append(changes, "now "+line)
		}
	}
	for _, line := range m.Facts.BMC {
		if !slices.Contains(seen.Facts.BMC, line) {
			changes = append(changes, "gone: "+line)
		}
	}
	return strings.Join(changes, ", "), taken
}

// unproved are the disks of a machine that is given back without a proof that they were erased: those that it had at
// its last inspection and has no more, and those that it says it has and gives no receipt of. Disks on a storage network
// are not its own.
func (m machineView) unproved(seen substrate.Inspected) (bad []string) {
	erased := map[string]bool{}
	for _, e := range seen.Erased {
		erased[diskKey(e.Serial, e.Disk)] = true
	}
	named := map[string]bool{}
	for _, d := range seen.Facts.Disks {
		key := diskKey(d.Serial, d.Name)
		named[key] = true
		if d.Local() && !erased[key] {
			bad = append(bad, fmt.Sprintf("disk %s was not erased: the inspection did not report it", describe(d)))
		}
	}
	for _, d := range m.Facts.Disks {
		if key := diskKey(d.Serial, d.Name); d.Local() && !erased[key] && !named[key] {
			bad = append(bad, fmt.Sprintf(
				"disk %s, which it had at its last inspection, is missing, and may hold data of %s: put it back, or destroy "+
					"it, then "+
					"`muster machines remove %s` and enrol the machine again", describe(d), cmp.Or(m.holder, "a tenant"), m.Name))
		}
	}
	return bad
}

// diskKey tells disks apart: by their serial number, where they have one. The kernel's names change.
func diskKey(serial, name string) string {
	if serial != "" {
		return "serial number " + serial
	}
	return "name " + name
}

func describe(d inventory.Disk) string {
	words := []string{d.Name}
	if d.Model != "" {
		words = append(words, d.Model)
	}
	if d.Serial != "" {
		words = append(words, d.Serial)
	}
	return strings.Join(words, " ")
}

// powerCycle says how the memory of a machine that is given back was cleared: the inspection that erases begins on a
// machine that is off, and ends with it off. A machine that nothing else switches was off all the same.
func (m machineView) powerCycle(can power.Capabilities) string {
	switched, seen := "switched off", "seen off"
	if m.Power.Control != "" {
		if !can.SwitchesOff {
			switched = "switched itself off"
		}
		if !can.SeesPower {
			seen = "was silent on its network"
		}
	}
	return switched + " and " + seen + ", before and after"
}

func found(f inventory.Facts) string {
	return fmt.Sprintf("passed inspection: %d CPUs, %d MiB, %s", f.CPUs, f.MemoryMiB, f.CPUModel)
}

// inspectionDeadline counts from the last sign of life: to erase a disk may take hours, and it says so.
func (w Handlers) inspectionDeadline(m machineView) time.Time {
	since := m.BootAt
	if m.boot != nil && m.boot.HeardAt.After(since) {
		since = m.boot.HeardAt
	}
	return since.Add(w.Providers[m.Substrate].Limits.Inspection)
}

func (w Handlers) machineSilent(m machineView) core.Outcome {
	why := fmt.Sprintf("did not answer the inspection within %s", w.Providers[m.Substrate].Limits.Inspection)
	if m.boot != nil && m.boot.Detail != "" {
		why += " after this: " + m.boot.Detail
	} else if m.Reason != "" {
		why += " (" + m.Reason + ")"
	}
	return m.inspectAgain(why)
}

// inspectAgain boots the machine once more before it is given up.
func (m machineView) inspectAgain(why string) core.Outcome {
	if m.Tries >= inspectionTries {
		return m.quarantine("%s", why)
	}
	return core.WaitFor(time.Millisecond, "once more, since it %s", why).With(func(ctx context.Context, tx *core.Tx) error {
		tx.Log(core.Event{Type: "machine.retried", Machine: m.Name, Phase: machine.Inspecting,
			Text: why + "; is tried once more"})
		return machine.StartInspection(ctx, tx, m.ID, true)
	})
}

func (w Handlers) machineAvailable(ctx context.Context, m machineView) core.Outcome {
	switch {
	case m.Holder != "":
		return core.Advance(machine.Reserved, "for %s", m.HolderName)
	case m.Desired == machine.ForRemoval:
		return removal(m)
	case m.QuarantineReason != "":
		return core.Advance(machine.Quarantined, "%s", m.QuarantineReason).Because(life.CauseSuspect)
	case m.Desired == machine.ForMaintenance && m.guests > 0:
		return m.awaitGuests()
	case m.Desired == machine.ForMaintenance:
		return core.Advance(machine.Maintenance, "taken out of service")
	case m.ToInspect:
		return m.inspect("inspection asked for")
	case m.HostsOnDemand() && m.guests > 0:
		return m.becomeHost()
	case m.HostsOnDemand():
		return m.endHypervisor()
	}
	provider := w.Providers[m.Substrate]
	did, err := provider.Inspector.EnsureOff(ctx, m.Machine.Machine)
	o := core.WaitFor(provider.Limits.Rest, "%s", found(m.Facts))
	switch {
	case errors.Is(err, substrate.ErrUnderway):
		o = core.WaitFor(inspectionLooks, "%s", err)
	case err != nil:
		return core.Retry(err)
	}
	if did != "" {
		o = o.With(func(_ context.Context, tx *core.Tx) error {
			tx.Log(core.Event{Type: "machine.rested", Machine: m.Name, Text: did})
			return nil
		})
	}
	return o
}

func (w Handlers) machineReserved(ctx context.Context, m machineView) core.Outcome {
	switch {
	case m.HostsOnDemand():
		return w.hostStarts(ctx, m)
	case m.Holder == "":
		return core.Advance(core.Releasing, "given back before its node began")
	case m.HolderBoot > 0:
		return core.Advance(machine.InUse, "by %s", m.HolderName)
	}
	return core.WaitFor(machineLooks, "%s has not begun", m.HolderName)
}

func (w Handlers) machineInUse(ctx context.Context, m machineView) core.Outcome {
	if m.HostsOnDemand() {
		return w.hostWorks(ctx, m)
	}
	if m.Holder == "" {
		return core.Advance(core.Releasing, "its node is gone")
	}
	return core.WaitFor(6*machineLooks, "by %s", m.HolderName)
}

// machineReleasing: its node left it only after the substrate had shown that nothing of it remained. What is left to
// prove is that the machine is healthy.
func (w Handlers) machineReleasing(ctx context.Context, m machineView) core.Outcome {
	switch {
	case m.HostsOnDemand():
		return w.hostEnds(ctx, m)
	case m.IsGuest():
		return guestGone(m)
	case m.QuarantineReason != "":
		return core.Advance(machine.Quarantined, "%s", m.QuarantineReason).Because(life.CauseSuspect)
	}
	return m.inspect("is inspected before it is used again")
}

func machineMaintained(_ context.Context, m machineView) core.Outcome {
	switch {
	case m.Desired == machine.ForRemoval:
		return removal(m)
	case m.Desired == machine.ForService:
		return m.inspect("back in service; is inspected first")
	case m.ToInspect:
		return m.inspect("inspection asked for")
	}
	return core.Rest()
}

// machineQuarantined comes back by itself: a fault that passes must not need a person. Each failure in a row doubles the
// time apart; so does each time that a node on it was slow, which no inspection sees.
func (w Handlers) machineQuarantined(ctx context.Context, m machineView) core.Outcome {
	switch {
	case m.Desired == machine.ForRemoval:
		return removal(m)
	case m.ToInspect:
		return m.inspect("inspection asked for")
	}
	provider := w.Providers[m.Substrate]
	apart := provider.Limits.Quarantine << min(max(m.Failures+m.slow-1, 0), 6)
	left := apart - m.now.Sub(m.PhaseAt)
	if left <= 0 {
		return m.inspect("is inspected again after its quarantine")
	}
	// It has no owner, so it is off, if it lets itself be switched.
	if _, err := provider.Inspector.EnsureOff(ctx, m.Machine.Machine); err != nil {
		left = min(left, machineLooks)
	}
	return core.WaitFor(left, "%s", m.Reason)
}

func removal(m machineView) core.Outcome {
	if m.guests > 0 {
		return m.awaitGuests()
	}
	text := "has left the inventory"
	if m.Dirty {
		text += "; its disks could not be erased and may hold data of " + cmp.Or(m.holder, "a tenant")
	}
	return m.leaveInventory("%s", text)
}

// awaitGuests is for a hypervisor that is to leave service: those who are there may stay until their nodes go.
func (m machineView) awaitGuests() core.Outcome {
	return core.WaitFor(machineLooks, "waits until its guests, %d now, have gone", m.guests)
}

func (m machineView) leaveInventory(format string, args ...any) core.Outcome {
	o := core.Advance(machine.Removed, format, args...).With(func(ctx context.Context, tx *core.Tx) error {
		return machine.Forget(ctx, tx, m.ID)
	})
	o.Asleep = true
	return o
}

// cleanPorts says whether the ports of a machine that runs its inspection were seen without the keys of its last node.
func (m machineView) cleanPorts() (core.Outcome, bool) {
	if len(m.ports) == 0 {
		return core.Outcome{}, true
	}
	p := m.ports[0]
	if m.now.Sub(m.PhaseAt) < life.CleanWithin {
		return core.WaitFor(inspectionLooks, "%s", life.PortHolds(p)), false
	}
	what := "is not seen without it"
	if p.Silent() {
		what = "does not answer"
	}
	return m.quarantine("port %s of fabric %s may hold key %s of its last cluster, since it %s; if the adapter is gone, "+
		"`muster fabric forget %s %s`",
		p.GUID, p.Fabric, p.Key, what, p.Fabric, p.GUID), false
}

// guestGone removes the machine of a guest whose node has left it: its substrate has shown that its memory and its disks
// are gone, and in the same transaction its host got back what it held.
func guestGone(m machineView) core.Outcome {
	return m.leaveInventory("its part of %s is free again", m.HostName).With(func(_ context.Context, tx *core.Tx) error {
		tx.Wake(machine.Kind, m.Host) // which may wait for its last guest to go
		return nil
	})
}
