package uplink

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Checksums makes the kernel compute checksums before it sends by an interface, instead of leaving them to hardware: a datapath
// in user space reads frames as they are, and no hardware comes after it. It acts in the current network namespace (ethtool(8),
// -K NAME tx off; linux/ethtool.h).
func Checksums(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	value := struct{ command, data uint32 }{unix.ETHTOOL_STXCSUM, 0}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // the kernel's union is larger than a pointer
	}{data: unsafe.Pointer(&value)}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	if _, _, failed := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL,
		uintptr(unsafe.Pointer(&request))); failed != 0 {
		return fmt.Errorf("have checksums of what %s sends computed: %w", name, failed)
	}
	return nil
}
