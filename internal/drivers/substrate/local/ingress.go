package local

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A cluster's bridge finds its nodes by their MACs, whoever asks for them. So a frame that some other cluster's guest, on
// another host of the segment, sends to one of them would arrive. What comes in by an uplink has to be from the cluster itself: its number
// is in the sender's MAC, which a guest cannot forge. A program of seven instructions, in the kernel, looks.

// sieved lets frames in at an interface only from MACs of that cluster's. It may be called again.
func sieved(links *netlink.Handle, link netlink.Link, segment int) error {
	program, err := load(senders(segment))
	if err != nil {
		return fmt.Errorf("load the program that looks at senders: %w", err)
	}
	defer unix.Close(program)
	at := link.Attrs().Index
	queue := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: at, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
	if err := links.QdiscReplace(queue); err != nil {
		return fmt.Errorf("make a place for a filter (kernel module sch_ingress): %w", err)
	}
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: at, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Priority: 1, Protocol: unix.ETH_P_ALL},
		Fd:          program, Name: "muster-senders", DirectAction: true,
	}
	if err := links.FilterReplace(filter); err != nil {
		return fmt.Errorf("filter senders (kernel module cls_bpf): %w", err)
	}
	return nil
}

// senders is the program: the first four octets of the sender's MAC, at offset 6 of the frame, have to be the cluster's
// (Linux, Documentation/bpf/standardization/instruction-set.rst; substrate.MAC).
func senders(segment int) []byte {
	const keep, drop = 0, 2 // TC_ACT_OK, TC_ACT_SHOT
	var text []byte
	for _, i := range []struct {
		code, registers byte
		skip            int16
		value           uint32
	}{
		{code: 0xbf, registers: 0x16},                              // r6 = r1, the frame, which the next one wants there
		{code: 0x20, value: 6},                                     // r0 = four octets of the frame from there
		{code: 0x15, skip: 2, value: 0x024d<<16 | uint32(segment)}, // the cluster's: skip two
		{code: 0xb7, value: drop},                                  // r0 = drop
		{code: 0x95},                                               // exit
		{code: 0xb7, value: keep},                                  // r0 = keep
		{code: 0x95},                                               // exit
	} {
		text = append(text, i.code, i.registers)
		text = binary.NativeEndian.AppendUint16(text, uint16(i.skip))
		text = binary.NativeEndian.AppendUint32(text, i.value)
	}
	return text
}

// load gives a program to the kernel (bpf(2), BPF_PROG_LOAD). It lasts as long as the file, or what it is attached to.
func load(text []byte) (fd int, err error) {
	license := []byte("GPL\x00") // the kernel asks; what calls no helper may say anything
	request := struct {
		kind, instructions uint32
		text, license      uint64
		level, size        uint32
		log                uint64
		version, flags     uint32
	}{
		kind: unix.BPF_PROG_TYPE_SCHED_CLS, instructions: uint32(len(text) / 8),
		text: uint64(uintptr(unsafe.Pointer(&text[0]))), license: uint64(uintptr(unsafe.Pointer(&license[0]))),
	}
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(&text[0])
	pinned.Pin(&license[0])
	n, _, number := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&request)), unsafe.Sizeof(request))
	if number != 0 {
		return 0, number
	}
	return int(n), nil
}
