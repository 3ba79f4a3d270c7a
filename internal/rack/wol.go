package rack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"muster/internal/netns"
)

// etherTypeWoL is that of magic packets which are not UDP.
const etherTypeWoL = 0x0842

// magicFilter passes frames of EtherType 0x0842, and UDP over IPv4 to ports 7 and 9, so that nothing else is copied.
func magicFilter() ([]bpf.RawInstruction, error) {
	return bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: etherTypeWoL, SkipTrue: 9},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.ETH_P_IP, SkipTrue: 9},
		bpf.LoadAbsolute{Off: 14 + 9, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_UDP, SkipTrue: 7},
		bpf.LoadAbsolute{Off: 14 + 6, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x1fff, SkipTrue: 5}, // not the first fragment
		bpf.LoadMemShift{Off: 14},
		bpf.LoadIndirect{Off: 14 + 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 7, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 9, SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	})
}

// listenForMagic hears what the NICs of machines that are off would hear: frames on the bridge, sent from this host or by
// another machine, to whatever address.
func listenForMagic(namespace string) (*packet.Conn, error) {
	filter, err := magicFilter()
	if err != nil {
		return nil, fmt.Errorf("filter of Wake-on-LAN: %w", err)
	}
	var conn *packet.Conn
	err = netns.Do(namespace, func() error {
		bridge, err := net.InterfaceByName(bridgeName)
		if err != nil {
			return err
		}
		// Only sockets for all protocols hear what is sent from this host.
		conn, err = packet.Listen(bridge, packet.Raw, unix.ETH_P_ALL, &packet.Config{Filter: filter})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen for Wake-on-LAN: %w", err)
	}
	if err := conn.SetPromiscuous(true); err != nil {
		conn.Close()
		return nil, fmt.Errorf("listen for Wake-on-LAN: %w", err)
	}
	return conn, nil
}

// wake switches on those who are called, until the socket is closed.
func wake(ctx context.Context, conn *packet.Conn, log *slog.Logger, byMAC map[string]*machine) {
	buffer := make([]byte, 1<<16)
	for {
		n, _, err := conn.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			return
		}
		if err != nil {
			log.Error("Wake-on-LAN", "err", err)
			return
		}
		mac, ok := magic(buffer[:n])
		if !ok {
			continue
		}
		m := byMAC[mac.String()]
		if m == nil || m.isOn() {
			continue
		}
		log.Info("magic packet", "machine", m.Name)
		go func() { // others may be called meanwhile
			if err := m.on(ctx); err != nil {
				log.Error("magic packet", "err", err)
			}
		}()
	}
}

// magic finds the address that a magic packet calls: six bytes of ff and sixteen times the address, anywhere in a frame
// (AMD, Magic Packet Technology, publication 20213).
func magic(frame []byte) (net.HardwareAddr, bool) {
	const repeats, size = 16, 6
	sync := bytes.Repeat([]byte{0xff}, size)
	for at := 0; ; at++ {
		found := bytes.Index(frame[at:], sync)
		if found < 0 {
			return nil, false
		}
		at += found
		rest := frame[at+size:]
		if len(rest) < repeats*size {
			return nil, false
		}
		if mac := rest[:size]; mac[0]&1 == 0 && bytes.Equal(rest[:repeats*size], bytes.Repeat(mac, repeats)) {
			return net.HardwareAddr(bytes.Clone(mac)), true // group addresses are nobody's
		}
	}
}
