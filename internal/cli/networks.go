package cli

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/drivers"
)

func (a *app) networks() *cobra.Command {
	return group(&cobra.Command{
		Use:   "networks",
		Short: "Manage the networks that machines boot from",
		Long: `Whole machines boot over a network that the controller's host is also on: the controller gives them addresses, boot files and
images there, and their agents call it there. Networks of a virtual rack are declared by ` + "`muster rack up`" + `.`,
		Example: `  muster networks list
  muster networks add boot --interface br-boot --address 10.78.0.1/16 --mode own --first 10.78.1.0 --last 10.78.9.255`,
	}, a.networksList(), a.networksAdd(), a.networksRemove())
}

func (a *app) networksList() *cobra.Command {
	c := listVerb("List networks", `List the networks that machines boot from, and who gives addresses there.`,
		`  muster networks list`)
	return listing(a, c, apiv1.ListNetworks, &apiv1.Page{}, a.printNetworks)
}

func (a *app) printNetworks(networks []apiv1.Network) {
	if len(networks) == 0 {
		a.say("there are no networks; `muster networks add` declares one, `muster rack up` makes a virtual one")
		return
	}
	t := newTable("NAME", "INTERFACE", "ADDRESS", "DHCP", "FIRST", "LAST", "UNKNOWN MACHINES", "SWITCH")
	for _, n := range networks {
		t.row(n.Name, n.Interface, n.Address, n.Mode, n.First, n.Last, n.Unknown, n.Switch)
	}
	t.print(a.out)
	for _, n := range networks {
		if n.Warning != "" {
			a.say("WARNING: %s", n.Warning)
		}
	}
}

func (a *app) networksAdd() *cobra.Command {
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Declare a network that machines boot from, or change it",
		Long: `Declare a network that machines boot from. The interface is one of the controller's host and already has the address. If
clusters are to span nodes on that host and on machines, it must be a bridge.

With --mode own, Muster is the segment's DHCP server and gives the addresses from --first to --last. With --mode proxy, the site has
a DHCP server and Muster only adds what to boot. With --mode off, the site's server names Muster's boot files itself.

With --unknown enrol, machines that are not enrolled boot the inspector and are listed by ` + "`muster machines unknown`" + `; with ignore
they get no answer.

A machine is identified by its Ethernet frames: address, boot files and certificates go to its own NIC only. Its DHCP packets may come
by a relay on the network: name that with --relay. Machines behind a router cannot boot.

With --switch, Muster isolates clusters: a machine's port is in its cluster's segment while a cluster uses it, and otherwise in a common
segment in which no machine reaches another. With --switch bridge, the ports are interfaces of the controller's host on the bridge
--interface. With --switch ovs, they are on --switch-bridge of an Open vSwitch on that host. With none, machines are not isolated.`,
		Example: `  muster networks add boot --interface br-boot --address 10.78.0.1/16 --mode own --first 10.78.1.0 --last 10.78.9.255
  muster networks add boot --interface br-boot --address 192.0.2.7/24 --mode proxy --unknown enrol
  muster networks add boot --interface br-boot --address 10.78.0.1/16 --mode off --switch ovs --switch-bridge machines`,
		Args: cobra.ExactArgs(1),
	}
	var n apiv1.Network
	c.Flags().StringVar(&n.Interface, "interface", "", "the `INTERFACE` of the controller's host")
	c.Flags().StringVar(&n.Address, "address", "", "the controller's own `ADDRESS/BITS` there")
	c.Flags().StringVar(&n.Mode, "mode", "own", "who gives addresses, the `MODE`: own, proxy or off")
	c.Flags().StringVar(&n.First, "first", "", "the first `ADDRESS` to give to machines")
	c.Flags().StringVar(&n.Last, "last", "", "the last `ADDRESS` to give to machines")
	c.Flags().StringVar(&n.Gateway, "gateway", "", "the gateway's `ADDRESS`, told to machines")
	c.Flags().StringVar(&n.Unknown, "unknown", "ignore", "what happens to unknown machines, the `POLICY`: ignore or enrol")
	c.Flags().StringSliceVar(&n.Relays, "relay", nil,
		"the `MAC`, on this network, of a DHCP relay; may be repeated")
	c.Flags().StringVar(&n.Switch, "switch", drivers.Switches().Names()[0],
		"what isolates clusters, the `DRIVER`: bridge, ovs or none")
	c.Flags().StringVar(&n.SwitchBridge, "switch-bridge", "", "the `BRIDGE` of Open vSwitch that the machines' ports are on")
	c.Flags().StringVar(&n.SwitchDatabase, "switch-database", "",
		"the `SOCKET` of Open vSwitch's database (default: unix:/run/openvswitch/db.sock)")
	c.Flags().StringVar(&n.Namespace, "namespace", "", "the `PATH` of the network namespace that the interface is in")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		if n.Interface == "" || n.Address == "" {
			return usage("--interface and --address are needed")
		}
		n.SwitchDatabase = cmp.Or(n.SwitchDatabase, drivers.Switches().Named(n.Switch).Database)
		in := apiv1.PutNetworkInput{Network: args[0], Body: n}
		return show(ctx, a, apiv1.PutNetwork, in, *output, func(stored apiv1.Network) {
			a.printNetworks([]apiv1.Network{stored})
		})
	})
}

func (a *app) networksRemove() *cobra.Command {
	c := &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove a network that no machine boots from",
		Long:    `Remove a network. Its machines must have left the inventory; its address leases are forgotten.`,
		Example: `  muster networks remove boot`,
		Args:    cobra.ExactArgs(1),
	}
	var ref apiv1.NetworkRef
	return doing(a, c, apiv1.RemoveNetwork, &ref, "network %s is removed", &ref.Network)
}
