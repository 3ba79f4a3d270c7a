package local

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A cluster's bridge finds its nodes by their MACs, whoever asks for them. So a frame that some other cluster's guest, on
// another host of the segment, sends to one of them would arrive. What comes in by an uplink has to be from the cluster itself:
// its number is in the sender's MAC, which a guest cannot forge. A program in the kernel looks.

// filterSenders lets frames in at an interface only from MACs of that cluster's. It may be called again.
func filterSenders(links *netlink.Handle, link netlink.Link, segment int) error {
	program, err := ebpf.NewProgram(senders(segment))
	if err != nil {
		return fmt.Errorf("load the program that looks at senders: %w", err)
	}
	defer program.Close() // the filter holds it
	at := link.Attrs().Index
	queue := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: at, Handle: netlink.MakeHandle(0xffff, 0),
		Parent: netlink.HANDLE_CLSACT}}
	if err := links.QdiscReplace(queue); err != nil {
		return fmt.Errorf("make a place for a filter (kernel module sch_ingress): %w", err)
	}
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: at,
			Parent:    netlink.HANDLE_MIN_INGRESS,
			Handle:    1,
			Priority:  1,
			Protocol:  unix.ETH_P_ALL,
		},
		Fd:           program.FD(),
		Name:         "muster-senders",
		DirectAction: true,
	}
	if err := links.FilterReplace(filter); err != nil {
		return fmt.Errorf("filter senders (kernel module cls_bpf): %w", err)
	}
	return nil
}

// senders is the program: the first four octets of the sender's MAC, at offset 6 of the frame, have to be the cluster's
// (substrate.MAC).
func senders(segment int) *ebpf.ProgramSpec {
	const pass, drop = 0, 2 // TC_ACT_OK, TC_ACT_SHOT
	return &ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1), // the frame, where the next instruction wants it
		asm.LoadAbs(6, asm.Word),
		asm.JEq.Imm32(asm.R0, 0x024d<<16|int32(segment), "pass"),
		asm.Mov.Imm(asm.R0, drop),
		asm.Return(),
		asm.Mov.Imm(asm.R0, pass).WithSymbol("pass"),
		asm.Return(),
	}}
}
