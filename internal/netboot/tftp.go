package netboot

import (
	"container/list"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"muster/internal/kit/netns"
)

// Packets of TFTP (RFC 1350, section 5; RFC 2347).
const (
	tftpRead   = 1
	tftpData   = 3
	tftpAck    = 4
	tftpError  = 5
	tftpOptAck = 6
)

// Error codes of TFTP (RFC 1350, appendix).
const (
	tftpOther    = 0
	tftpNotFound = 1
	tftpIllegal  = 4
)

const (
	tftpTransfers = 256         // at once
	tftpEach      = 8           // of one address: a machine has one or two
	tftpTries     = 5           // sendings of one window
	tftpWait      = time.Second // for an acknowledgement, unless the client asks for another time
	tftpLongest   = 10          // seconds that it may ask for
	tftpBlock     = 512
	tftpWindow    = 16 // blocks; the most that is granted
	tftpRequest   = 1024
)

// readRequest is what a client asks for: RFC 1350 with options of RFC 2348 (blksize), 2349 (tsize, timeout) and 7440
// (windowsize).
type readRequest struct {
	name    string
	block   int           // bytes of a block
	window  int           // blocks that are sent before an acknowledgement is waited for
	wait    time.Duration // for an acknowledgement
	granted []string      // options that were understood, each followed by its value
	heard   func()        // is told of each packet that comes from the client; nil: nothing is
	size    bool          // the size is to be told; the value of tsize is filled in later
}

// tftpProblem is an error that the client is told.
type tftpProblem struct {
	code uint16
	text string
}

func (p tftpProblem) Error() string { return p.text }

// parseReadRequest reads the first packet of a transfer; mtu bounds its blocks, which are not to be fragmented. An error that is
// no tftpProblem is a packet that is not answered.
func parseReadRequest(packet []byte, mtu int) (readRequest, error) {
	if len(packet) < 4 || packet[len(packet)-1] != 0 {
		return readRequest{}, errors.New("no TFTP request")
	}
	code, fields := binary.BigEndian.Uint16(packet), strings.Split(string(packet[2:len(packet)-1]), "\x00")
	switch {
	case code == 2:
		return readRequest{}, tftpProblem{tftpIllegal, "nothing can be written here"}
	case code != tftpRead || len(fields) < 2:
		return readRequest{}, errors.New("no TFTP request")
	case !strings.EqualFold(fields[1], "octet"):
		return readRequest{}, tftpProblem{tftpIllegal, "use mode octet (binary)"}
	}
	r := readRequest{name: strings.TrimLeft(fields[0], "/"), block: tftpBlock, window: 1, wait: tftpWait}
	for options := fields[2:]; len(options) >= 2; options = options[2:] {
		r.option(strings.ToLower(options[0]), options[1], mtu)
	}
	return r, nil
}

// option takes over one option; one that is unknown or makes no sense is left out of the answer, as RFC 2347 asks.
func (r *readRequest) option(name, value string, mtu int) {
	const headers = 20 + 8 + 4 // IPv4, UDP, TFTP
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return
	}
	switch {
	case name == "blksize" && 8 <= n && n <= 65464:
		r.block = min(int(n), max(mtu-headers, tftpBlock))
		r.grant(name, r.block)
	case name == "windowsize" && 1 <= n && n <= 65535:
		r.window = min(int(n), tftpWindow)
		r.grant(name, r.window)
	case name == "timeout" && 1 <= n && n <= tftpLongest:
		r.wait = time.Duration(n) * time.Second
		r.grant(name, int(n))
	case name == "tsize":
		r.size = true
	}
}

func (r *readRequest) grant(name string, value int) {
	r.granted = append(r.granted, name, strconv.Itoa(value))
}

// serveTFTP starts a transfer for each request, until the socket is closed. A transfer has a socket of its own (RFC 1350,
// section 4).
func (s *server) serveTFTP(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running := transfers{of: map[netip.Addr]int{}}
	var all sync.WaitGroup
	buffer := make([]byte, tftpRequest)
	for {
		n, peer, err := s.tftp.ReadFromUDPAddrPort(buffer)
		if err != nil {
			cancel()
			all.Wait()
			return err
		}
		r, err := parseReadRequest(buffer[:n], s.mtu)
		if problem, is := errors.AsType[tftpProblem](err); is {
			_, _ = s.tftp.WriteToUDPAddrPort(errorPacket(problem), peer)
		}
		if err != nil {
			continue
		}
		ctx, end := context.WithCancel(ctx)
		place := running.enter(peer.Addr(), time.Now(), end)
		if place == nil {
			end()
			continue
		}
		r.heard = func() { place.heard(time.Now()) }
		all.Go(func() {
			defer end()
			defer place.leave()
			s.transfer(ctx, r, peer)
		})
	}
}

// transfers are those that go on. The address that a request came from may be made up: where there is no room, one whose client
// is silent makes some.
type transfers struct {
	mu  sync.Mutex
	of  map[netip.Addr]int
	all list.List // of *transferPlace; those that were heard last, or began last, are at the end
}

// transferPlace is one transfer's.
type transferPlace struct {
	in    *transfers
	peer  netip.Addr
	end   context.CancelFunc
	at    *list.Element
	last  time.Time // that its client was heard, or asked
	known bool      // its client was heard
	gone  bool
}

// How long a client may be silent before its transfer makes room for others: one that has asked and said nothing more, and one
// that has said something. A healthy one answers within milliseconds, but may have to be told again.
const (
	silentFirst = 500 * time.Millisecond
	silentLater = 5 * time.Second
)

// enter takes a place; nil: there is none. end ends a transfer that makes room for others.
func (t *transfers) enter(peer netip.Addr, now time.Time, end context.CancelFunc) *transferPlace {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[peer] >= tftpEach {
		return nil
	}
	if t.all.Len() >= tftpTransfers && !t.makeRoom(now) {
		return nil
	}
	t.of[peer]++
	p := &transferPlace{in: t, peer: peer, end: end, last: now}
	p.at = t.all.PushBack(p)
	return p
}

// makeRoom ends the transfer whose client has been silent for longest, if that is long enough; mu is held.
func (t *transfers) makeRoom(now time.Time) bool {
	for at := t.all.Front(); at != nil; at = at.Next() {
		p := at.Value.(*transferPlace)
		patience := silentFirst
		if p.known {
			patience = silentLater
		}
		if now.Sub(p.last) >= patience {
			p.free()
			p.end()
			return true
		}
	}
	return false
}

// free gives the place back; mu is held.
func (p *transferPlace) free() {
	if p.gone {
		return
	}
	p.gone = true
	p.in.all.Remove(p.at)
	if p.in.of[p.peer]--; p.in.of[p.peer] == 0 {
		delete(p.in.of, p.peer)
	}
}

func (p *transferPlace) heard(now time.Time) {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	if !p.gone {
		p.known, p.last = true, now
		p.in.all.MoveToBack(p.at)
	}
}

func (p *transferPlace) leave() {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	p.free()
}

func errorPacket(p tftpProblem) []byte {
	packet := binary.BigEndian.AppendUint16([]byte{0, tftpError}, p.code)
	return append(append(packet, p.text...), 0)
}

// transfer sends a file, or says why not. It ends with ctx.
func (s *server) transfer(ctx context.Context, r readRequest, peer netip.AddrPort) {
	var conn *line
	err := netns.Do(s.Network.Namespace, func() (err error) {
		conn, err = newLine(s.Network.Interface, s.address(), peer, r.wait)
		return err
	})
	if err != nil {
		s.Log.Debug("cannot answer a TFTP request", "to", peer, "error", err)
		return
	}
	defer conn.close()
	defer context.AfterFunc(ctx, conn.wake)()
	file, size, err := s.firmware.open(r.name)
	if err != nil {
		_ = conn.write(errorPacket(tftpProblem{tftpNotFound, "there is no such boot file"}))
		return
	}
	defer file.Close()
	err = r.send(conn, file, size)
	if err == nil {
		s.Telemetry.Sent(s.Network.Name, "tftp", size, true)
	} else {
		s.Telemetry.Sent(s.Network.Name, "tftp", 0, false)
		s.Log.Debug("TFTP transfer ended early", "file", r.name, "to", peer, "error", err)
	}
}
