// Package drivers is the list of all drivers. To add one is to write its folder below its family's, and its line here.
//
// What leaves: one registry a family, each a plain value that is handed to its users. Nothing else in the house names a
// driver; what others must know of one they ask of its declaration.
package drivers

import (
	fabrics "muster/internal/drivers/fabric"
	"muster/internal/drivers/fabric/opensm"
	"muster/internal/drivers/fabric/ufm"
	"muster/internal/drivers/power"
	"muster/internal/drivers/power/ipmi"
	"muster/internal/drivers/power/program"
	"muster/internal/drivers/power/redfish"
	"muster/internal/drivers/power/wol"
	"muster/internal/drivers/scheduler"
	noscheduler "muster/internal/drivers/scheduler/none"
	"muster/internal/drivers/scheduler/slurm"
	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/local"
	"muster/internal/drivers/substrate/metal"
	"muster/internal/drivers/substrate/vm"
	switches "muster/internal/drivers/switch"
	"muster/internal/drivers/switch/bridge"
	"muster/internal/drivers/switch/none"
	"muster/internal/drivers/switch/ovs"
)

// Schedulers are what starts jobs on a cluster's nodes.
func Schedulers() scheduler.Registry {
	return scheduler.Registry{
		slurm.Factory(),
		noscheduler.Factory(),
	}
}

// Substrates are what can carry nodes.
func Substrates() substrate.Registry {
	return substrate.Registry{
		local.Factory(),
		vm.Factory(),
		metal.Factory(),
	}
}

// Power are the ways to switch machines, in the order in which people are told of them.
func Power() power.Registry {
	return power.Registry{
		wol.Factory(),
		ipmi.Factory(),
		redfish.Factory(),
		program.Factory(),
	}
}

// Switches are what keeps machines of different clusters apart on a network. The first is that of networks that name none.
func Switches() switches.Registry {
	return switches.Registry{
		none.Factory(),
		bridge.Factory(),
		ovs.Factory(),
	}
}

// Fabrics are what tells the subnet managers of InfiniBand fabrics. The first is what a fabric gets that names none.
func Fabrics() fabrics.Registry {
	return fabrics.Registry{
		opensm.Factory(),
		ufm.Factory(),
	}
}
