package pipes

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Pair is the two ends of a connection within this host that has no name: one to use here, and one to give to another process or
// to FileConn. Kind is how it carries bytes, such as unix.SOCK_STREAM.
func Pair(kind int) (ours *net.UnixConn, theirs *os.File, err error) {
	both, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("a pair of sockets: %w", err)
	}
	theirs = os.NewFile(uintptr(both[1]), "theirs")
	ours, err = FileConn(os.NewFile(uintptr(both[0]), "ours"))
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}

// FileConn is the connection of an end, which it takes over.
func FileConn(end *os.File) (*net.UnixConn, error) {
	defer end.Close()
	conn, err := net.FileConn(end)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	unixConn, is := conn.(*net.UnixConn)
	if !is {
		return nil, errors.Join(errors.New("it is no unix socket"), conn.Close())
	}
	return unixConn, nil
}
