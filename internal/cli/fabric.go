package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/drivers"
	"muster/internal/fabric"
)

func (a *app) fabric() *cobra.Command {
	return group(&cobra.Command{
		Use:   "fabric",
		Short: "Manage InfiniBand fabrics: partitions, ports, deviations",
		Long: `Every cluster has its own partition on each InfiniBand fabric that its machines are on. Muster gives the partitions and their
members to the fabric's subnet manager and reads all ports back: a node boots once its ports hold its cluster's key, and a
machine is released once they no longer do.`,
		Example: `  muster fabric add ib0 --driver opensm --manager 0x0002c903000a0b0c
  ibnetdiscover > snapshot.txt && muster fabric import ib0 snapshot.txt
  muster fabric diff ib0`,
	}, a.fabricAdd(), a.fabricList(), a.fabricGet(), a.fabricRemove(), a.fabricDiff(), a.fabricImport(), a.fabricCables(),
		a.fabricInfra(), a.fabricAssign(), a.fabricForget())
}

// portOf reads NAME PORT.
func portOf(args []string) (apiv1.FabricPortRef, error) {
	guid, err := fabric.ParseGUID(args[1])
	if err != nil {
		return apiv1.FabricPortRef{}, usage("%v", err)
	}
	return apiv1.FabricPortRef{Fabric: args[0], Port: guid.String()}, nil
}

func (a *app) fabricAdd() *cobra.Command {
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Manage the partitions of a fabric",
		Long: `Let Muster manage the partitions of an InfiniBand fabric. From then on Muster alone writes the subnet manager's partitions: ports
that are in no cluster become limited members of the default partition. Name the ports of all subnet managers, those on standby
included.

The --config settings depend on the driver; docs/fabrics.md lists them.`,
		Example: `  muster fabric add ib0 --driver opensm --manager 0x0002c903000a0b0c`,
		Args:    cobra.ExactArgs(1),
	}
	known := drivers.Fabrics().Names()
	driver := c.Flags().String("driver", known[0], "the `DRIVER` of its subnet manager: "+strings.Join(known, " or "))
	managers := c.Flags().StringArray("manager", nil, "the `GUID` of a subnet manager's port; may be repeated")
	settings := c.Flags().StringArray("config", nil, "a setting of the driver, `NAME=VALUE`; may be repeated")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		body := apiv1.FabricSpec{Name: args[0], Driver: *driver, Config: map[string]string{}}
		if len(*managers) == 0 {
			return usage("--manager is missing: name the port of each subnet manager, which must stay in the default " +
				"partition to reach the others")
		}
		for _, text := range *managers {
			guid, err := fabric.ParseGUID(text)
			if err != nil {
				return usage("--manager: %v", err)
			}
			body.Managers = append(body.Managers, guid.String())
		}
		for _, setting := range *settings {
			name, value, ok := strings.Cut(setting, "=")
			if !ok {
				return usage("--config %s is not NAME=VALUE", setting)
			}
			body.Config[name] = value
		}
		return show(ctx, a, apiv1.AddFabric, apiv1.AddFabricInput{Body: body}, *output, func(f apiv1.Fabric) {
			a.say("fabric %s is managed; `muster fabric import %s FILE` adds its ports", f.Name, f.Name)
		})
	})
}

func (a *app) fabricList() *cobra.Command {
	c := listVerb("List fabrics", `List the fabrics whose partitions Muster manages, and whether their ports match.`,
		`  muster fabric list`)
	return listing(a, c, apiv1.ListFabrics, &apiv1.Page{}, func(fabrics []apiv1.Fabric) {
		if len(fabrics) == 0 {
			a.say("no fabric is managed; `muster fabric add` adds one")
			return
		}
		t := newTable("NAME", "DRIVER", "PHASE", "FOR", "READ", "REASON")
		for _, f := range fabrics {
			t.row(f.Name, f.Driver, a.phase(f.Phase), age(f.Since), readAge(f), fabricReason(f.Name, f.Reason))
		}
		t.print(a.out)
	})
}

// fabricReason is a fabric's reason where its name is said already.
func fabricReason(name, reason string) string { return strings.TrimPrefix(reason, "fabric "+name+": ") }

// readAge is how long ago the ports were read.
func readAge(f apiv1.Fabric) string {
	if f.SeenAt.IsZero() {
		return "never"
	}
	return age(f.SeenAt) + " ago"
}

func (a *app) fabricGet() *cobra.Command {
	c := &cobra.Command{
		Use:     "get NAME",
		Short:   "Show a fabric with its partitions and ports",
		Long:    `Show a fabric: its partitions with their members, and its ports with their machines and what was last read from them.`,
		Example: `  muster fabric get ib0`,
		Args:    cobra.ExactArgs(1),
	}
	var ref apiv1.FabricRef
	return showing(a, c, apiv1.GetFabric, &ref, a.printFabric, &ref.Fabric)
}

func (a *app) printFabric(f apiv1.Fabric) {
	t := newTable()
	t.row("name", f.Name)
	t.row("driver", f.Driver)
	for _, name := range slices.Sorted(maps.Keys(f.Config)) {
		t.row("  "+name, f.Config[name])
	}
	t.row("managers", strings.Join(f.Managers, " "))
	t.row("phase", line("%s for %s", a.phase(f.Phase), age(f.Since)))
	t.row("reason", fabricReason(f.Name, f.Reason))
	t.row("read", readAge(f))
	t.print(a.out)
	partitions := newTable("KEY", "OF", "PORTS", "LEAVING").whole()
	for _, p := range f.Partitions {
		of := "cluster " + p.Cluster
		if p.Name != "" {
			of = "site: " + p.Name
		}
		of += textIf(p.Ending, ", ending") + textIf(p.Open, ", open to clusters")
		leaving := len(slices.DeleteFunc(slices.Clone(p.Members), func(m apiv1.FabricMember) bool { return !m.Leaving }))
		partitions.row(p.Key, of, fmt.Sprint(len(p.Members)-leaving), fmt.Sprint(leaving))
	}
	partitions.printBelow(a.out)
	ports := newTable("PORT", "MACHINE", "NAME", "ANSWERS", "ENTRIES", "ROOM").whole()
	for _, p := range f.Ports {
		answers := textIf(!f.SeenAt.IsZero(), yes(p.Answers))
		ports.row(p.Port, p.Machine, p.Name, answers, strings.Join(p.Entries, " "),
			textIf(p.Capacity > 0, fmt.Sprintf("%d of %d", len(p.Entries), p.Capacity)))
	}
	ports.printBelow(a.out)
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func (a *app) fabricRemove() *cobra.Command {
	c := &cobra.Command{
		Use:   "remove NAME",
		Short: "Stop managing a fabric that no cluster uses",
		Long: `Stop managing a fabric. Its subnet manager keeps its last configuration. This is refused while a cluster has a partition there,
or while a removed partition's key may still be on a port.`,
		Example: `  muster fabric remove ib0`,
		Args:    cobra.ExactArgs(1),
	}
	var ref apiv1.FabricRef
	return doing(a, c, apiv1.RemoveFabric, &ref, "fabric %s is no longer managed", &ref.Fabric)
}

func (a *app) fabricDiff() *cobra.Command {
	c := &cobra.Command{
		Use:   "diff NAME",
		Short: "Show which ports differ from the intended partitions",
		Long: `Compare the intended partitions of a fabric's ports with what was last read from them: keys that a port must not hold, keys that
it lacks, and members that do not answer.`,
		Example: `  muster fabric diff ib0`,
		Args:    cobra.ExactArgs(1),
	}
	var ref apiv1.FabricRef
	return showing(a, c, apiv1.DiffFabric, &ref, func(d apiv1.FabricDiff) { a.printDiff(ref.Fabric, d) }, &ref.Fabric)
}

func (a *app) printDiff(name string, d apiv1.FabricDiff) {
	if d.Reason != "" {
		a.say("WARNING: fabric %s: %s", name, fabricReason(name, d.Reason))
	}
	switch {
	case d.SeenAt.IsZero():
		a.say("no port of fabric %s has been read yet", name)
	case d.Applied < d.Revision:
		a.say("the subnet manager of fabric %s has revision %d of %d; its ports were read %s ago", name, d.Applied, d.Revision,
			age(d.SeenAt))
	default:
		a.say("the subnet manager of fabric %s is up to date; its ports were read %s ago", name, age(d.SeenAt))
	}
	if len(d.Ports) == 0 {
		a.say("no port differs")
		return
	}
	t := newTable("PORT", "MACHINE", "MUST NOT HOLD", "LACKS", "ANSWERS")
	for _, p := range d.Ports {
		t.row(p.Port, p.Machine, strings.Join(p.Surplus, " "), strings.Join(p.Missing, " "), yes(!p.Silent))
	}
	t.print(a.out)
}

func (a *app) fabricImport() *cobra.Command {
	c := &cobra.Command{
		Use:   "import NAME FILE",
		Short: "Import a fabric's ports and cables",
		Long: `Import the output of ibnetdiscover: the fabric's ports and cables. A port belongs to the machine in which an inspection found its
adapter, by GUID. Ports that are not in the file are kept, since ibnetdiscover does not see machines that are off.`,
		Example: `  ibnetdiscover > snapshot.txt && muster fabric import ib0 snapshot.txt`,
		Args:    cobra.ExactArgs(2),
	}
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		text, err := os.ReadFile(args[1])
		if err != nil {
			return fmt.Errorf("read the snapshot: %w", err)
		}
		in := apiv1.ImportFabricInput{Fabric: args[0], Body: apiv1.ImportFabricBody{Snapshot: string(text)}}
		return show(ctx, a, apiv1.ImportFabric, in, *output, func(f apiv1.Fabric) {
			known := 0
			for _, p := range f.Ports {
				if p.Machine != "" {
					known++
				}
			}
			a.say("fabric %s has %d ports; %d belong to known machines", f.Name, len(f.Ports), known)
		})
	})
}

func (a *app) fabricInfra() *cobra.Command {
	set := &cobra.Command{
		Use:   "set NAME PARTITION",
		Short: "Create a partition for the site itself, or change its members",
		Long: `Create or change a partition for the site itself, such as storage or management. Its members are exactly the ports named. With
--open the ports of all clusters are limited members too: they reach its full members, but not each other.`,
		Example: `  muster fabric infra set ib0 storage --member 0x0002c903000a0b0c --member 0x0002c903000a0b10 --open`,
		Args:    cobra.ExactArgs(2),
	}
	members := set.Flags().StringArray("member", nil,
		"the `GUID[=limited]` of a port of the fabric, a full member without =limited; may be repeated")
	open := set.Flags().Bool("open", false, "make the ports of all clusters limited members")
	output := formatFlag(set)
	set.RunE = a.do(func(ctx context.Context, args []string) error {
		list := []apiv1.FabricMember{}
		for _, text := range *members {
			text, limited := strings.CutSuffix(strings.TrimSuffix(text, "=full"), "=limited")
			guid, err := fabric.ParseGUID(text)
			if err != nil {
				return usage("--member: %v", err)
			}
			m := apiv1.FabricMember{Port: guid.String(), Membership: "full"}
			if limited {
				m.Membership = "limited"
			}
			list = append(list, m)
		}
		in := apiv1.PutFabricPartitionInput{FabricPartitionRef: apiv1.FabricPartitionRef{Fabric: args[0], Partition: args[1]},
			Body: apiv1.PutFabricPartitionBody{Open: *open, Members: list}}
		return show(ctx, a, apiv1.PutFabricPartition, in, *output, func(f apiv1.Fabric) {
			for _, p := range f.Partitions {
				if p.Name == args[1] && !p.Ending {
					a.say("partition %s of fabric %s has key %s", p.Name, f.Name, p.Key)
				}
			}
		})
	})
	remove := &cobra.Command{
		Use:     "remove NAME PARTITION",
		Short:   "Remove one of the site's partitions",
		Long:    `Remove one of the site's partitions. Its key is reused only once no port holds it.`,
		Example: `  muster fabric infra remove ib0 storage`,
		Args:    cobra.ExactArgs(2),
	}
	var ref apiv1.FabricPartitionRef
	doing(a, remove, apiv1.RemoveFabricPartition, &ref, "partition %[2]s of fabric %[1]s is being removed", &ref.Fabric,
		&ref.Partition)
	return group(&cobra.Command{
		Use:     "infra",
		Short:   "Manage the site's own partitions: storage, management",
		Long:    `The site's own partitions are for what belongs to no cluster. Their keys, from 0x7000 up, are never given to clusters.`,
		Example: `  muster fabric infra set ib0 storage --member 0x0002c903000a0b0c --open`,
	}, set, remove)
}

func (a *app) fabricAssign() *cobra.Command {
	c := &cobra.Command{
		Use:   "assign NAME PORT [MACHINE]",
		Short: "Assign a port to a machine",
		Long: `Assign a port to a machine whose inspection does not find the adapter. Without MACHINE the assignment is dropped, and inspections
decide again. The machine must be free.`,
		Example: `  muster fabric assign ib0 0x0002c903000a0b0d r1n1`,
		Args:    cobra.RangeArgs(2, 3),
	}
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		machine := strings.Join(args[2:], "")
		port, err := portOf(args)
		if err != nil {
			return err
		}
		in := apiv1.AssignFabricPortInput{FabricPortRef: port, Body: apiv1.AssignFabricPortBody{Machine: machine}}
		return show(ctx, a, apiv1.AssignFabricPort, in, *output, func(apiv1.Fabric) {
			if machine == "" {
				a.say("port %s is assigned to no machine", args[1])
				return
			}
			a.say("port %s belongs to machine %s", args[1], machine)
		})
	})
}

func (a *app) fabricForget() *cobra.Command {
	c := &cobra.Command{
		Use:   "forget NAME PORT",
		Short: "Forget a port whose adapter is gone",
		Long: `Forget a port whose adapter was taken out. Until then its machine waits, as the port may still hold its last cluster's key. Use it
only when the adapter is gone: the port is no longer checked before its machine is released.`,
		Example: `  muster fabric forget ib0 0x0002c903000a0b0d`,
		Args:    cobra.ExactArgs(2),
	}
	return a.verb(c, func(ctx context.Context, args []string) error {
		port, err := portOf(args)
		if err != nil {
			return err
		}
		return done(ctx, a, apiv1.ForgetFabricPort, port, "port %s is removed", args[1])
	})
}
