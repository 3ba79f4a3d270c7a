package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kinds/machine"
	"muster/internal/kit/words"
)

func (a *app) machines() *cobra.Command {
	return group(&cobra.Command{
		Use:   "machines",
		Short: "Manage the site's machines",
		Long: `A machine is enrolled, inspected, and then available to clusters; after each use it is inspected again. One that fails goes into
quarantine with a reason, and returns by itself once it passes.`,
		Example: `  muster machines add --local 4 --wait
  muster machines list
  muster machines maintain local-3`,
	}, a.machinesList(), a.machinesGet(), a.machinesHealth(), a.machinesAdd(), a.machinesImport(), a.machinesUnknown(),
		a.machinesInspect(), a.machinesMaintain(), a.machinesDrain(), a.machinesQuarantine(), a.machinesFree(), a.machinesPlace(),
		a.machinesRemove())
}

func (a *app) machinesList() *cobra.Command {
	c := listVerb("List machines",
		`List the machines with their phase, the node that uses each, their classes, and why one is not available.`,
		`  muster machines list
  muster machines list --phase quarantined --rack r1
  muster machines list --cluster cfd -o json`)
	var in apiv1.ListMachinesInput
	c.Flags().StringVar(&in.Class, "class", "", "only machines of this `CLASS`")
	c.Flags().StringVar(&in.Network, "network", "", "only machines that boot from this `NETWORK`")
	c.Flags().StringVar(&in.Rack, "rack", "", "only machines that stand in this `RACK`")
	c.Flags().StringVar(&in.Cluster, "cluster", "", "only machines that nodes of this `CLUSTER` have")
	phaseFlag(c, &in.Phase, machine.Kind)
	_ = c.RegisterFlagCompletionFunc("class", a.completeAll(a.classNames))
	_ = c.RegisterFlagCompletionFunc("network", a.completeAll(a.networkNames))
	_ = c.RegisterFlagCompletionFunc("cluster", a.completeAll(a.clusterNames))
	return listing(a, c, apiv1.ListMachines, &in, func(machines []apiv1.Machine) {
		if len(machines) == 0 && in != (apiv1.ListMachinesInput{}) {
			a.say("no machine fits these filters")
			return
		}
		a.printMachines(machines)
	})
}

func (a *app) printMachines(machines []apiv1.Machine) {
	if len(machines) == 0 {
		a.say("there are no machines; `muster machines add --local N` enrols N on the controller's host, `muster machines " +
			"import` whole ones")
		return
	}
	t := newTable("NAME", "KIND", "PHASE", "FOR", "NODE", "CPUS", "MEMORY", "CLASSES", "REASON")
	listed := map[string]bool{}
	for _, m := range machines {
		listed[m.Name] = true
		if m.Desired != apiv1.ForService && m.Phase != apiv1.Maintenance {
			m.Reason = "leaves service once free; " + m.Reason
		}
		if m.Hosts != nil && (m.Phase == apiv1.Available || m.Phase == apiv1.InUse && len(m.Hosts.Guests) > 0) {
			m.Reason = shareWords(*m.Hosts)
		}
		if m.Part != nil && listed[m.Part.Host] {
			m.Name = "  " + m.Name // below its host, whose name begins its own
		}
		t.row(m.Name, m.Substrate, a.phase(m.Phase), age(m.Since), m.Node, number(m.Summary.CPUs),
			memoryText(int64(m.Summary.MemoryMiB)), strings.Join(m.Classes, ","), m.Reason)
	}
	t.print(a.out)
}

func (a *app) machinesGet() *cobra.Command {
	c := &cobra.Command{
		Use:   "get NAME",
		Short: "Show a machine with all its facts",
		Long:  `Show one machine: its phase and the reason for it, the node that uses it, and the facts from its last inspection.`,
		Example: `  muster machines get local-1
  muster machines get local-1 -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.machineNames),
	}
	var ref apiv1.MachineRef
	return showing(a, c, apiv1.GetMachine, &ref, a.printMachine, &ref.Machine)
}

func (a *app) printMachine(m apiv1.Machine) {
	t := newTable()
	t.fact("name", m.Name)
	t.fact("kind", m.Substrate)
	t.fact("phase", line("%s for %s", a.phase(m.Phase), age(m.Since)))
	t.fact("reason", m.Reason)
	t.fact("node", m.Node)
	t.fact("classes", strings.Join(m.Classes, ", "))
	if m.Location != nil {
		t.fact("location", locationText(m.Location))
	}
	t.fact("network", m.Network)
	t.fact("macs", strings.Join(m.MACs, ", "))
	t.fact("switch ports", strings.Join(m.SwitchPorts, ", "))
	t.fact("power", m.Power)
	t.fact("host", m.Facts.Host)
	t.fact("arch", m.Facts.Arch)
	t.fact("cpu", m.Facts.CPUModel)
	t.fact("cpus", number(m.Summary.CPUs))
	t.fact("memory", memoryText(int64(m.Summary.MemoryMiB)))
	t.fact("kernel", m.Facts.Kernel)
	facts := factsOf(m.Facts)
	addTopology(t, facts)
	addParts(t, m)
	for _, p := range m.Ports {
		what := "does not answer; held " + strings.Join(p.Entries, " ") + " before"
		if p.Answers {
			what = "holds " + strings.Join(p.Entries, " ")
		}
		t.fact("fabric "+p.Fabric, "port "+p.Port+" "+what)
	}
	if m.Hosts != nil {
		t.fact("held", shareWords(*m.Hosts))
		t.fact("guests", strings.Join(m.Hosts.Guests, ", "))
	}
	if m.Part != nil {
		t.fact("host machine", m.Part.Host)
		t.fact("holds", partWords(*m.Part))
	}
	t.print(a.out)
	a.printDevices(facts)
}

// addParts tells what a whole machine is made of, and how it was given back the last time.
func addParts(t *table, m apiv1.Machine) {
	f := m.Facts
	t.fact("system", strings.TrimSpace(strings.Join([]string{f.System.Vendor, f.System.Product, f.System.Serial}, " ")))
	t.fact("firmware", f.System.Firmware)
	for _, d := range f.DIMMs {
		t.fact("memory "+d.Slot, strings.TrimSpace(words.Size(int64(d.SizeMiB)<<20)+" "+d.Speed))
	}
	for _, d := range f.Disks {
		t.fact("disk "+d.Name, strings.Join(strings.Fields(fmt.Sprintf("%d GB %s %s %s %s", d.SizeGB, d.Kind, d.Model, d.Serial,
			d.Health)), " "))
	}
	for _, n := range f.NICs {
		link := "down"
		if n.Up {
			link = "up"
			if n.SpeedMbps > 0 {
				link = fmt.Sprintf("%d Mb/s", n.SpeedMbps)
			}
		}
		t.fact("nic "+n.Name, strings.Join(strings.Fields(n.MAC+" "+n.Driver+" "+link), " "))
	}
	if f.TriadGBs > 0 {
		t.fact("memory bandwidth", fmt.Sprintf("%.1f GB/s (STREAM triad)", f.TriadGBs))
	}
	if r := m.Release; r != nil {
		t.fact("last release", fmt.Sprintf("from %s at %s; power %s", r.From, r.At.UTC().Format(time.DateTime), r.Power))
		for _, d := range r.Disks {
			t.fact("  disk "+d.Disk, erased(d))
		}
		if r.Key != "" {
			t.fact("  proved by", fmt.Sprintf("its boot %d, with the key SHA256:%s", r.Boot, r.Key))
		}
	}
}

func (a *app) machinesUnknown() *cobra.Command {
	c := &cobra.Command{
		Use:   "unknown",
		Short: "List machines that asked to boot but are not enrolled",
		Long: `List machines that asked to boot from a network but are not enrolled, with what they claim to be. None of it is verified.
` + "`muster machines add`" + ` enrols one by its MAC.`,
		Example: `  muster machines unknown
  muster machines add r1n3 --mac 52:54:00:12:34:58 --power wol`,
		Args: cobra.NoArgs,
	}
	return listing(a, c, apiv1.ListUnknownMachines, &apiv1.Page{}, func(machines []apiv1.UnknownMachine) {
		if len(machines) == 0 {
			a.say("no unknown machine has asked to boot")
			return
		}
		t := newTable("MAC", "NETWORK", "LAST SEEN", "CPUS", "MEMORY", "SYSTEM", "SERIAL")
		for _, m := range machines {
			f := m.Facts
			t.row(m.MAC, m.Network, age(m.LastSeen), number(f.CPUs), memoryText(int64(f.MemoryMiB)), f.System.Product,
				f.System.Serial)
		}
		t.print(a.out)
	})
}
