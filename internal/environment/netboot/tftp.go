package netboot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"muster/internal/netns"
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
	tftpTransfers = 512         // at once; requests above are dropped, and come again
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
	size    bool          // the size is to be told; the value of tsize is filled in later
}

// tftpProblem is an error that the client is told.
type tftpProblem struct {
	code uint16
	text string
}

func (p tftpProblem) Error() string { return p.text }

// parseReadRequest reads the first packet of a transfer; mtu bounds its blocks, which are not to be fragmented. An error that is
// no tftpProblem is a packet that nobody answers.
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
	running := make(chan struct{}, tftpTransfers)
	buffer := make([]byte, tftpRequest)
	for {
		n, peer, err := s.tftp.ReadFromUDPAddrPort(buffer)
		if err != nil {
			cancel()
			for range cap(running) {
				running <- struct{}{} // once every transfer has ended
			}
			return err
		}
		r, err := parseReadRequest(buffer[:n], s.mtu)
		if problem := (tftpProblem{}); errors.As(err, &problem) {
			_, _ = s.tftp.WriteToUDPAddrPort(errorPacket(problem), peer)
		}
		if err != nil {
			continue
		}
		select {
		case running <- struct{}{}:
			go func() {
				defer func() { <-running }()
				s.transfer(ctx, r, peer)
			}()
		default:
		}
	}
}

func errorPacket(p tftpProblem) []byte {
	packet := binary.BigEndian.AppendUint16([]byte{0, tftpError}, p.code)
	return append(append(packet, p.text...), 0)
}

// transfer sends a file, or says why not.
func (s *server) transfer(ctx context.Context, r readRequest, peer netip.AddrPort) {
	conn, err := s.dialTFTP(peer)
	if err != nil {
		s.Log.Debug("cannot answer a TFTP request", "to", peer, "error", err)
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	file, size, err := s.firmware.open(r.name)
	if err != nil {
		_, _ = conn.Write(errorPacket(tftpProblem{tftpNotFound, "there is no such boot file"}))
		return
	}
	defer file.Close()
	if err := r.send(conn, file, size); err != nil {
		s.Log.Debug("TFTP transfer ended early", "file", r.name, "to", peer, "error", err)
	}
}

// dialTFTP makes a transfer's socket in the network's namespace. It hears nobody but the client.
func (s *server) dialTFTP(peer netip.AddrPort) (*net.UDPConn, error) {
	var conn net.Conn
	err := netns.Do(s.Network.Namespace, func() (err error) {
		dialer := net.Dialer{Control: s.listenConfig().Control, LocalAddr: &net.UDPAddr{IP: s.address().AsSlice()}}
		conn, err = dialer.Dial("udp4", peer.String())
		return err
	})
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

// send sends the options that are granted, then the file, window by window.
func (r readRequest) send(conn net.Conn, file io.ReaderAt, size int64) error {
	t := transfer{readRequest: r, conn: conn, file: file, size: size, packet: make([]byte, 4+r.block)}
	if r.size {
		t.granted = append(t.granted, "tsize", strconv.FormatInt(size, 10))
	}
	if len(t.granted) > 0 {
		answer := append([]byte{0, tftpOptAck}, strings.Join(t.granted, "\x00")...)
		// The client acknowledges the options as block 0.
		if _, err := t.until(-1, 0, func() error { _, err := conn.Write(append(answer, 0)); return err }); err != nil {
			return err
		}
	}
	last := size/int64(r.block) + 1 // the last block is short, if need be empty
	for done := int64(0); done < last; {
		end := min(done+int64(r.window), last)
		acked, err := t.until(done, end, func() error { return t.blocks(done+1, end) })
		if err != nil {
			return err
		}
		done = acked
	}
	return nil
}

// transfer is one that goes on. Blocks are counted from 1 without end; in packets their numbers wrap around.
type transfer struct {
	readRequest
	conn   net.Conn
	file   io.ReaderAt
	size   int64
	packet []byte
	heard  [tftpBlock]byte
}

// blocks sends the blocks from first to end.
func (t *transfer) blocks(first, end int64) error {
	for n := first; n <= end; n++ {
		at := (n - 1) * int64(t.block)
		length := min(int64(t.block), t.size-at)
		if got, err := t.file.ReadAt(t.packet[4:4+length], at); int64(got) < length {
			_, _ = t.conn.Write(errorPacket(tftpProblem{tftpOther, "the file cannot be read"}))
			return fmt.Errorf("read block %d: %w", n, err)
		}
		binary.BigEndian.PutUint16(t.packet, tftpData)
		binary.BigEndian.PutUint16(t.packet[2:], uint16(n))
		if _, err := t.conn.Write(t.packet[:4+length]); err != nil {
			return err
		}
	}
	return nil
}

// until sends until something after done, up to end, is acknowledged, and says what. In a window of one block, an old
// acknowledgement is not answered, else every packet of the transfer would be doubled from then on (RFC 1123, section
// 4.2.3.1); in a longer one it says that the first block was lost (RFC 7440, section 4), which is believed once.
func (t *transfer) until(done, end int64, send func() error) (int64, error) {
	believed := t.window == 1
	for range tftpTries {
		if err := send(); err != nil {
			return 0, err
		}
		for deadline := time.Now().Add(t.wait); ; {
			acked, err := t.acknowledged(done, end, deadline)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil || acked > done {
				return acked, err
			}
			if acked == done && !believed {
				believed = true
				break
			}
		}
	}
	return 0, fmt.Errorf("no acknowledgement of block %d after %d tries", end, tftpTries)
}

// acknowledged waits for a packet; it answers the block that it acknowledges if that is one from done to end, else -2.
func (t *transfer) acknowledged(done, end int64, deadline time.Time) (int64, error) {
	if err := t.conn.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	n, err := t.conn.Read(t.heard[:])
	if err != nil {
		return 0, err
	}
	if n < 4 || t.heard[0] != 0 {
		return -2, nil
	}
	number := binary.BigEndian.Uint16(t.heard[2:])
	switch t.heard[1] {
	case tftpError:
		text, _, _ := bytes.Cut(t.heard[4:n], []byte{0})
		return 0, fmt.Errorf("the client ends it: error %d %q", number, text)
	case tftpAck:
		if acked := done + int64(number-uint16(done)); acked <= end {
			return acked, nil
		}
	}
	return -2, nil
}
