package uplink

import (
	"encoding/binary"
	"errors"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// mostLearned is how many addresses a bridge learns from frames. Without a bound, a machine that sends in ever new names fills
// the host's memory, at some hundred bytes a frame. Machines' own are pinned, and do not count. Frames for what is not learned go
// to all ports of their segment.
const mostLearned = 16384

// fdbMaxLearned is IFLA_BR_FDB_MAX_LEARNED of linux/if_link.h, from Linux 6.8 on.
const fdbMaxLearned = 49

// boundLearning has a bridge learn no more than that. Older kernels know no bound.
func boundLearning(bridge netlink.Link) error {
	request := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(bridge.Attrs().Index)
	request.AddData(message)
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("bridge"))
	info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(fdbMaxLearned, binary.NativeEndian.AppendUint32(nil, mostLearned))
	request.AddData(info)
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}
