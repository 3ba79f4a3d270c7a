package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
)

// mapped is a driver whose nodes have user namespaces of their own.
func mapped(t testing.TB) fixture {
	t.Helper()
	w := open(t, site(t))
	if own, why, _ := w.OwnUsers(t.Context()); !own {
		t.Skipf("skipped: this host cannot: %s", why)
	}
	return w
}

func TestRootOfANodeIsNobodyOnTheHost(t *testing.T) {
	w := mapped(t)
	n := node("c1", 1, 1, `
		{ id -u; cat /proc/self/uid_map; touch /home/of-root /run/of-root /of-root; } > /home/out 2>&1; touch /home/done`)
	b := w.up(t, n)
	c, _ := w.shared("c1")
	eventually(t, "the script ends", func() bool { _, err := os.Stat(filepath.Join(c.home(), "done")); return err == nil })
	p, _ := w.first(b)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	check(t, err)
	root := numbersOf(n).root()
	if want := fmt.Sprintf("Uid:\t%d\t%[1]d\t%[1]d\t%[1]d\n", root); !strings.Contains(string(status), want) {
		t.Errorf("on the host the first process is not %q:\n%s", want, status)
	}
	for path, want := range map[string]uint32{c.home() + "/of-root": 0, b.path("run/of-root"): root,
		c.layer(b) + "/upper/of-root": root} {
		var s unix.Stat_t
		if err := unix.Stat(path, &s); err != nil || s.Uid != want || s.Gid != want {
			t.Errorf("%s is of %d:%d, want %d: %v", path, s.Uid, s.Gid, want, err)
		}
	}
	text, _ := os.ReadFile(filepath.Join(c.home(), "out"))
	if want := fmt.Sprintf("0\n%10d %10d %10d\n%10d %10d %10d\n",
		0, root, ownIDs, ownIDs, commonID, commonIDs); !strings.HasPrefix(string(text), want) {
		t.Errorf("in the node: %q, want %q", text, want)
	}
}

// The kernel counts files that are under way by a user's number on the host: root of one node kept all of a host from logging in,
// which sshd passes a terminal for.
func TestRootOfAClustersNodeLeavesFilesToPassToOthers(t *testing.T) {
	w := mapped(t)
	sent := func(cluster string, segment int, command string) (many int) {
		n := node(cluster, 1, 1, command)
		n.MAC = substrate.MAC(segment, 1)
		check(t, w.EnsureShared(t.Context(), cluster, alone))
		c, err := w.shared(cluster)
		check(t, err)
		build(t, "passer", c.home())
		w.up(t, n)
		eventually(t, "it has sent what it may", func() bool {
			text, err := os.ReadFile(filepath.Join(c.home(), "sent"))
			if err == nil {
				_, err = fmt.Sscan(string(text), &many)
			}
			return err == nil
		})
		return many
	}
	if all := sent("c1", 1, "exec /home/passer"); all < 1000 || all >= 1<<22 {
		t.Fatalf("root of a node sent %d files, which should be all it may", all)
	}
	if one := sent("c2", 2, "exec /home/passer 1"); one != 1 {
		t.Error("root of another cluster's node can pass no file")
	}
}

func TestClustersHaveNumbersOfTheirOwn(t *testing.T) {
	last := numbers{}
	for segment := range ownRanges {
		n := numbersOf(substrate.Node{MAC: substrate.MAC(segment, 1)})
		if len(last) > 0 && n.root() != last.root()+ownIDs || n[0].HostID+n[0].Size > n[1].HostID {
			t.Fatalf("cluster %d has %v after %v", segment, n, last)
		}
		last = n
	}
	if end := last[1].HostID + last[1].Size; end != 0x7f000000 {
		t.Errorf("they end before %#x: from there on are users of guests", end)
	}
}

func TestASiteMayLeaveNodesTheHostsNumbers(t *testing.T) {
	w, no := open(t, site(t)), false
	w.config.Opened.OwnUsers = &no
	d, err := New(w.config)
	check(t, err)
	w = fixture{d}
	own, why, _ := w.OwnUsers(t.Context())
	p, _ := w.first(w.up(t, node("c1", 1, 1, "")))
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	if own || why == "" || !strings.Contains(string(status), "Uid:\t0\t") {
		t.Errorf("own users: %v, %q:\n%s", own, why, status)
	}
}

func TestAHeadThatServesHomeKeepsTheHostsRoot(t *testing.T) {
	w := mapped(t)
	n := node("c1", 1, 1, "")
	n.ServesHome = true
	p, _ := w.first(w.up(t, n))
	if status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID)); !strings.Contains(string(status), "Uid:\t0\t") {
		t.Errorf("%s", status)
	}
}

func TestRootMayReadJobsWhereItIsNobodyOnTheHost(t *testing.T) {
	w := mapped(t)
	for name, c := range map[string]struct {
		head, serves, own, want bool
	}{
		"a compute node":                         {false, false, true, true},
		"a head":                                 {true, false, true, false},
		"a head that serves /home":               {true, true, true, false},
		"a compute node with the host's numbers": {false, false, false, false},
	} {
		if w.noMapping = ""; !c.own {
			w.noMapping = "by test"
		}
		n := node("c1", 1, 1, "")
		n.KeepsState, n.ServesHome = c.head, c.serves
		shared, err := w.shared(n.Cluster)
		check(t, err)
		spec, _ := w.bundle(boot{}, n, shared, c.serves)
		if got := slices.Contains(spec.Process.Capabilities.Bounding, "CAP_SYS_PTRACE"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A node's root has all that the driver leaves it, in its own network alone.
func TestRootOfANodeRulesItsOwnNetworkAndNoOther(t *testing.T) {
	w := mapped(t)
	b := w.up(t, node("c1", 1, 1, ""))
	c, err := w.shared("c1")
	check(t, err)
	same := func(network string) bool {
		owner := unix.NS_GET_USERNS
		file, err := os.Open(network)
		check(t, err)
		defer file.Close()
		fd, err := unix.IoctlRetInt(int(file.Fd()), uint(owner))
		check(t, err)
		defer unix.Close(fd)
		var is, node unix.Stat_t
		check(t, unix.Fstat(fd, &is))
		check(t, unix.Stat(b.path("userns"), &node))
		return is.Ino == node.Ino
	}
	if !same(b.path("netns")) || same(c.netns()) {
		t.Errorf("the node's network is of its root: %v; so is the cluster's: %v", same(b.path("netns")), same(c.netns()))
	}
}

func TestAHostThatCannotMapUsersSaysWhy(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: mounts need root")
	}
	dir := t.TempDir()
	check(t, unix.Mount("proc", dir, "proc", 0, "")) // a file system that has no other numbers
	defer func() { check(t, unix.Unmount(dir, 0)) }()
	if err := tryToMap(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Error(err)
	}
}
