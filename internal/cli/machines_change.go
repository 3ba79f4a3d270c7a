package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/lists"
	"muster/internal/kit/words"
)

func (a *app) machinesInspect() *cobra.Command {
	c := &cobra.Command{
		Use:   "inspect {NAME… | --all}",
		Short: "Inspect machines again",
		Long: `Inspect machines again: facts are read and health is checked. A machine that is in use is inspected when it is free, one in
quarantine now.`,
		Example: `  muster machines inspect local-1 --wait
  muster machines inspect --all`,
	}
	every := c.Flags().Bool("all", false, "all machines")
	waits := waitFlags(c, "the inspections have ended")
	return a.forMachines(c, every, waits, "inspection requested", askedByName(apiv1.InspectMachine))
}

func (a *app) machinesMaintain() *cobra.Command {
	c := &cobra.Command{
		Use:   "maintain NAME…",
		Short: "Take machines out of service once they are free",
		Long: `Take machines out of service. A machine in use stays with its cluster until it is released, and is then not used again.
` + "`muster machines free`" + ` puts it back into service.`,
		Example: `  muster machines maintain local-1 local-2`,
	}
	return a.forMachines(c, nil, nil, "leaves service once it is free", askedByName(apiv1.MaintainMachine))
}

func (a *app) machinesDrain() *cobra.Command {
	c := &cobra.Command{
		Use:   "drain NAME…",
		Short: "Take hypervisors out of service and move their guests elsewhere",
		Long: `Take hypervisors out of service and move their guests to other hosts of their class. A guest without devices migrates live, and its
jobs go on, if another hypervisor in use shows it the same CPUs and memory. Any other node is replaced on another host once its
jobs have ended. A guest stays as long as no other host has room for it.
` + "`muster machines free`" + ` puts a hypervisor back into service, and ends the drain.`,
		Example: `  muster machines drain hv-3`,
	}
	return a.forMachines(c, nil, nil, "leaves service once its guests are elsewhere", askedByName(apiv1.DrainMachine))
}

func (a *app) machinesFree() *cobra.Command {
	c := &cobra.Command{
		Use:     "free NAME…",
		Short:   "Put machines back into service, after an inspection",
		Long:    `Put machines that were in maintenance or quarantine back into service. Each is inspected first.`,
		Example: `  muster machines free local-1 --wait`,
	}
	waits := waitFlags(c, "they are available")
	return a.forMachines(c, nil, waits, "returns to service after an inspection", askedByName(apiv1.FreeMachine))
}

func (a *app) machinesRemove() *cobra.Command {
	c := &cobra.Command{
		Use:     "remove NAME…",
		Short:   "Remove machines from the inventory once they are free",
		Long:    `Remove machines from the inventory. A machine in use stays with its cluster until it is released.`,
		Example: `  muster machines remove local-4`,
	}
	return a.forMachines(c, nil, nil, "leaves the inventory once it is free", askedByName(apiv1.RemoveMachine))
}

// askMachine asks something of the machine of a name.
type askMachine func(ctx context.Context, c apiv1.Client, name string) (apiv1.Machine, error)

// askedByName asks what needs no more than the name.
func askedByName(op apiv1.Op[apiv1.MachineRef, apiv1.Machine]) askMachine {
	return func(ctx context.Context, c apiv1.Client, name string) (apiv1.Machine, error) {
		m, _, err := op.Call(ctx, c, apiv1.MachineRef{Machine: name})
		return m, err
	}
}

// forMachines makes a verb that asks the same of each machine named; every, where there is one, stands for all of them.
func (a *app) forMachines(c *cobra.Command, every *bool, waits *waiting, what string, ask askMachine) *cobra.Command {
	c.ValidArgsFunction = a.completeAll(a.machineNames)
	c.Args = func(_ *cobra.Command, names []string) error {
		all := every != nil && *every
		switch {
		case all && len(names) > 0:
			return usage("give either names or --all")
		case !all && len(names) == 0 && every != nil:
			return usage("say which machines: names, or --all")
		case !all && len(names) == 0:
			return usage("say which machines")
		}
		return nil
	}
	return a.verb(c, func(ctx context.Context, names []string) error {
		if _, err := a.connect(); err != nil { // said once, not of each machine
			return err
		}
		if every != nil && *every {
			machines, err := apiv1.All(ctx, a, apiv1.ListMachines, apiv1.ListMachinesInput{})
			if err != nil {
				return err
			}
			names = lists.Map(machines, func(m apiv1.Machine) string { return m.Name })
		}
		asked, err := a.askMachines(ctx, names, what, ask)
		if waits == nil || !waits.wait {
			return err
		}
		_, late := a.awaitMachines(ctx, waits, asked)
		return errors.Join(err, late)
	})
}

// askMachines asks all, whatever becomes of one, and returns the first error; those after it are told at once.
func (a *app) askMachines(ctx context.Context, names []string, what string, ask askMachine) (asked []apiv1.Machine,
	first error) {
	for _, name := range names {
		m, err := ask(ctx, a, name)
		if err != nil {
			a.complain(err.Error())
			if first == nil {
				first = silent{err}
			}
			continue
		}
		a.say("%s", requested(m, what))
		asked = append(asked, m)
	}
	return asked, first
}

// machineLook is how often machines that are waited for are looked at.
const machineLook = 200 * time.Millisecond

// awaitMachines waits until each machine has come out of an inspection that began after before was read, and returns
// them as they are then. One in quarantine is an error.
func (a *app) awaitMachines(ctx context.Context, w *waiting, before []apiv1.Machine) ([]apiv1.Machine, error) {
	ctx, cancel := w.limit(ctx)
	defer cancel()
	start := time.Now()
	lines := &plainLines{app: a, start: start}
	after := make([]apiv1.Machine, len(before))
	var failed error
	for i, old := range before {
		m, err := a.awaitMachine(ctx, w, lines, old)
		if err != nil {
			return nil, err
		}
		if after[i] = m; m.Phase == apiv1.Quarantined {
			failed = fmt.Errorf("machine %s is quarantined: %s", m.Name, m.Reason)
			a.complain(failed.Error())
		}
	}
	if failed != nil {
		return nil, silent{failed}
	}
	a.say("%s ready in %s", words.Count(len(after), "machine"), seconds(time.Since(start)))
	return after, nil
}

func (a *app) awaitMachine(ctx context.Context, w *waiting, lines *plainLines, old apiv1.Machine) (apiv1.Machine,
	error) {
	m, said := old, time.Now()
	for {
		now, _, err := apiv1.GetMachine.Call(ctx, a, apiv1.MachineRef{Machine: old.Name})
		switch {
		case err != nil && ctx.Err() == nil:
			return m, err
		case err == nil:
			m = now
		}
		over := m.Phase == apiv1.Available || m.Phase == apiv1.Maintenance || m.Phase == apiv1.Quarantined
		if over && m.Since.After(old.Since) {
			lines.tell(m.Name + " " + string(m.Phase) + ": " + m.Reason)
			return m, nil
		}
		if time.Since(said) >= a.timing.quiet {
			said = time.Now()
			lines.tell(m.Name + " is still " + string(m.Phase) + ": " + m.Reason)
		}
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errTimeout) {
				return m, fmt.Errorf("not done after %s: machine %s is %s: %s", w.timeout, m.Name, m.Phase, m.Reason)
			}
			a.say("the operation goes on; `muster machines list` shows it")
			return m, silent{context.Cause(ctx)}
		case <-time.After(machineLook):
		}
	}
}
