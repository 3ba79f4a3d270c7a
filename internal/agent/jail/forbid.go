package jail

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// builders are the calls that a head may make for its jail's sake, and for nothing else.
var builders = [...]uint32{unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_OPEN_TREE,
	unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_BY_HANDLE_AT}

// forbid refuses these calls to this thread and what it starts, on a host whose nodes may not make user namespaces: in one of its
// own, anybody could make them. Where nodes may, nothing is forbidden that a node without /home to serve may do.
func forbid() error {
	if mayMakeUsers() {
		return nil
	}
	native := uint32(unix.AUDIT_ARCH_X86_64)
	if runtime.GOARCH == "arm64" {
		native = unix.AUDIT_ARCH_AARCH64
	}
	const load, equal, end, refuse, allow = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
		unix.BPF_RET | unix.BPF_K, 0x00050000 | uint32(unix.EPERM), 0x7fff0000 // SECCOMP_RET_ERRNO and _ALLOW: seccomp(2)
	n := uint8(len(builders))
	program := []unix.SockFilter{{Code: load, K: 4}, {Code: equal, Jf: n + 1, K: native}, {Code: load, K: 0}} // seccomp_data's arch, then nr
	for i, call := range builders {
		program = append(program, unix.SockFilter{Code: equal, Jt: n - uint8(i), K: call})
	}
	program = append(program, unix.SockFilter{Code: end, K: allow}, unix.SockFilter{Code: end, K: refuse})
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0); err != nil {
		return fmt.Errorf("forbid calls: %w", err)
	}
	runtime.KeepAlive(program)
	return nil
}

// mayMakeUsers tries whether processes here may make user namespaces by the usual call.
func mayMakeUsers() bool {
	read, write, err := os.Pipe()
	if err != nil {
		return false
	}
	defer read.Close()
	defer write.Close()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{os.Args[0], "agent", Argument}, &syscall.ProcAttr{
		Env: []string{waitVariable + "=1"}, Files: []uintptr{read.Fd(), 1, 2}, Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER},
	})
	if err != nil {
		return !errors.Is(err, unix.EPERM)
	}
	write.Close() // at its end the child ends too
	_, _ = syscall.Wait4(pid, nil, 0, nil)
	return true
}
