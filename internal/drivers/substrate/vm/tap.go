package vm

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"muster/internal/kit/netns"
)

// makeTap makes the interface that libvirt gives to QEMU. It lasts without anybody who has it open, and must be made as
// libvirt will open it: with virtio's headers, and as many queues (Linux, Documentation/networking/tuntap).
func makeTap(namespace, name string, queues int) error {
	return netns.Do(namespace, func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		if queues > 1 {
			flags |= unix.IFF_MULTI_QUEUE
		}
		request.SetUint16(flags)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
		return unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1)
	})
}

// ensureNamespace makes the network namespace of libvirt and QEMU, where nothing speaks IPv6 of its own accord; it keeps one
// that is there.
func ensureNamespace(path string) error {
	err := netns.Do(path, func() error { return nil })
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return netns.New(path, func() error { return netns.Sysctl("ipv6", "default", "disable_ipv6", "1") })
}

// canVhost says whether the host's kernel moves guests' packets. Opening the device loads its module.
func canVhost() bool {
	file, err := os.OpenFile("/dev/vhost-net", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	file.Close()
	return true
}
