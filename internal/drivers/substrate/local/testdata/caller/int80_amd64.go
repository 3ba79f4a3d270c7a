package main

import "golang.org/x/sys/unix"

func int80(number uintptr) int32

const x32 = 0x40000000

// foreign makes getpid by another architecture's table; it says whether the kernel answered.
func foreign(way string) bool {
	if way == "x32" {
		pid, _, errno := unix.RawSyscall(x32|unix.SYS_GETPID, 0, 0, 0)
		return errno == 0 && pid > 0
	}
	const getpid = 20
	return int80(getpid) > 0
}
