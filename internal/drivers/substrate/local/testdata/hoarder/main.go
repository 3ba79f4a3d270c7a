// Hoarder opens terminals, begins asynchronous I/O and watches with inotify until it may not, makes its output's file a gigabyte
// large, says in /home/has how much it has, and keeps it.
package main

import (
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
	var terminals []int
	for len(terminals) < 5000 {
		fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			break
		}
		terminals = append(terminals, fd)
	}
	contexts := 0
	for ; contexts < 64; contexts++ {
		var context uint64
		if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 2000, uintptr(unsafe.Pointer(&context)), 0); errno != 0 {
			break
		}
	}
	instances := 0
	for ; instances < 1000; instances++ {
		if _, err := unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
			break
		}
	}
	large := unix.Fallocate(1, unix.FALLOC_FL_KEEP_SIZE, 0, 1<<30) == nil
	text := fmt.Sprint(len(terminals), " ", contexts, " ", instances, " ", large)
	if os.WriteFile("/home/part", []byte(text), 0o644) == nil {
		_ = os.Rename("/home/part", "/home/has")
	}
	time.Sleep(time.Hour)
}
