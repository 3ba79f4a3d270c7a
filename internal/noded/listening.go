package noded

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// listening says whether some process of this network listens on the TCP port. It only asks the kernel: no daemon
// notices. Over sock_diag(7) the kernel looks at listening sockets alone; /proc/net/tcp has it walk the host's whole
// table of connections, 1 ms each time, which with 50 nodes was a quarter of all the time of their start. The table is
// for kernels without the module.
func listening(port int) bool {
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		answers, err := listeners(family)
		if err != nil {
			return listeningByTable(port)
		}
		for _, a := range answers {
			// struct inet_diag_msg: four bytes, then the source port in network byte order.
			if len(a) >= 6 && int(binary.BigEndian.Uint16(a[4:])) == port {
				return true
			}
		}
	}
	return false
}

// listenersOf is struct inet_diag_req_v2 for all listening TCP sockets of a family (linux/inet_diag.h).
type listenersOf uint8

func (listenersOf) Len() int { return 56 }

func (family listenersOf) Serialize() []byte {
	const tcpListen = 10 // TCP_LISTEN in include/net/tcp_states.h; the request has a bit for each state
	request := make([]byte, family.Len())
	request[0], request[1] = byte(family), unix.IPPROTO_TCP
	nl.NativeEndian().PutUint32(request[4:], 1<<tcpListen)
	return request
}

func listeners(family uint8) ([][]byte, error) {
	request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
	request.AddData(listenersOf(family))
	return request.Execute(unix.NETLINK_SOCK_DIAG, 0)
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
