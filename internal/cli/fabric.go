package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"muster/internal/apiv1"
	"muster/internal/drivers"
	"muster/internal/fabric"
)

func (a *app) fabric() *cobra.Command {
	return group(&cobra.Command{
		Use:   "fabric",
		Short: "Keep InfiniBand fabrics: partitions, ports, what differs",
		Long: `Every cluster has a partition of its own on each InfiniBand fabric that its machines are on. Muster tells the fabric's subnet
manager who is in which, and reads all ports to see that it is so: a node boots when its ports were seen with its cluster's
key, and a machine is given on when they were seen without it.`,
		Example: `  muster fabric add ib0 --driver opensm --manager 0x0002c903000a0b0c --config partitions=/etc/opensm/partitions.conf
  ibnetdiscover > snapshot.txt && muster fabric import ib0 snapshot.txt
  muster fabric diff ib0`,
	}, a.fabricAdd(), a.fabricList(), a.fabricGet(), a.fabricRemove(), a.fabricDiff(), a.fabricImport(), a.fabricCables(), a.fabricInfra(), a.fabricAssign(), a.fabricForget())
}

// portOf reads NAME PORT.
func portOf(args []string) (apiv1.FabricPortRef, error) {
	guid, err := fabric.ParseGUID(args[1])
	if err != nil {
		return apiv1.FabricPortRef{}, usage("%v", err)
	}
	return apiv1.FabricPortRef{Fabric: args[0], Port: apiv1.PortGUID{GUID: guid}}, nil
}

func (a *app) fabricAdd() *cobra.Command {
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Keep the partitions of a fabric",
		Long: `Have Muster keep the partitions of an InfiniBand fabric. From then on what its subnet manager is told comes from Muster alone: ports
that are in no cluster are limited members of the default partition. The ports of all subnet managers must be named, those on
standby included.

What --config says depends on the driver; the page on fabrics lists it.`,
		Example: `  muster fabric add ib0 --driver opensm --manager 0x0002c903000a0b0c --config partitions=/etc/opensm/partitions.conf`,
		Args:    cobra.ExactArgs(1),
	}
	known := drivers.Fabrics().Names()
	driver := c.Flags().String("driver", known[0], "what tells its subnet manager, the `DRIVER`: "+strings.Join(known, " or "))
	managers := c.Flags().StringArray("manager", nil, "the `GUID` of a port of a subnet manager; may be given several times")
	settings := c.Flags().StringArray("config", nil, "what the driver is told, `NAME=VALUE`; may be given several times")
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		body := apiv1.FabricSpec{Name: args[0], Driver: *driver, Config: map[string]string{}}
		if len(*managers) == 0 {
			return usage("--manager is needed: without one in the default partition nothing can be managed")
		}
		for _, text := range *managers {
			guid, err := fabric.ParseGUID(text)
			if err != nil {
				return usage("--manager: %v", err)
			}
			body.Managers = append(body.Managers, guid)
		}
		for _, setting := range *settings {
			name, value, ok := strings.Cut(setting, "=")
			if !ok {
				return usage("--config %s is not NAME=VALUE", setting)
			}
			body.Config[name] = value
		}
		return show(ctx, a, apiv1.AddFabric, apiv1.AddFabricInput{Body: body}, *output, func(f apiv1.Fabric) {
			a.say("fabric %s is kept; `muster fabric import %s` tells its ports", f.Name, f.Name)
		})
	})
	return c
}

func (a *app) fabricList() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List fabrics",
		Long:    `List the fabrics whose partitions are kept, and whether their ports are as they are to be.`,
		Example: `  muster fabric list`,
		Args:    cobra.NoArgs,
	}
	return listing(a, c, apiv1.ListFabrics, func(fabrics []apiv1.Fabric) {
		if len(fabrics) == 0 {
			a.say("there are no fabrics; `muster fabric add` has one kept")
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
		Long:    `Show a fabric: its partitions with their members, and its ports with the machines that they belong to and what was read from them.`,
		Example: `  muster fabric get ib0`,
		Args:    cobra.ExactArgs(1),
	}
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		return show(ctx, a, apiv1.GetFabric, apiv1.FabricRef{Fabric: args[0]}, *output, a.printFabric)
	})
	return c
}

func (a *app) printFabric(f apiv1.Fabric) {
	t := newTable()
	t.row("name", f.Name)
	t.row("driver", f.Driver)
	for _, name := range slices.Sorted(maps.Keys(f.Config)) {
		t.row("  "+name, f.Config[name])
	}
	t.row("managers", spell(f.Managers))
	t.row("phase", line("%s for %s", a.phase(f.Phase), age(f.Since)))
	t.row("reason", fabricReason(f.Name, f.Reason))
	t.row("read", readAge(f))
	t.print(a.out)
	if len(f.Partitions) > 0 {
		a.out.gap()
		t := newTable("KEY", "OF", "PORTS", "LEAVING").whole()
		for _, p := range f.Partitions {
			of := "cluster " + p.Cluster
			if p.Name != "" {
				of = "site: " + p.Name
			}
			if p.Ending {
				of += ", ending"
			}
			if p.Open {
				of += ", open to clusters"
			}
			leaving := len(slices.DeleteFunc(slices.Clone(p.Members), func(m apiv1.FabricMember) bool { return !m.Leaving }))
			t.row(p.Key.String(), of, fmt.Sprint(len(p.Members)-leaving), fmt.Sprint(leaving))
		}
		t.print(a.out)
	}
	if len(f.Ports) > 0 {
		a.out.gap()
		t := newTable("PORT", "MACHINE", "NAME", "ANSWERS", "ENTRIES", "ROOM").whole()
		for _, p := range f.Ports {
			answers := yes(p.Answers)
			if f.SeenAt.IsZero() {
				answers = "" // nobody has asked it
			}
			t.row(p.Port.String(), p.Machine, p.Name, answers, spell(p.Entries), portRoom(len(p.Entries), p.Capacity))
		}
		t.print(a.out)
	}
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func portRoom(used, of int) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", used, of)
}

// spell writes GUIDs, or entries.
func spell[T fmt.Stringer](all []T) string {
	var words []string
	for _, one := range all {
		words = append(words, one.String())
	}
	return strings.Join(words, " ")
}

func (a *app) fabricRemove() *cobra.Command {
	c := &cobra.Command{
		Use:   "remove NAME",
		Short: "Stop keeping a fabric that no cluster is on",
		Long: `Stop keeping a fabric. Its subnet manager stays as it was told last; nothing of it is changed any more. No cluster may have a
partition there, nor a key that was not yet seen gone from all ports.`,
		Example: `  muster fabric remove ib0`,
		Args:    cobra.ExactArgs(1),
	}
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		return do(ctx, a, apiv1.RemoveFabric, apiv1.FabricRef{Fabric: args[0]}, "fabric %s is no longer managed", args[0])
	})
	return c
}

func (a *app) fabricDiff() *cobra.Command {
	c := &cobra.Command{
		Use:   "diff NAME",
		Short: "Show how ports differ from what is wanted",
		Long: `Show what is wanted of a fabric's ports beside what was read from them last: keys that a port holds and must not, keys that it lacks, and
members that do not answer.`,
		Example: `  muster fabric diff ib0`,
		Args:    cobra.ExactArgs(1),
	}
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		return show(ctx, a, apiv1.DiffFabric, apiv1.FabricRef{Fabric: args[0]}, *output, func(d apiv1.FabricDiff) { a.printDiff(args[0], d) })
	})
	return c
}

func (a *app) printDiff(name string, d apiv1.FabricDiff) {
	if d.Reason != "" {
		a.say("WARNING: fabric %s: %s", name, fabricReason(name, d.Reason))
	}
	switch {
	case d.SeenAt.IsZero():
		a.say("no port of fabric %s was read yet", name)
	case d.Applied < d.Revision:
		a.say("the manager of fabric %s has revision %d of %d; its ports were read %s ago", name, d.Applied, d.Revision, age(d.SeenAt))
	default:
		a.say("the manager of fabric %s has all that is wanted; its ports were read %s ago", name, age(d.SeenAt))
	}
	if len(d.Ports) == 0 {
		a.say("no port differs")
		return
	}
	t := newTable("PORT", "MACHINE", "MUST NOT HOLD", "LACKS", "ANSWERS")
	for _, p := range d.Ports {
		t.row(p.Port.String(), p.Machine, spell(p.Surplus), spell(p.Missing), yes(!p.Silent))
	}
	t.print(a.out)
}

func (a *app) fabricImport() *cobra.Command {
	c := &cobra.Command{
		Use:   "import NAME FILE",
		Short: "Import a fabric's ports and cables",
		Long: `Import what ibnetdiscover prints: the fabric's ports and how they are cabled. Ports belong to the machines in which an inspection
has found their adapters, by GUID. Ports that are not in the file stay known, since a machine that is off is in none.`,
		Example: `  ibnetdiscover > snapshot.txt && muster fabric import ib0 snapshot.txt`,
		Args:    cobra.ExactArgs(2),
	}
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, args []string) error {
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
			a.say("fabric %s has %d ports, %d of them of known machines", f.Name, len(f.Ports), known)
		})
	})
	return c
}

func (a *app) fabricInfra() *cobra.Command {
	set := &cobra.Command{
		Use:   "set NAME PARTITION",
		Short: "Make a partition of the site's own, or change who is in it",
		Long: `Make a partition of the site's own, for storage or for what manages the site. Its members are the ports named, and no others. With
--open all clusters' ports are limited members besides: they reach its full members, and not each other.`,
		Example: `  muster fabric infra set ib0 storage --member 0x0002c903000a0b0c --member 0x0002c903000a0b10 --open`,
		Args:    cobra.ExactArgs(2),
	}
	members := set.Flags().StringArray("member", nil, "the `GUID[=limited]` of a port that the fabric was imported with, a full member unless said otherwise; may be given several times")
	open := set.Flags().Bool("open", false, "let all clusters' ports be limited members")
	output := formatFlag(set)
	set.RunE = a.do(func(ctx context.Context, args []string) error {
		list := []apiv1.FabricMember{}
		for _, text := range *members {
			text, limited := strings.CutSuffix(strings.TrimSuffix(text, "=full"), "=limited")
			guid, err := fabric.ParseGUID(text)
			if err != nil {
				return usage("--member: %v", err)
			}
			m := apiv1.FabricMember{Port: guid, Membership: "full"}
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
		Short:   "End a partition of the site's own",
		Long:    `End a partition of the site's own. Its key is not used again before every port was seen without it.`,
		Example: `  muster fabric infra remove ib0 storage`,
		Args:    cobra.ExactArgs(2),
	}
	remove.RunE = a.do(func(ctx context.Context, args []string) error {
		in := apiv1.FabricPartitionRef{Fabric: args[0], Partition: args[1]}
		return do(ctx, a, apiv1.RemoveFabricPartition, in, "partition %s of fabric %s ends", args[1], args[0])
	})
	return group(&cobra.Command{
		Use:     "infra",
		Short:   "Keep partitions of the site's own: storage, management",
		Long:    `Partitions of the site's own are for what no cluster owns. Their keys, from 0x7000 on, are never a cluster's.`,
		Example: `  muster fabric infra set ib0 storage --member 0x0002c903000a0b0c --open`,
	}, set, remove)
}

func (a *app) fabricAssign() *cobra.Command {
	c := &cobra.Command{
		Use:   "assign NAME PORT [MACHINE]",
		Short: "Say whose machine's a port is",
		Long: `Say which machine a port belongs to, where its inspection does not find the adapter; without a machine the port is nobody's, and
what inspections find counts again. The machine must be free.`,
		Example: `  muster fabric assign ib0 0x0002c903000a0b0d r1n1`,
		Args:    cobra.RangeArgs(2, 3),
	}
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		machine := strings.Join(args[2:], "")
		port, err := portOf(args)
		if err != nil {
			return err
		}
		in := apiv1.AssignFabricPortInput{FabricPortRef: port, Body: apiv1.AssignFabricPortBody{Machine: machine}}
		return show(ctx, a, apiv1.AssignFabricPort, in, *output, func(apiv1.Fabric) {
			if machine == "" {
				a.say("port %s is nobody's", args[1])
				return
			}
			a.say("port %s is that of machine %s", args[1], machine)
		})
	})
	return c
}

func (a *app) fabricForget() *cobra.Command {
	c := &cobra.Command{
		Use:   "forget NAME PORT",
		Short: "Forget a port whose adapter is gone",
		Long: `Forget a port, and that it may still hold a key of its last cluster: a machine waits for a port that never answers again. Say it only
when the adapter was taken out, since nobody looks at the port any more before its machine is given on.`,
		Example: `  muster fabric forget ib0 0x0002c903000a0b0d`,
		Args:    cobra.ExactArgs(2),
	}
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		port, err := portOf(args)
		if err != nil {
			return err
		}
		return do(ctx, a, apiv1.ForgetFabricPort, port, "port %s is forgotten", args[1])
	})
	return c
}
