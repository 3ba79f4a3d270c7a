package local

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// usable is what programs of a node need, and everybody may.
var usable = []string{
	"ioctl", "ioctl-sign-extended", "personality-ask", "personality-fixed-addresses", "mbind", "set_mempolicy",
	"landlock_create_ruleset", "io_setup", "socket-unix", "socket-tcp", "socket-udp6", "socket-route",
	"socket-ping", "ptrace-own", "process_vm_readv-own",
}

func TestForbiddenSystemCallsAreRefusedInNodes(t *testing.T) {
	w := open(t, site(t))
	for number, user := range []string{"root", "1000"} {
		t.Run(user, func(t *testing.T) {
			for name, got := range w.called(t, number+1, user, false) {
				if name == "no_new_privs" || name == "processes-of-others" {
					continue
				}
				refused := got == "EPERM" || got == "refused" || got == "ENOSYS" && (name == "clone3" || name == "unknown-call")
				if needed := slices.Contains(usable, name); needed == (refused || got == "ENOSYS") {
					t.Errorf("%s as %s: %s", name, user, got)
				}
			}
		})
	}
}

func TestANodeCannotMakeUserNamespaces(t *testing.T) {
	w := open(t, site(t))
	got := w.called(t, 1, "1000", false)
	for _, way := range []string{"clone-user", "unshare-user", "clone-user-high-bits"} {
		if runtime.GOARCH == "amd64" && got[way] != "EPERM" {
			t.Errorf("%s: %q", way, got[way])
		}
	}
}

func TestAHeadThatServesHomeHasTheCallsOfItsServer(t *testing.T) {
	w := open(t, site(t))
	got := w.called(t, 1, "1000", true)
	for name, want := range map[string]string{
		"open_by_handle_at": "EFAULT", "name_to_handle_at": "EFAULT", // made, and found wanting
		"clone-user": "EPERM", "keyctl": "EPERM", "bpf": "EPERM", "socket-alg": "EPERM",
	} {
		if got[name] != want && (name != "clone-user" || runtime.GOARCH == "amd64") {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

func TestASwitchOfTheSiteOpensWhatItSaysAndNoMore(t *testing.T) {
	dir := site(t)
	opens := map[string][]string{
		"perf":            {"perf_event_open"},
		"io_uring":        {"io_uring_enter", "io_uring_register", "io_uring_setup"},
		"user_namespaces": {"clone-user", "clone3", "mount_setattr", "setns", "unshare-user"},
	}
	switches := map[string]Opened{"perf": {Perf: true}, "io_uring": {IOUring: true}, "user_namespaces": {UserNamespaces: true}}
	for which, opened := range switches {
		t.Run(which, func(t *testing.T) {
			w := open(t, dir)
			usual := w.called(t, 1, "1000", false)
			w.config.Opened = opened
			var changed []string
			for name, got := range w.called(t, 2, "1000", false) {
				if got != usual[name] && name != "clone-user-high-bits" {
					changed = append(changed, name)
				}
			}
			slices.Sort(changed)
			if !slices.Equal(changed, opens[which]) {
				t.Errorf("opens %q, want %q", changed, opens[which])
			}
		})
	}
}

// called runs the caller in a node and reads what came of its calls.
func (w fixture) called(t testing.TB, number int, user string, serves bool) map[string]string {
	t.Helper()
	script := "/home/caller %s > /home/out-%d 2>&1; touch /home/done-%[2]d"
	n := node("c1", number, 1, fmt.Sprintf(script, strings.TrimPrefix(user, "root"), number))
	n.ServesHome = serves
	check(t, w.EnsureShared(t.Context(), n.Cluster, alone))
	c, _ := w.shared(n.Cluster)
	build(t, "caller", c.home())
	check(t, os.Chmod(c.home(), 0o755))
	w.up(t, n)
	defer func() {
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(c.home(), fmt.Sprintf("out-%d", number)))
			t.Logf("%s", text)
		}
	}()
	eventually(t, "the calls are made", func() bool {
		_, err := os.Stat(filepath.Join(c.home(), fmt.Sprintf("done-%d", number)))
		return err == nil
	})
	text, err := os.ReadFile(filepath.Join(c.home(), fmt.Sprintf("out-%d", number)))
	check(t, err)
	results := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, result, _ := strings.Cut(strings.TrimSpace(line), " ")
		results[name] = result
	}
	if results["process_vm_readv-own"] == "" { // the last of them
		t.Fatalf("the caller did not come to its end:\n%s", text)
	}
	return results
}

// build makes a program of testdata in a folder that nodes see, unless it is there.
func build(t testing.TB, program, folder string) {
	t.Helper()
	at := filepath.Join(folder, program)
	if _, err := os.Stat(at); err == nil {
		return
	}
	c := exec.Command("go", "build", "-trimpath", "-o", at, "./testdata/"+program)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, output)
	}
}

func TestEachCallOfTheKernelHasBeenThoughtOf(t *testing.T) {
	decided := map[string]string{}
	kinds := map[string][]callGroup{"allowed": everyNodesCalls(), "conditional": conditionalCalls(), "refused": refusedCalls()}
	for kind, groups := range kinds {
		for _, g := range groups {
			for _, name := range strings.Fields(g.calls) {
				if decided[name] != "" {
					t.Errorf("%s is %s and %s", name, decided[name], kind)
				}
				decided[name] = kind
			}
		}
	}
	for _, g := range someNodesCalls() {
		for _, name := range strings.Fields(g.calls) {
			if decided[name] != "refused" && decided[name] != "conditional" {
				t.Errorf("%s is for %s, but %q for others", name, g.name, decided[name])
			}
		}
	}
	output, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	check(t, err)
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(output)), "unix", "zsysnum_linux_amd64.go"))
	check(t, err)
	table := regexp.MustCompile(`SYS_([A-Z0-9_]+)\s*=`).FindAllSubmatch(text, -1)
	if len(table) < 300 {
		t.Fatalf("the kernel's table has %d calls", len(table))
	}
	for _, row := range table {
		if name := string(bytes.ToLower(row[1])); decided[name] == "" {
			t.Errorf("%s is in no list", name)
		}
	}
}

func TestTheFilterAllowsNothingThatIsToBeRefused(t *testing.T) {
	dangerous := strings.Fields(`bpf keyctl add_key request_key userfaultfd init_module finit_module delete_module kexec_load
		kexec_file_load reboot swapon iopl ioperm modify_ldt quotactl acct syslog`)
	for _, o := range []Opened{{}, {Perf: true, UserNamespaces: true, IOUring: true}} {
		filter := seccomp(true, o)
		if filter.DefaultAction != fail || *filter.DefaultErrnoRet != uint(unix.EPERM) {
			t.Errorf("default: %s %d", filter.DefaultAction, *filter.DefaultErrnoRet)
		}
		for _, c := range filter.Syscalls {
			for _, name := range c.Names {
				if slices.Contains(dangerous, name) && c.Action == allow {
					t.Errorf("%+v: %s is allowed", o, name)
				}
			}
		}
	}
}

func TestThePageOfNodesNamesEachGroupOfCalls(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/what-nodes-may-do.md")
	check(t, err)
	for _, g := range slices.Concat(someNodesCalls(), refusedCalls()) {
		for _, name := range strings.Fields(g.calls) {
			if g.name != "obsolete" && !bytes.Contains(page, []byte("`"+name+"`")) {
				t.Errorf("%s of %s is not on the page", name, g.name)
			}
		}
	}
	for _, g := range someNodesCalls() {
		if g.name != forHome && !bytes.Contains(page, []byte("`"+g.name+"`")) {
			t.Errorf("the switch %s is not on the page", g.name)
		}
	}
}

func TestAllButIsAllBut(t *testing.T) {
	except := []uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD}
	covered := allBut(except...)
	has := func(n uint32) bool {
		return slices.ContainsFunc(covered, func(b bits) bool { return n&b.mask == b.value })
	}
	for n := range uint32(1 << 16) {
		if has(n) == slices.Contains(except, n) {
			t.Errorf("%#x", n)
		}
	}
	for range 1 << 16 {
		if n := rand.Uint32(); n >= 1<<16 && !has(n) {
			t.Errorf("%#x", n)
		}
	}
}

// conditionalCalls are allowed with some arguments only: see conditions.
func conditionalCalls() []callGroup {
	return []callGroup{
		{"clone", "no namespaces", `clone`},
		{"clone3", "its arguments cannot be looked at, so it is said not to exist, and libraries use clone", `clone3`},
		{"socket", "Unix, IP, and Netlink for routes, sockets, devices, audit, RDMA", `socket socketpair`},
		{"personality", "only the usual one, and without randomised addresses, for debuggers", `personality`},
		{"ioctl", "no input put into a terminal on somebody's behalf, no other line discipline", `ioctl`},
	}
}

// refusedCalls are there so that each call of the kernel has been thought of.
func refusedCalls() []callGroup {
	return []callGroup{
		{"kernel", "code, modules, programs and tracing in the kernel", `
			bpf init_module finit_module delete_module create_module query_module get_kernel_syms
			kexec_load kexec_file_load lookup_dcookie uprobe uretprobe`},
		{"keys", "keys of the kernel, which are not divided by namespaces", `add_key request_key keyctl`},
		{"faults", "with which faults in the kernel are stretched until they can be used", `userfaultfd`},
		{"mounts", "what a node sees is made by its controller", `
			mount umount2 pivot_root open_tree open_tree_attr move_mount mount_setattr fsopen fsconfig fsmount fspick
			statmount listmount`},
		{"namespaces", "", `unshare setns listns`},
		{"handles", "which open files past their directories", `open_by_handle_at name_to_handle_at`},
		{"host", "what is the host's: its name, clock, power, swap, log, accounts of processes, quotas", `
			sethostname setdomainname settimeofday clock_settime reboot swapon swapoff syslog acct quotactl quotactl_fd vhangup`},
		{"ports", "of the processor, and old ways of addressing memory", `ioperm iopl modify_ldt`},
		{"io_uring", "", `io_uring_setup io_uring_enter io_uring_register`},
		{"counters", "", `perf_event_open`},
		{"watching", "all files of a file system; other processes' inner order", `fanotify_init fanotify_mark kcmp`},
		{"labels", "", `lsm_set_self_attr`},
		{"obsolete", "nothing in use needs them", `
			_sysctl sysfs uselib ustat nfsservctl getpmsg putpmsg afs_syscall tuxcall security vserver
			epoll_ctl_old epoll_wait_old`},
	}
}
