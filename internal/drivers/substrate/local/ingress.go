package local

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"muster/internal/kit/wrap"
)

// A cluster's bridge finds its nodes by their MACs, for any sender. So a frame that some other cluster's guest, on another host
// of the segment, sends to one of them would arrive. What comes in by an uplink has to be from the cluster itself: its number is
// in the sender's MAC, which a guest cannot forge. What goes out has to be for the cluster: else a guest's frames would come to
// whatever else is there, and to every port of it where none has the address. A program in the kernel looks.

// Where a frame has the MACs of its receiver and sender (IEEE 802.3).
const receiver, sender = 0, 6

const filterName = "muster-cluster"

// filterFrames lets frames in at an interface only from MACs of that cluster's, and out only to them, unless it does so already.
func filterFrames(links *netlink.Handle, link netlink.Link, segment int) error {
	at := link.Attrs().Index
	if filtered(links, link, netlink.HANDLE_MIN_INGRESS) && filtered(links, link, netlink.HANDLE_MIN_EGRESS) {
		return nil
	}
	queue := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: at, Handle: netlink.MakeHandle(0xffff, 0),
		Parent: netlink.HANDLE_CLSACT}}
	if err := links.QdiscReplace(queue); err != nil {
		return fmt.Errorf("make a place for a filter (kernel module sch_ingress): %w", err)
	}
	for parent, octet := range map[uint32]int32{netlink.HANDLE_MIN_INGRESS: sender, netlink.HANDLE_MIN_EGRESS: receiver} {
		if err := filter(links, at, parent, ofCluster(octet, segment)); err != nil {
			return err
		}
	}
	return nil
}

func filtered(links *netlink.Handle, link netlink.Link, parent uint32) bool {
	there, err := links.FilterList(link, parent)
	return err == nil && slices.ContainsFunc(there, func(f netlink.Filter) bool {
		bpf, is := f.(*netlink.BpfFilter)
		return is && strings.HasPrefix(bpf.Name, filterName)
	})
}

func filter(links *netlink.Handle, at int, parent uint32, by *ebpf.ProgramSpec) error {
	program, err := ebpf.NewProgram(by)
	if err != nil {
		return fmt.Errorf("load the program that looks at frames: %w", err)
	}
	defer program.Close() // the filter holds it
	err = links.FilterReplace(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: at,
			Parent:    parent,
			Handle:    1,
			Priority:  1,
			Protocol:  unix.ETH_P_ALL,
		},
		Fd:           program.FD(),
		Name:         filterName,
		DirectAction: true,
	})
	return wrap.Errorf(err, "filter frames (kernel module cls_bpf)")
}

// ofCluster is the program: the first four octets of the MAC at an offset of the frame have to be the cluster's (substrate.MAC).
func ofCluster(octet int32, segment int) *ebpf.ProgramSpec {
	const pass, drop = 0, 2 // TC_ACT_OK, TC_ACT_SHOT
	return &ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1), // the frame, where the next instruction wants it
		asm.LoadAbs(octet, asm.Word),
		asm.JEq.Imm32(asm.R0, 0x024d<<16|int32(segment), "pass"),
		asm.Mov.Imm(asm.R0, drop),
		asm.Return(),
		asm.Mov.Imm(asm.R0, pass).WithSymbol("pass"),
		asm.Return(),
	}}
}
