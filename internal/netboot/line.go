package netboot

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// line is a UDP socket connected to one client, used by system calls that block. A TFTP transfer goes to and fro all the
// time, and the runtime's poller, which wakes a thread for each packet that comes and for each that has left, would cost it
// a tenth of its speed.
type line struct {
	fd   int
	mu   sync.Mutex // held while the socket is woken or closed
	gone bool
}

// newLine opens a line from an address of an interface, "" for any, in the namespace of the current thread. It hears the peer
// alone, and waits so long for it.
func newLine(card string, from netip.Addr, peer netip.AddrPort, wait time.Duration) (*line, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a socket: %w", err)
	}
	timeout := unix.NsecToTimeval(wait.Nanoseconds())
	err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout)
	if err == nil && card != "" {
		err = unix.BindToDevice(fd, card)
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: from.As4()})
	}
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrInet4{Addr: peer.Addr().Unmap().As4(), Port: int(peer.Port())})
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("connect to %s: %w", peer, err)
	}
	return &line{fd: fd}, nil
}

// wake ends a read that waits, and all later ones. It may come at any time.
func (l *line) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.gone {
		_ = unix.Shutdown(l.fd, unix.SHUT_RDWR)
	}
}

func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	_ = unix.Close(l.fd)
}

func (l *line) write(packet []byte) error {
	_, err := unix.Write(l.fd, packet)
	return err
}

// read waits for a packet: os.ErrDeadlineExceeded if none has come in time.
func (l *line) read(buffer []byte) (int, error) {
	for {
		n, err := unix.Read(l.fd, buffer)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return 0, os.ErrDeadlineExceeded
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.ErrUnexpectedEOF // it was woken; or an empty packet, which no client sends
		default:
			return n, nil
		}
	}
}
