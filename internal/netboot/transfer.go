package netboot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// send sends the options that are granted, then the file, window by window.
func (r readRequest) send(conn *line, file io.ReaderAt, size int64) error {
	t := transfer{readRequest: r, conn: conn, file: file, size: size, packet: make([]byte, 4+r.block)}
	if r.size {
		t.granted = append(t.granted, "tsize", strconv.FormatInt(size, 10))
	}
	if len(t.granted) > 0 {
		answer := append([]byte{0, tftpOptAck}, strings.Join(t.granted, "\x00")...)
		// The client acknowledges the options as block 0.
		if _, err := t.until(-1, 0, func() error { return conn.write(append(answer, 0)) }); err != nil {
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
	conn     *line
	file     io.ReaderAt
	size     int64
	packet   []byte
	said     [tftpBlock]byte // by the client
	ahead    [32 << 10]byte  // a part of the file
	aheadAt  int64           // where it begins
	aheadEnd int64
}

// blocks sends the blocks from first to end.
func (t *transfer) blocks(first, end int64) error {
	for n := first; n <= end; n++ {
		at := (n - 1) * int64(t.block)
		length := min(int64(t.block), t.size-at)
		if err := t.read(t.packet[4:4+length], at); err != nil {
			_ = t.conn.write(errorPacket(tftpProblem{tftpOther, "the file cannot be read"}))
			return fmt.Errorf("read block %d: %w", n, err)
		}
		binary.BigEndian.PutUint16(t.packet, tftpData)
		binary.BigEndian.PutUint16(t.packet[2:], uint16(n))
		if err := t.conn.write(t.packet[:4+length]); err != nil {
			return err
		}
	}
	return nil
}

// read reads from the file, by more than a block at a time.
func (t *transfer) read(into []byte, at int64) error {
	for n := 0; n < len(into); {
		from := at + int64(n)
		if from < t.aheadAt || from >= t.aheadEnd {
			got, err := t.file.ReadAt(t.ahead[:min(int64(len(t.ahead)), t.size-from)], from)
			if got == 0 {
				return errors.Join(err, io.ErrUnexpectedEOF)
			}
			t.aheadAt, t.aheadEnd = from, from+int64(got)
		}
		n += copy(into[n:], t.ahead[from-t.aheadAt:t.aheadEnd-t.aheadAt])
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
		for sent := time.Now(); ; {
			n, err := t.conn.read(t.said[:])
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				return 0, err
			}
			if n > 0 && t.heard != nil {
				t.heard()
			}
			acked, err := acknowledged(t.said[:n], done, end)
			if err != nil || acked > done {
				return acked, err
			}
			if repeated := acked == done && !believed; repeated || time.Since(sent) > t.wait {
				believed = true
				break
			}
		}
	}
	return 0, fmt.Errorf("no acknowledgement of block %d after %d tries", end, tftpTries)
}

// acknowledged reads a client's packet. It answers the block that it acknowledges if that is one from done to end, else one
// that comes before all.
func acknowledged(packet []byte, done, end int64) (int64, error) {
	const nothing = -2
	if len(packet) < 4 || packet[0] != 0 {
		return nothing, nil
	}
	number := binary.BigEndian.Uint16(packet[2:])
	switch packet[1] {
	case tftpError:
		text, _, _ := bytes.Cut(packet[4:], []byte{0})
		return 0, fmt.Errorf("the client ends it: error %d %q", number, text)
	case tftpAck:
		if acked := done + int64(number-uint16(done)); acked <= end {
			return acked, nil
		}
	}
	return nothing, nil
}
