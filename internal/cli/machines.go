package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"muster/internal/api"
)

func (a *app) machines() *cobra.Command {
	return group(&cobra.Command{
		Use:   "machines",
		Short: "See and look after the site's machines",
		Long: `Machines are what clusters are made of. A machine is enrolled, inspected, and then available to clusters; after each use it is
inspected again. One that fails goes into quarantine, says why, and comes back by itself once it passes.`,
		Example: `  muster machines add --local 4 --wait
  muster machines list
  muster machines maintain local-3`,
	}, a.machinesList(), a.machinesGet(), a.machinesAdd(), a.machinesInspect(), a.machinesMaintain(), a.machinesFree(), a.machinesRemove())
}

func (a *app) machinesList() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List machines",
		Long:    `List the machines with their phase, who has them, the classes that they belong to, and why one is not available.`,
		Example: `  muster machines list
  muster machines list -o json`,
		Args: cobra.NoArgs,
	}
	return listing(a, c, "/v1/machines", a.printMachines)
}

func (a *app) printMachines(machines []api.Machine) {
	if len(machines) == 0 {
		a.say("there are no machines; `muster machines add --local N` enrols N on the controller's host")
		return
	}
	t := newTable("NAME", "KIND", "PHASE", "FOR", "NODE", "CPUS", "MEMORY", "CLASSES", "REASON")
	for _, m := range machines {
		t.row(m.Name, m.Substrate, a.phase(m.Phase), age(m.Since), m.Node, cpus(m), memory(m), strings.Join(m.Classes, ","), m.Reason)
	}
	t.print(a.out)
}

func cpus(m api.Machine) string {
	if m.Facts.CPUs == 0 {
		return ""
	}
	return strconv.Itoa(m.Facts.CPUs)
}

func memory(m api.Machine) string {
	if m.Facts.MemoryMiB == 0 {
		return ""
	}
	return bytesSize(int64(m.Facts.MemoryMiB) << 20)
}

func (a *app) machinesGet() *cobra.Command {
	c := &cobra.Command{
		Use:   "get NAME",
		Short: "Show a machine with all its facts",
		Long:  `Show one machine: its phase and the reason for it, who has it, and the facts that its last inspection found.`,
		Example: `  muster machines get local-1
  muster machines get local-1 -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.machineNames),
	}
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		controller, err := a.connect()
		if err != nil {
			return err
		}
		var m api.Machine
		raw, err := controller.do(ctx, get(machinePath(args[0]), nil), &m)
		if err != nil {
			return err
		}
		return output.print(a.out, raw, func() { a.printMachine(m) })
	})
	return c
}

func (a *app) printMachine(m api.Machine) {
	t := newTable()
	add := func(name, value string) {
		if value != "" {
			t.row(name, value)
		}
	}
	add("name", m.Name)
	add("kind", m.Substrate)
	add("phase", a.phase(m.Phase)+" for "+age(m.Since))
	add("reason", m.Reason)
	add("node", m.Node)
	add("classes", strings.Join(m.Classes, ", "))
	add("host", m.Facts.Host)
	add("arch", m.Facts.Arch)
	add("cpu", m.Facts.CPUModel)
	add("cpus", cpus(m))
	if m.Facts.Cores > 0 {
		add("cores", strconv.Itoa(m.Facts.Cores))
	}
	add("memory", memory(m))
	add("kernel", m.Facts.Kernel)
	for _, n := range m.Facts.NUMA {
		add("numa "+strconv.Itoa(n.ID), fmt.Sprintf("cpus %s, %s", n.CPUs, bytesSize(int64(n.MemoryMiB)<<20)))
	}
	t.print(a.out)
}
