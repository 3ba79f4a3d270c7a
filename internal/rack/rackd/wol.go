package rackd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// etherTypeWoL is that of magic packets which are not UDP.
const etherTypeWoL = 0x0842

// listenersPort is a port of the bridge that hears what the NICs of machines that are off hear: all that is sent to everybody,
// or to an address that no port has shown. It also gives the bridge a carrier while there is no other port.
const listenersPort = "ears"

// wake switches on those who are called, until the listeners are closed.
func wake(ctx context.Context, listeners *os.File, log *slog.Logger, byMAC map[string]*machine) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := listeners.Read(buffer)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			log.Error("Wake-on-LAN", "err", err)
			return
		}
		if n <= headerSize {
			continue
		}
		mac, ok := calls(buffer[headerSize:n])
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

// calls says whom a frame calls: one of EtherType 0x0842, or UDP to port 7 or 9.
func calls(frame []byte) (net.HardwareAddr, bool) {
	if len(frame) < 14 {
		return nil, false
	}
	if binary.BigEndian.Uint16(frame[12:]) == etherTypeWoL {
		return magic(frame[14:])
	}
	_, udp, ok := segment(frame, unix.IPPROTO_UDP)
	if !ok || len(udp) < 8 {
		return nil, false
	}
	if port := binary.BigEndian.Uint16(udp[2:]); port != 7 && port != 9 {
		return nil, false
	}
	return magic(udp[8:])
}

// magic finds the address that a magic packet calls: six bytes of ff and sixteen times the address, anywhere in a payload
// (AMD, Magic Packet Technology, publication 20213).
func magic(payload []byte) (net.HardwareAddr, bool) {
	const repeats, size = 16, 6
	sync := bytes.Repeat([]byte{0xff}, size)
	for at := 0; ; at++ {
		found := bytes.Index(payload[at:], sync)
		if found < 0 {
			return nil, false
		}
		at += found
		rest := payload[at+size:]
		if len(rest) < repeats*size {
			return nil, false
		}
		if mac := rest[:size]; mac[0]&1 == 0 && bytes.Equal(rest[:repeats*size], bytes.Repeat(mac, repeats)) {
			return net.HardwareAddr(bytes.Clone(mac)), true // a group address is no machine's
		}
	}
}
