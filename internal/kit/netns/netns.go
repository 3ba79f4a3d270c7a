// Package netns opens sockets and links inside network namespaces while the rest of the process stays in the host's.
//
// What enters: the path of a namespace, kept alive by a mount on a file; "" is the host's own. What leaves: sockets that
// stay in the namespace for good and may be used from anywhere.
package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Do runs do on a thread that is in the network namespace at path. do must not start goroutines that expect to be there
// too. An error that is os.ErrNotExist says that there is no such namespace.
func Do(path string, do func() error) error {
	if path == "" {
		return do()
	}
	return onOwnThread(func() error {
		// What is no namespace is looked at and never opened: to open a device or a pipe does something.
		found, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("network namespace %s: %w", path, err)
		}
		defer unix.Close(found)
		// A crash between making the file and mounting the namespace on it leaves a plain file.
		var system unix.Statfs_t
		if err := unix.Fstatfs(found, &system); err != nil || system.Type != unix.NSFS_MAGIC {
			return errors.Join(err, fmt.Errorf("network namespace %s: %w", path, os.ErrNotExist))
		}
		fd, err := unix.Open(fmt.Sprintf("/proc/thread-self/fd/%d", found), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("network namespace %s: %w", path, err)
		}
		defer unix.Close(fd)
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", path, err)
		}
		return do()
	})
}

// New is Do in a new network namespace, which afterwards is kept alive by its mount on the file at path. Unmounting and
// removing the file ends the namespace, once no process is in it.
func New(path string, do func() error) error {
	return onOwnThread(func() error {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
		if err != nil {
			return err
		}
		file.Close()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make network namespace: %w", err)
		}
		if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("keep network namespace: %w", err)
		}
		return do()
	})
}

// Dial opens a connection inside a namespace. The address must be a literal: there is no name server to ask.
func Dial(ctx context.Context, path, network, address string) (net.Conn, error) {
	var connection net.Conn
	err := Do(path, func() (err error) {
		var dialer net.Dialer
		connection, err = dialer.DialContext(ctx, network, address)
		return err
	})
	return connection, err
}

// Listen listens for connections inside a namespace.
func Listen(path, network, address string) (net.Listener, error) {
	var listener net.Listener
	err := Do(path, func() (err error) {
		listener, err = net.Listen(network, address)
		return err
	})
	return listener, err
}

// BoundTo makes sockets that hear and speak on an interface alone, whatever the routes say. set is called with each, too; nil:
// nothing is.
func BoundTo(card string, set func(fd int) error) *net.ListenConfig {
	return &net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		outer := raw.Control(func(fd uintptr) {
			if err = unix.BindToDevice(int(fd), card); set != nil {
				err = errors.Join(err, set(int(fd)))
			}
		})
		return errors.Join(outer, err)
	}}
}

// onOwnThread runs do on a thread of its own and brings that thread back to its network namespace. If that fails, the
// thread ends with its goroutine, so no other goroutine ever runs in the wrong namespace.
func onOwnThread(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		origin, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			runtime.UnlockOSThread()
			done <- err
			return
		}
		defer unix.Close(origin)
		err = do()
		if unix.Setns(origin, unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}
