package noded

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Rules of this network for its routes, in order. The local table is the first rule of every system; ours must be before.
const (
	refuseRule = 1
	localRule  = 2
)

// refuseOrdinaryPorts makes this network refuse connections to the NFS server from ports that anybody may use. The server
// would take them and serve nothing, but it takes a limited number. Port 65535 is left, as no rule of the kernel's can name it:
// one connection for each address. It may be called again.
func refuseOrdinaryPorts() error {
	local := netlink.NewRule()
	local.Family, local.Table, local.Priority = unix.AF_INET, unix.RT_TABLE_LOCAL, localRule
	refuse := netlink.NewRule()
	refuse.Family, refuse.Priority, refuse.Type, refuse.IPProto = unix.AF_INET, refuseRule, unix.FR_ACT_PROHIBIT, unix.IPPROTO_TCP
	refuse.Sport, refuse.Dport = netlink.NewRulePortRange(1024, 65534), netlink.NewRulePortRange(nfsPort, nfsPort)
	for _, rule := range []*netlink.Rule{local, refuse} {
		if err := netlink.RuleAdd(rule); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("refuse connections from ordinary ports to the NFS server: %w", err)
		}
		if rule == local { // it is there, so the first one may go
			first := netlink.NewRule()
			first.Family, first.Table, first.Priority = unix.AF_INET, unix.RT_TABLE_LOCAL, 0
			if err := netlink.RuleDel(first); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("put a rule before the local ones: %w", err)
			}
		}
	}
	return nil
}
