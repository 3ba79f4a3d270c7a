package netboot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/inventory"
	"muster/internal/kit/netns"
)

// rrq is a read request for a file in mode octet.
func rrq(name string, options ...string) []byte {
	return append([]byte{0, tftpRead}, strings.Join(append([]string{name, "octet"}, options...), "\x00")+"\x00"...)
}

func TestTFTPRequestsAreReadAsTheRFCsSay(t *testing.T) {
	for _, c := range []struct {
		name    string
		packet  []byte
		want    readRequest
		problem uint16
		silent  bool
	}{
		{name: "plain", packet: rrq("a"), want: readRequest{name: "a", block: 512, window: 1, wait: time.Second}},
		{name: "path", packet: rrq("//a/b"), want: readRequest{name: "a/b", block: 512, window: 1, wait: time.Second}},
		{name: "all options", packet: rrq("a", "BLKSIZE", "1428", "tsize", "0", "windowsize", "4", "timeout", "3"),
			want: readRequest{name: "a", block: 1428, window: 4, wait: 3 * time.Second, size: true,
				granted: []string{"blksize", "1428", "windowsize", "4", "timeout", "3"}}},
		{name: "too much", packet: rrq("a", "blksize", "65464", "windowsize", "65535"),
			want: readRequest{name: "a", block: 1468, window: tftpWindow, wait: time.Second,
				granted: []string{"blksize", "1468", "windowsize", "16"}}},
		{name: "nonsense", packet: rrq("a", "blksize", "7", "windowsize", "0", "timeout", "255", "tsize", "x", "multicast", "",
			"blksize"),
			want: readRequest{name: "a", block: 512, window: 1, wait: time.Second}},
		{name: "write", packet: []byte("\x00\x02a\x00octet\x00"), problem: tftpIllegal},
		{name: "text", packet: []byte("\x00\x01a\x00netascii\x00"), problem: tftpIllegal},
		{name: "cut off", packet: []byte("\x00\x01a\x00oct"), silent: true},
		{name: "no mode", packet: []byte("\x00\x01a\x00"), silent: true},
		{name: "an acknowledgement", packet: []byte{0, 4, 0, 0}, silent: true},
		{name: "nothing", silent: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseReadRequest(c.packet, 1500)
			problem := tftpProblem{}
			if told := errors.As(err, &problem); told != (c.problem != 0) || problem.code != c.problem ||
				(err != nil && !told) != c.silent {
				t.Fatalf("the error is %v", err)
			}
			if err == nil && (got.name != c.want.name || got.block != c.want.block || got.window != c.want.window ||
				got.wait != c.want.wait || got.size != c.want.size || !slices.Equal(got.granted, c.want.granted)) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// pair is two ends of a UDP connection.
func pair(t testing.TB, wait time.Duration) (*line, *net.UDPConn) {
	t.Helper()
	client, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	server, err := newLine("", netip.MustParseAddr("127.0.0.1"), client.LocalAddr().(*net.UDPAddr).AddrPort(), wait)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.close(); client.Close() })
	return server, client
}

// receive plays a client that loses every seventh packet, and says every acknowledgement twice if it is to be a nuisance.
func receive(t *testing.T, client *net.UDPConn, block, window int, lossy bool) (content []byte, options string) {
	t.Helper()
	buffer := make([]byte, 4+block)
	next, unacknowledged := uint16(1), 0
	for packets := 1; ; packets++ {
		_ = client.SetReadDeadline(time.Now().Add(time.Minute))
		n, peer, err := client.ReadFromUDP(buffer)
		if err != nil {
			t.Errorf("the server has fallen silent before block %d: %v", next, err)
			return content, options
		}
		if lossy && packets%7 == 0 {
			continue
		}
		acknowledge := func(number uint16) {
			packet := binary.BigEndian.AppendUint16([]byte{0, tftpAck}, number)
			for range 2 {
				_, _ = client.WriteToUDP(packet, peer)
				if !lossy {
					break
				}
			}
			unacknowledged = 0
		}
		switch number := binary.BigEndian.Uint16(buffer[2:]); {
		case buffer[1] == tftpOptAck:
			options = string(buffer[2:n])
			acknowledge(0)
		case number == next:
			content = append(content, buffer[4:n]...)
			next++
			if unacknowledged++; unacknowledged == window || n < len(buffer) {
				acknowledge(number)
			}
			if n < len(buffer) {
				return content, options
			}
		default:
			acknowledge(next - 1) // out of order: RFC 7440, section 4
		}
	}
}

func TestFilesArriveWholeOverABadLine(t *testing.T) {
	for _, c := range []struct {
		name          string
		size          int
		block, window int
		lossy         bool
	}{
		{"empty", 0, 512, 1, false},
		{"shorter than a block", 100, 512, 1, false},
		{"whole blocks", 5 * 512, 512, 1, false},
		{"more blocks than numbers", 70000 * 8, 8, 16, false},
		{"lossy", 20*512 + 1, 512, 1, true},
		{"lossy, in windows", 200*512 + 1, 512, 16, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			content := bytes.Repeat([]byte("0123456789abcde"), c.size/15+1)[:c.size]
			server, client := pair(t, time.Second)
			heard := 0
			r := readRequest{block: c.block, window: c.window, wait: time.Second, size: true, heard: func() { heard++ }}
			sent := make(chan error, 1)
			go func() { sent <- r.send(server, bytes.NewReader(content), int64(c.size)) }()
			got, options := receive(t, client, c.block, c.window, c.lossy)
			if !bytes.Equal(got, content) || !strings.HasPrefix(options, "tsize\x00") {
				t.Errorf("%d bytes of %d, with options %q", len(got), c.size, options)
			}
			if err := <-sent; err != nil && !c.lossy { // the last acknowledgement may be among the lost
				t.Error(err)
			}
			if heard == 0 {
				t.Error("nobody was told that the client was heard")
			}
		})
	}
}

func TestATransferEndsWithItsClient(t *testing.T) {
	r := readRequest{block: 512, window: 1, wait: 50 * time.Millisecond}
	content := bytes.NewReader(make([]byte, 5000))
	for _, c := range []struct {
		name   string
		client func(*net.UDPConn)
		within time.Duration
		says   string
	}{
		{"that falls silent", func(*net.UDPConn) {}, 2 * tftpTries * r.wait, "no acknowledgement"},
		{"that says why", func(c *net.UDPConn) {
			_, peer, _ := c.ReadFromUDP(make([]byte, 600))
			_, _ = c.WriteToUDP([]byte("\x00\x05\x00\x08User aborted\x00"), peer)
		}, 2 * r.wait, `error 8 "User aborted"`},
		{"that is gone", func(c *net.UDPConn) { c.Close() }, 3 * r.wait, "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, client := pair(t, r.wait)
			go c.client(client)
			begin := time.Now()
			err := r.send(server, content, content.Size())
			if err == nil || !strings.Contains(err.Error(), c.says) || time.Since(begin) > c.within+30*time.Second {
				t.Errorf("after %s: %v", time.Since(begin), err)
			}
		})
	}
}

func TestATransferEndsWithTheServices(t *testing.T) {
	r := readRequest{block: 512, window: 1, wait: time.Minute}
	server, _ := pair(t, r.wait)
	ended := make(chan error, 1)
	go func() { ended <- r.send(server, bytes.NewReader(nil), 0) }()
	time.Sleep(50 * time.Millisecond) // it waits for an acknowledgement now
	server.wake()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("nobody has acknowledged the file, and it ended well")
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it goes on waiting")
	}
}

// Requests in names that are made up, or of clients that say nothing more, make room for others; transfers that go on do not, and
// none that has just begun.
func TestSilentClientsMakeRoomForOthers(t *testing.T) {
	all, ended, now := transfers{of: map[netip.Addr]int{}}, map[int]bool{}, time.Now()
	enter := func(n int) *transferPlace {
		return all.enter(netip.AddrFrom4([4]byte{10, 78, byte(n >> 8), byte(n)}), now, func() { ended[n] = true })
	}
	var places []*transferPlace
	for n := range tftpTransfers {
		if places = append(places, enter(n)); places[n] == nil {
			t.Fatalf("transfer %d has no place", n)
		}
	}
	if enter(1000) != nil {
		t.Error("one that has just begun makes room")
	}
	places[1].leave()
	if enter(1000) == nil || len(ended) != 0 {
		t.Errorf("a place is free, and for it ended: %v", ended)
	}
	places[0].heard(now)
	now = now.Add(silentFirst)
	for n := range 3 {
		if enter(2000+n) == nil || len(ended) != n+1 || !ended[2+n] {
			t.Errorf("of silent ones the first goes; ended: %v", ended)
		}
		places[2+n].leave() // as it does then
	}
	if all.all.Len() != tftpTransfers {
		t.Errorf("%d go on", all.all.Len())
	}
	for _, p := range places[5:] {
		p.heard(now)
	}
	if enter(3000) == nil || !ended[1000] || enter(3001) != nil || ended[0] {
		t.Errorf("those that were heard make room at once: %v", ended)
	}
	now = now.Add(silentLater)
	if enter(3001) == nil || !ended[0] {
		t.Errorf("one that was heard is silent since: %v", ended)
	}
	all = transfers{of: map[netip.Addr]int{}}
	for n := range tftpEach + 1 {
		if got := enter(4000) != nil; got != (n < tftpEach) {
			t.Errorf("one machine has place %d: %t", n+1, got)
		}
	}
}

// One address that asks for many files, and acknowledges nothing, keeps no other from its own.
func TestTransfersAreSharesOfMachines(t *testing.T) {
	s := newSegment(t)
	s.serve(inventory.ModeOff, newController(), newFolder(t), nil)
	dial := func(ns string) (conn *net.UDPConn) {
		t.Helper()
		if err := netns.Do(ns, func() (err error) {
			conn, err = net.ListenUDP("udp4", nil)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	ask := func(conn *net.UDPConn) {
		t.Helper()
		to := netip.MustParseAddrPort("10.78.0.1:69")
		if _, err := conn.WriteToUDPAddrPort(rrq("snponly.efi", "timeout", "10"), to); err != nil {
			t.Fatal(err)
		}
	}
	greedy, modest := s.host("52:54:00:00:00:01"), s.host("52:54:00:00:00:02")
	output(t, in(greedy, "ip", "addr", "add", "10.78.1.1/16", "dev", "eth0"))
	output(t, in(modest, "ip", "addr", "add", "10.78.1.2/16", "dev", "eth0"))
	for range tftpTransfers + 50 {
		ask(dial(greedy))
	}
	// It asks again as firmware does: the socket of a busy machine may have no room for one more request.
	conn, answer := dial(modest), make([]byte, 600)
	eventually(t, 30*time.Second, "an answer to the other address", func() bool {
		ask(conn)
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		_, err := conn.Read(answer)
		return err == nil
	})
	if answer[1] != tftpOptAck {
		t.Errorf("%q", answer)
	}
}
