package noded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// listening says whether some process of this network listens on the TCP port of the loopback address, by that address or by all.
// It only asks the kernel: no daemon notices. Over sock_diag(7) the kernel looks the one socket up, as it does for a packet;
// to list them it walks the tables of all listeners of the host, 0.3 ms, and for /proc/net/tcp that of connections, 1 ms. With
// fifty nodes that start, either is felt. The table is for kernels without the module.
func listening(port int) bool {
	for family, loopback := range map[uint8]net.IP{unix.AF_INET: net.IPv4(127, 0, 0, 1).To4(), unix.AF_INET6: net.IPv6loopback} {
		request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, 0)
		request.AddData(socketAt{family, uint16(port), loopback})
		answers, err := request.Execute(unix.NETLINK_SOCK_DIAG, 0)
		switch {
		case errors.Is(err, unix.ENOENT):
		case err != nil:
			return listeningByTable(port)
		case len(answers) > 0 && len(answers[0]) > 1 && answers[0][1] == tcpListen: // struct inet_diag_msg: family, state
			return true
		}
	}
	return false
}

const tcpListen = 10 // TCP_LISTEN in include/net/tcp_states.h

// socketAt asks for the TCP socket that a first packet to this address and port would reach: struct inet_diag_req_v2
// (linux/inet_diag.h).
type socketAt struct {
	family  uint8
	port    uint16
	address net.IP
}

func (socketAt) Len() int { return 56 }

func (s socketAt) Serialize() []byte {
	const states, sourcePort, source, cookie = 4, 8, 12, 48
	request := make([]byte, s.Len())
	request[0], request[1] = s.family, unix.IPPROTO_TCP
	nl.NativeEndian().PutUint32(request[states:], 1<<tcpListen)
	binary.BigEndian.PutUint16(request[sourcePort:], s.port)
	copy(request[source:], s.address)
	nl.NativeEndian().PutUint64(request[cookie:], math.MaxUint64) // INET_DIAG_NOCOOKIE, twice
	return request
}

// listeningByTable asks for the table of the thread's own network: /proc/net is that of the process's first thread, which may be
// elsewhere for a while (internal/kit/netns).
func listeningByTable(port int) bool {
	for _, file := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/thread-self/net/" + file)
		if err == nil && listensIn(string(text), port) {
			return true
		}
	}
	return false
}

// listensIn looks for the port in state 0A, LISTEN; the second word is the local address, the fourth the state.
func listensIn(table string, port int) bool {
	suffix := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		if len(words) > 3 && words[3] == "0A" && strings.HasSuffix(words[1], suffix) {
			return true
		}
	}
	return false
}
