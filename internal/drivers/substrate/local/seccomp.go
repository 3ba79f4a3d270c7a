package local

import (
	"runtime"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Opened is what a site opens to all its nodes on this host beyond what is usual. Each field is more of the kernel that
// anybody in a node can reach.
type Opened struct {
	Perf           bool
	UserNamespaces bool // containers without root, with mounts of their own
	IOUring        bool
	// Setuid says whether programs can give their callers rights, by setuid or file capabilities; nil: if the image has
	// such programs that are of use.
	Setuid *bool
	// OwnUsers says whether nodes have user namespaces of their own; nil: where the host can.
	OwnUsers *bool
}

const (
	allow = specs.ActAllow
	fail  = specs.ActErrno
)

// newNamespaces are the flags of clone that make namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET

// seccomp is the filter of a node: what is not allowed fails with EPERM. A call whose number runc's libseccomp does not
// know fails with ENOSYS (runc sees to that), so that programs fall back to what was there before. Calls of
// another architecture than the host's end the process.
func seccomp(servesHome bool, o Opened) *specs.LinuxSeccomp {
	filter := &specs.LinuxSeccomp{DefaultAction: fail, DefaultErrnoRet: new(uint(unix.EPERM)),
		Architectures: architectures(runtime.GOARCH)}
	open := map[string]bool{forHome: servesHome, forPerf: o.Perf, forUserNamespaces: o.UserNamespaces, forIOUring: o.IOUring}
	var names []string
	for _, g := range everyNodesCalls() {
		names = append(names, strings.Fields(g.calls)...)
	}
	for _, g := range someNodesCalls() {
		if open[g.name] {
			names = append(names, strings.Fields(g.calls)...)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	filter.Syscalls = append(filter.Syscalls, specs.LinuxSyscall{Names: names, Action: allow})
	for _, c := range conditions() {
		if !slices.Contains(names, c.Names[0]) { // a call that is allowed as it is needs no conditions
			filter.Syscalls = append(filter.Syscalls, c)
		}
	}
	return filter
}

func architectures(goarch string) []specs.Arch {
	switch goarch {
	case "arm64":
		return []specs.Arch{specs.ArchAARCH64}
	default:
		return []specs.Arch{specs.ArchX86_64} // neither 32 bits nor x32
	}
}

// conditions are the calls that depend on their arguments. Comparisons are of 64 bits, while the kernel looks at 32 of
// some: so nothing is refused by a value, all is allowed by one, and what has more bits set is not.
func conditions() []specs.LinuxSyscall {
	var all []specs.LinuxSyscall
	when := func(call string, args ...specs.LinuxSeccompArg) {
		all = append(all, specs.LinuxSyscall{Names: []string{call}, Action: allow, Args: args})
	}
	when("clone", masked(0, newNamespaces, 0))
	all = append(all, specs.LinuxSyscall{Names: []string{"clone3"}, Action: fail, ErrnoRet: new(uint(unix.ENOSYS))})

	when("socket", is(0, unix.AF_UNIX))
	when("socketpair", is(0, unix.AF_UNIX))
	for _, family := range []uint64{unix.AF_INET, unix.AF_INET6} {
		for kind, protocols := range map[uint64][]uint64{
			unix.SOCK_STREAM: {0, unix.IPPROTO_TCP, unix.IPPROTO_MPTCP},
			unix.SOCK_DGRAM:  {0, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6},
		} {
			for _, protocol := range protocols { // others would load modules: SCTP, DCCP, …
				when("socket", is(0, family), masked(1, kindOfSocket, kind), is(2, protocol))
			}
		}
		when("socket", is(0, family), masked(1, kindOfSocket, unix.SOCK_RAW)) // needs NET_RAW
	}
	for _, protocol := range []uint64{unix.NETLINK_ROUTE, unix.NETLINK_SOCK_DIAG, unix.NETLINK_AUDIT,
		unix.NETLINK_KOBJECT_UEVENT, unix.NETLINK_RDMA} {
		when("socket", is(0, unix.AF_NETLINK), is(2, protocol))
	}

	const usual, linux32, uname26, fixedAddresses, ask = 0, 8, 0x20000, 0x40000, 0xffffffff
	for _, persona := range []uint64{usual, linux32, uname26, uname26 | linux32, fixedAddresses, ask} {
		when("personality", is(0, persona))
	}
	for _, bits := range allBut(unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD) {
		when("ioctl", masked(1, uint64(bits.mask), uint64(bits.value)))
	}
	return all
}

const kindOfSocket = 0xf // of the second argument of socket; the rest is flags

// All conditions of a call must hold; two on the same argument would be alternatives. Arguments count from 0.
func is(index uint, value uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: index, Value: value, Op: specs.OpEqualTo}
}

// masked holds if the argument has the value where the mask is set.
func masked(index uint, mask, value uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: index, Value: mask, ValueTwo: value, Op: specs.OpMaskedEqual}
}

// bits are the numbers that have value where mask is set.
type bits struct{ mask, value uint32 }

// allBut covers all 32-bit numbers except these, whatever the upper half of the register holds.
func allBut(numbers ...uint32) []bits {
	var covered []bits
	var below func(prefix bits, bit uint32)
	below = func(prefix bits, bit uint32) {
		if !slices.ContainsFunc(numbers, func(n uint32) bool { return n&prefix.mask == prefix.value }) {
			covered = append(covered, prefix)
			return
		}
		if bit != 0 {
			below(bits{prefix.mask | bit, prefix.value}, bit>>1)
			below(bits{prefix.mask | bit, prefix.value | bit}, bit>>1)
		}
	}
	below(bits{}, 1<<31)
	return covered
}
