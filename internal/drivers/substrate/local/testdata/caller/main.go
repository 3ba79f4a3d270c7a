// Caller runs in a node. It makes calls of the kernel that should be refused, and some that should not, and prints what
// came of each: "name error". With a number as argument it becomes that user first.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) == 3 {
		fmt.Println(foreign(os.Args[2]))
		return
	}
	if len(os.Args) == 2 {
		uid, err := strconv.Atoi(os.Args[1])
		if err = errors.Join(err, unix.Setgroups(nil), unix.Setgid(uid), unix.Setuid(uid)); err != nil {
			fmt.Println("become", err)
			os.Exit(1)
		}
	}
	for _, c := range calls() {
		fmt.Println(c.name, result(c))
	}
	bound, _ := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	fmt.Println("no_new_privs", bound)
	_, err := os.Stat("/proc/1")
	fmt.Println("processes-of-others", map[bool]string{true: "hidden", false: "seen"}[errors.Is(err, os.ErrNotExist)])
	for _, way := range []string{"x32", "int80"} {
		// Who makes such a call may lose the thread alone that made it, and then waits for ever.
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		output, err := exec.CommandContext(ctx, "/proc/self/exe", "as", way).Output()
		cancel()
		answered := err == nil && string(output) == "true\n"
		fmt.Println(way, map[bool]string{true: "answered", false: "refused"}[answered])
	}
	ours()
}

type call struct {
	name      string
	number    uintptr
	arguments [6]uintptr
}

// result makes the call in a thread of its own, which then ends: some would change what the thread is.
func result(c call) string {
	done := make(chan syscall.Errno)
	go func() {
		runtime.LockOSThread()
		a := c.arguments
		got, _, errno := unix.RawSyscall6(c.number, a[0], a[1], a[2], a[3], a[4], a[5])
		if c.number == unix.SYS_CLONE && errno == 0 && got == 0 {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
		}
		done <- errno
	}()
	errno := <-done
	if errno == 0 {
		return "OK"
	}
	return unix.ErrnoName(errno)
}

func calls() []call {
	bad := ^uintptr(0)
	path := uintptr(unsafe.Pointer(unsafe.StringData("/tmp\x00")))
	kind := uintptr(unsafe.Pointer(unsafe.StringData("tmpfs\x00")))
	args := func(a ...uintptr) (all [6]uintptr) { copy(all[:], a); return all }
	list := []call{
		{"unshare-user", unix.SYS_UNSHARE, args(unix.CLONE_NEWUSER)},
		{"unshare-mount", unix.SYS_UNSHARE, args(unix.CLONE_NEWNS)},
		{"unshare-net", unix.SYS_UNSHARE, args(unix.CLONE_NEWNET)},
		{"setns", unix.SYS_SETNS, args(bad, 0)},
		{"clone3", unix.SYS_CLONE3, args(0, 0)},
		{"mount", unix.SYS_MOUNT, args(kind, path, kind, 0, 0)},
		{"umount2", unix.SYS_UMOUNT2, args(path, 0)},
		{"pivot_root", unix.SYS_PIVOT_ROOT, args(path, path)},
		{"fsopen", unix.SYS_FSOPEN, args(kind, 0)},
		{"fsmount", unix.SYS_FSMOUNT, args(bad, 0, 0)},
		{"open_tree", unix.SYS_OPEN_TREE, args(bad, path, 1)},
		{"move_mount", unix.SYS_MOVE_MOUNT, args(bad, path, bad, path, 0)},
		{"mount_setattr", unix.SYS_MOUNT_SETATTR, args(bad, path, 0, 0, 0)},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, args(bad, 0, 0)},
		{"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, args(bad, 0, 0, 0, 0)},
		{"keyctl", unix.SYS_KEYCTL, args(0, bad-2, 1)},
		{"add_key", unix.SYS_ADD_KEY, args(0, 0, 0, 0, 0)},
		{"request_key", unix.SYS_REQUEST_KEY, args(0, 0, 0, 0)},
		{"bpf", unix.SYS_BPF, args(0, 0, 0)},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, args(0, 0, 0, 0, 0)},
		{"userfaultfd", unix.SYS_USERFAULTFD, args(1)},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, args(0, 0)},
		{"io_uring_enter", unix.SYS_IO_URING_ENTER, args(bad)},
		{"io_uring_register", unix.SYS_IO_URING_REGISTER, args(bad)},
		{"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD, args(bad, bad)},
		{"init_module", unix.SYS_INIT_MODULE, args(0, 0, 0)},
		{"finit_module", unix.SYS_FINIT_MODULE, args(bad, 0, 0)},
		{"delete_module", unix.SYS_DELETE_MODULE, args(0, 0)},
		{"fanotify_init", unix.SYS_FANOTIFY_INIT, args(bad, 0)},
		{"quotactl", unix.SYS_QUOTACTL, args(0, 0, 0, 0)},
		{"quotactl_fd", unix.SYS_QUOTACTL_FD, args(bad, 0, 0, 0)},
		{"syslog", unix.SYS_SYSLOG, args(10, 0, 0)},
		{"acct", unix.SYS_ACCT, args(1)},
		{"swapon", unix.SYS_SWAPON, args(1, 0)},
		{"swapoff", unix.SYS_SWAPOFF, args(1)},
		{"reboot", unix.SYS_REBOOT, args(1, 1, 1, 0)},
		{"clock_settime", unix.SYS_CLOCK_SETTIME, args(99, 0)},
		{"sethostname", unix.SYS_SETHOSTNAME, args(0, bad)},
		{"kcmp", unix.SYS_KCMP, args(1, 1, 0, 0, 0)},
		{"unknown-call", 1000, args()},
		{"personality-exec", unix.SYS_PERSONALITY, args(0x400000)},
		{"TIOCSTI", unix.SYS_IOCTL, args(bad, unix.TIOCSTI, 0)},
		{"TIOCSTI-high-bits", unix.SYS_IOCTL, args(bad, 1<<32|unix.TIOCSTI, 0)},
		{"TIOCLINUX", unix.SYS_IOCTL, args(bad, unix.TIOCLINUX, 0)},
		{"TIOCSETD", unix.SYS_IOCTL, args(bad, unix.TIOCSETD, 0)},

		// What programs need.
		{"ioctl", unix.SYS_IOCTL, args(bad, unix.TCGETS, 0)},
		{"ioctl-sign-extended", unix.SYS_IOCTL, args(bad, 0xffffffff80045430, 0)},
		{"personality-ask", unix.SYS_PERSONALITY, args(0xffffffff)},
		{"personality-fixed-addresses", unix.SYS_PERSONALITY, args(0x40000)},
		{"mbind", unix.SYS_MBIND, args(0, 0, 0, 0, 0, 0)},
		{"set_mempolicy", unix.SYS_SET_MEMPOLICY, args(0, 0, 0)},
		{"landlock_create_ruleset", unix.SYS_LANDLOCK_CREATE_RULESET, args(0, 0, 1)},
		{"io_setup", unix.SYS_IO_SETUP, args(0, 0)},
	}
	for _, s := range []struct {
		name                   string
		family, kind, protocol uintptr
	}{
		{"socket-alg", unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
		{"socket-vsock", unix.AF_VSOCK, unix.SOCK_STREAM, 0},
		{"socket-packet", unix.AF_PACKET, unix.SOCK_RAW, 0},
		{"socket-tipc", unix.AF_TIPC, unix.SOCK_SEQPACKET, 0},
		{"socket-rds", unix.AF_RDS, unix.SOCK_SEQPACKET, 0},
		{"socket-xdp", unix.AF_XDP, unix.SOCK_RAW, 0},
		{"socket-bluetooth", unix.AF_BLUETOOTH, unix.SOCK_RAW, 0},
		{"socket-sctp", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP},
		{"socket-dccp", unix.AF_INET, unix.SOCK_DCCP, 0},
		{"socket-netfilter", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER},
		{"socket-generic", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC},
		{"socket-xfrm", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM},
		{"socket-high-bits", 1<<32 | unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
		{"socket-unix", unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0},
		{"socket-tcp", unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_NONBLOCK, unix.IPPROTO_TCP},
		{"socket-udp6", unix.AF_INET6, unix.SOCK_DGRAM, 0},
		{"socket-ping", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP},
		{"socket-route", unix.AF_NETLINK, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE},
	} {
		list = append(list, call{s.name, unix.SYS_SOCKET, args(s.family, s.kind, s.protocol)})
	}
	if runtime.GOARCH == "amd64" { // the order of clone's arguments differs elsewhere, its flags come first everywhere
		for name, flag := range map[string]uintptr{
			"clone-user": unix.CLONE_NEWUSER, "clone-mount": unix.CLONE_NEWNS, "clone-net": unix.CLONE_NEWNET,
			"clone-user-high-bits": 1<<32 | unix.CLONE_NEWUSER,
		} {
			list = append(list, call{name, unix.SYS_CLONE, args(flag|uintptr(unix.SIGCHLD), 0, 0, 0, 0)})
		}
	}
	return list
}

// ours debugs a child and copies from it, as a debugger and Open MPI do.
func ours() {
	runtime.LockOSThread()
	child := exec.Command("/bin/sleep", "100")
	child.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := child.Start(); err != nil {
		fmt.Println("ptrace-own", err)
		return
	}
	var status unix.WaitStatus
	_, err := unix.Wait4(child.Process.Pid, &status, 0, nil)
	var registers unix.PtraceRegs
	if err == nil {
		err = unix.PtraceGetRegs(child.Process.Pid, &registers)
	}
	fmt.Println("ptrace-own", name(err))
	buffer := make([]byte, 8)
	_, err = unix.ProcessVMReadv(child.Process.Pid, []unix.Iovec{{Base: &buffer[0], Len: 8}},
		[]unix.RemoteIovec{{Base: uintptr(registers.PC() &^ 7), Len: 8}}, 0)
	fmt.Println("process_vm_readv-own", name(err))
	_ = child.Process.Kill()
}

func name(err error) string {
	if err == nil {
		return "OK"
	}
	return err.Error()
}
