package jail

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// builders are the calls that a head may make for its jail's sake, and for nothing else.
var builders = [...]uint32{unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT,
	unix.SYS_OPEN_TREE,
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
	const refuse, allow = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM), unix.SECCOMP_RET_ALLOW
	const number, architecture = 0, 4 // struct seccomp_data (linux/seccomp.h)
	const x32 = 0x40000000            // __X32_SYSCALL_BIT (asm/unistd.h): the same calls by other numbers
	calls := uint8(len(builders))
	text := []bpf.Instruction{
		bpf.LoadAbsolute{Off: architecture, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: native, SkipFalse: calls + 3}, // another's numbers mean other calls
		bpf.LoadAbsolute{Off: number, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: x32, SkipTrue: calls + 1},
	}
	for i, call := range builders {
		text = append(text, bpf.JumpIf{Cond: bpf.JumpEqual, Val: call, SkipTrue: calls - uint8(i)})
	}
	raw, err := bpf.Assemble(append(text, bpf.RetConstant{Val: allow}, bpf.RetConstant{Val: refuse}))
	if err != nil {
		return fmt.Errorf("forbid calls: %w", err)
	}
	program := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		program[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
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
		Env: []string{waitVariable + "=1"}, Files: []uintptr{read.Fd(), 1, 2},
		Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER},
	})
	if err != nil {
		return !errors.Is(err, unix.EPERM)
	}
	write.Close() // at its end the child ends too
	_, _ = syscall.Wait4(pid, nil, 0, nil)
	return true
}
