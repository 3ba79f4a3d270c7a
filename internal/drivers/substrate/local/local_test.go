package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/kit/netns"
)

func TestNothingIsLeftAfterRemoval(t *testing.T) {
	w := open(t, site(t))
	for number := range 3 {
		w.up(t, node("c1", number+1, 1, "touch /home/file /root-file /run/file /dev/shm/file"))
	}
	w.down(t)
	w.wantNothingLeft(t)
}

func TestNothingIsLeftOfANodeThatDied(t *testing.T) {
	w := open(t, site(t))
	n := node("c1", 1, 1, "exit 3")
	w.up(t, n)
	eventually(t, "the node ends", func() bool { seen, _ := w.Observe(t.Context(), n.Ref); return !seen.Running })
	w.down(t)
	w.wantNothingLeft(t)
}

func TestTheHostsNetworkIsUnchanged(t *testing.T) {
	network := func() string {
		return command(t, "ip", "-o", "link") + command(t, "ip", "-o", "addr") + command(t, "ip", "route", "show", "table",
			"all") + command(t, "ip", "netns")
	}
	before := network()
	w := open(t, site(t))
	w.up(t, node("c1", 1, 1, ""))
	if diff := cmp.Diff(before, network()); diff != "" {
		t.Errorf("while a node runs: %s", diff)
	}
	w.down(t)
	if diff := cmp.Diff(before, network()); diff != "" {
		t.Errorf("afterwards: %s", diff)
	}
}

func TestClustersWithTheSameAddressesDoNotReachEachOther(t *testing.T) {
	w := open(t, site(t))
	a1, a2 := w.up(t, node("a", 1, 1, "")), w.up(t, node("a", 2, 1, "nc -ll -p 8000 -e echo from a &"))
	b1, b3 := w.up(t, node("b", 1, 1, "")), w.up(t, node("b", 3, 1, ""))
	for _, b := range []boot{a1, a2, b1, b3} {
		meet(t, b.path("netns"), "eth0", alone.Segment, local1, local2)
	}
	for _, test := range []struct {
		name      string
		arguments []string
	}{
		{"ping", []string{"ping", "-c1", "-W1", "10.77.1.2"}},
		{"TCP", []string{"nc", "-w1", "10.77.1.2", "8000"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			eventually(t, "the neighbour in its own cluster answers", func() bool {
				_, err := inNode(t, a1, "busybox", test.arguments...)
				return err == nil
			})
			if output, err := inNode(t, b1, "busybox", test.arguments...); err == nil {
				t.Errorf("the other cluster answers: %s", output)
			}
		})
	}
}

// The kernel keeps 1024 neighbours that were not written, of all its networks together, and none while so many are asked for.
func TestANodeThatSpeaksToNobodyLeavesNeighboursToOthers(t *testing.T) {
	w := open(t, site(t))
	b := w.up(t, node("c1", 1, 1, ""))
	check(t, netns.Do(b.path("netns"), func() error {
		for host := range 200 {
			c, err := net.Dial("udp", fmt.Sprintf("10.77.9.%d:9", host))
			if err != nil {
				return err
			}
			_, err = c.Write([]byte("?"))
			if err := errors.Join(err, c.Close()); err != nil {
				return err
			}
		}
		return nil
	}))
	check(t, netns.Links(b.path("netns"), func(links *netlink.Handle) error {
		nic, err := links.LinkByName("eth0")
		if err != nil {
			return err
		}
		all, err := links.NeighList(nic.Attrs().Index, netlink.FAMILY_V4)
		for _, n := range all {
			if n.State&(unix.NUD_NOARP|unix.NUD_PERMANENT) == 0 {
				return fmt.Errorf("%d neighbours, of which %v is asked for", len(all), n)
			}
		}
		return err
	}))
}

// TestANodeAnswersBeforeItsAgentKnowsAnybody: what is lost while its neighbours are not known would be sent again after a second.
func TestANodeAnswersBeforeItsAgentKnowsAnybody(t *testing.T) {
	w := open(t, site(t))
	var last boot
	for i := range 2 {
		n := node("c1", 1+i, 1, "")
		n.Address, n.MAC, n.Seats = substrate.Address(substrate.HeadSlot+i), substrate.MAC(alone.Segment, substrate.HeadSlot+i), 2
		last = w.up(t, n)
	}
	check(t, netns.Do(last.path("netns"), func() error {
		c, err := net.DialTimeout("tcp", substrate.Address(substrate.HeadSlot).Addr().String()+":9", time.Minute)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		return fmt.Errorf("the head has not refused, but %v, %w", c, err)
	}))
	again := ""
	check(t, netns.Do(last.path("netns"), func() error {
		text, err := os.ReadFile("/proc/thread-self/net/snmp")
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); fields[0] == "Tcp:" {
				again = fields[12] // RetransSegs
			}
		}
		return err
	}))
	if again != "0" {
		t.Errorf("%s packets were sent again", again)
	}
}

func TestANodeHasNoWayOut(t *testing.T) {
	w := open(t, site(t))
	b := w.up(t, node("c1", 1, 1, ""))
	if routes, err := inNode(t, b, "ip", "-4", "route"); err != nil || strings.Contains(routes, "default") ||
		strings.Count(routes, "\n") != 1 {
		t.Errorf("routes: %q, %v", routes, err)
	}
}

func TestDialReachesAListenerInANode(t *testing.T) {
	w := open(t, site(t))
	w.up(t, node("c1", 1, 1, "nc -ll -p 8000 -e echo hello &"))
	var line string
	eventually(t, "the listener answers", func() bool {
		connection, err := w.Dial(t.Context(), "c1", netip.MustParseAddrPort("10.77.1.1:8000"))
		if err != nil {
			return false
		}
		defer connection.Close()
		line, _ = bufio.NewReader(connection).ReadString('\n')
		return true
	})
	if line != "hello\n" {
		t.Errorf("read %q", line)
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	w := open(t, site(t))
	w.up(t, node("c1", 1, 1, ""))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := w.Dial(ctx, "c1", netip.MustParseAddrPort("10.77.9.9:1")); err == nil || time.Since(start) > time.Minute {
		t.Errorf("got %v after %v", err, time.Since(start))
	}
}

func TestANodeSeesWhatItWasGiven(t *testing.T) {
	w := open(t, site(t))
	n := node("c1", 1, 1, `
		{ hostname; id -u; echo $$; grep -c secret-token /run/muster/boot.json
		[ -d /run/muster/controllers ] && ! touch /run/muster/controllers/x 2>/dev/null && echo sockets are read-only
		! touch /usr/sbin/muster 2>/dev/null && echo binary is read-only
		! mount -t tmpfs x /tmp 2>/dev/null && echo cannot mount
		touch /home/shared /etc/own && echo can write; } > /home/out 2>&1; touch /home/done`)
	n.File.Authority = "secret-token"
	b := w.up(t, n)
	c, _ := w.shared("c1")
	eventually(t, "the script ends", func() bool { _, err := os.Stat(filepath.Join(c.home(), "done")); return err == nil })
	got, _ := os.ReadFile(filepath.Join(c.home(), "out"))
	want := "n1\n0\n1\n1\nsockets are read-only\nbinary is read-only\ncannot mount\ncan write\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	for _, file := range []string{b.path("config.json"), b.console()} {
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "secret-token") {
			t.Errorf("%s: %v, or the secret is in it", file, err)
		}
	}
}

func TestOnlyANodeThatServesHomeMayOpenFilesByHandle(t *testing.T) {
	w := open(t, site(t))
	for number, serves := range map[int]bool{1: false, 2: true} {
		n := node("c1", number, 1, "")
		n.ServesHome = serves
		p, _ := w.first(w.up(t, n))
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
		check(t, err)
		var bounding uint64
		_, rest, _ := strings.Cut(string(status), "CapBnd:")
		if _, err := fmt.Sscanf(rest, "%x", &bounding); err != nil {
			t.Fatal(err)
		}
		if may := bounding&(1<<unix.CAP_DAC_READ_SEARCH) != 0; may != serves {
			t.Errorf("serves /home: %v, capabilities: %x", serves, bounding)
		}
	}
}

func TestTheMemoryLimitEndsTheNode(t *testing.T) {
	w := open(t, site(t))
	if !w.cgroups.Memory {
		t.Skip("skipped: this host cannot limit memory")
	}
	n := node("c1", 1, 1, "until [ -e /home/go ]; do sleep 0.1; done; exec dd if=/dev/zero of=/dev/null bs=256M count=1")
	n.MemoryMiB = 48
	w.up(t, n)
	if seen, err := w.Observe(t.Context(), n.Ref); err != nil || seen.Limits.Memory != "48 MiB" {
		t.Errorf("observed %+v, %v", seen, err)
	}
	c, err := w.shared("c1")
	check(t, err)
	check(t, os.WriteFile(filepath.Join(c.home(), "go"), nil, 0o600))
	var seen substrate.Observation
	eventually(t, "the node ends", func() bool { seen, _ = w.Observe(t.Context(), n.Ref); return !seen.Running })
	if !strings.Contains(seen.Detail, "memory limit") || !strings.Contains(seen.Detail, "killed") {
		t.Errorf("detail: %s", seen.Detail)
	}
}

func TestTheCPULimitIsInForceWhereItIsLess(t *testing.T) {
	w := open(t, site(t))
	if !w.cgroups.CPU {
		t.Skip("skipped: this host cannot limit CPUs")
	}
	n := node("c1", 1, 1, "")
	n.CPUs = 1
	w.up(t, n)
	all := node("c1", 2, 1, "")
	all.CPUs = 1 << 10
	w.up(t, all)
	one, _ := w.Observe(t.Context(), n.Ref)
	many, _ := w.Observe(t.Context(), all.Ref)
	if one.Limits.CPU != "1 cpus" || many.Limits.CPU != "unlimited" {
		t.Errorf("limits: %+v, %+v", one.Limits, many.Limits)
	}
}

func TestANodeComesBackAfterTheHostRebooted(t *testing.T) {
	w := open(t, site(t))
	n := node("c1", 1, 1, "")
	b := w.up(t, n)
	c, _ := w.shared("c1")
	check(t, os.WriteFile(filepath.Join(c.home(), "work"), nil, 0o600))
	// What a reboot takes: processes, networks, mounts and control groups. Files stay.
	w.crash(t, n.Ref)
	w.wards.collect()
	check(t, unmountBelow(t.Context(), w.config.Dir))
	check(t, w.cgroups.Remove(t.Context(), b.name))
	if seen, err := w.Observe(t.Context(), n.Ref); err != nil || !seen.Present || seen.Running {
		t.Errorf("observed %+v, %v", seen, err)
	}
	check(t, w.EnsureShared(t.Context(), "c1", alone))
	check(t, w.Ensure(t.Context(), node("c1", 1, 2, "")))
	if seen, err := w.Observe(t.Context(), n.Ref); err != nil || !seen.Running {
		t.Errorf("observed %+v, %v", seen, err)
	}
	if _, err := os.Stat(filepath.Join(c.home(), "work")); err != nil {
		t.Error(err)
	}
	w.down(t)
	w.wantNothingLeft(t)
}

func TestAnImageIsMountedAsLongAsANodeUsesIt(t *testing.T) {
	w := open(t, site(t))
	mounted := func() []string {
		entries, err := os.ReadDir(filepath.Join(w.config.Dir, "images"))
		check(t, err)
		names := []string{}
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return names
	}
	one, two := node("c1", 1, 1, ""), node("c2", 1, 1, "")
	w.up(t, one)
	w.up(t, two)
	for _, step := range []struct {
		name string
		do   func() error
		want []string // digests
	}{
		{"two nodes share it", func() error { return nil }, []string{busybox}},
		{"one boots another", func() error {
			one.Boot, one.Image = 2, "sha256:0a"
			return w.Ensure(t.Context(), one)
		}, []string{"sha256:0a", busybox}},
		{"so does the other", func() error {
			two.Boot, two.Image = 2, "sha256:0a"
			return w.Ensure(t.Context(), two)
		}, []string{"sha256:0a"}},
		{"one goes", func() error { return w.Remove(t.Context(), one.Ref) }, []string{"sha256:0a"}},
		{"both are gone", func() error { return w.Remove(t.Context(), two.Ref) }, []string{}},
	} {
		check(t, step.do())
		want := []string{}
		for _, digest := range step.want {
			want = append(want, imageName(digest))
			if w.mapsUsers(one) {
				want = append(want, fmt.Sprintf("%s.%d", imageName(digest), numbersOf(one).root()))
			}
		}
		if diff := cmp.Diff(want, mounted()); diff != "" {
			t.Errorf("%s: %s", step.name, diff)
		}
	}
}

func TestObserveSaysWhyANodeEnded(t *testing.T) {
	w := open(t, site(t))
	n := node("c1", 1, 1, "echo no config; exit 7")
	w.up(t, n)
	var seen substrate.Observation
	eventually(t, "the node ends", func() bool { seen, _ = w.Observe(t.Context(), n.Ref); return !seen.Running })
	if want := "its first process has ended; exit status 7; last words: no config"; seen.Detail != want {
		t.Errorf("got %q, want %q", seen.Detail, want)
	}
}

func TestAFailedStartSaysWhy(t *testing.T) {
	w := open(t, site(t))
	w.config.Binary = filepath.Join(t.TempDir(), "absent")
	check(t, w.EnsureShared(t.Context(), "c1", alone))
	defer w.down(t)
	if err := w.Ensure(t.Context(), node("c1", 1, 1, "")); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("got %v", err)
	}
}

func TestRemoveGivesTheNodeItsGrace(t *testing.T) {
	w := open(t, site(t))
	for _, test := range []struct {
		name     string
		script   string
		farewell bool
	}{
		{"to a node that handles SIGTERM", "trap 'touch /home/bye; exit 0' TERM; touch /home/ready", true},
		{"not to one that ignores it", "trap - TERM; touch /home/ready; exec sleep 3600", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w.config.Grace = time.Minute
			n := node("c1", 1, 1, test.script)
			w.up(t, n)
			c, _ := w.shared("c1")
			eventually(t, "it is ready", func() bool { _, err := os.Stat(filepath.Join(c.home(), "ready")); return err == nil })
			time.Sleep(50 * time.Millisecond)
			start := time.Now()
			check(t, w.Remove(t.Context(), n.Ref))
			if took := time.Since(start); took >= w.config.Grace { // it did not wait for it
				t.Errorf("took %v", took)
			}
			if _, err := os.Stat(filepath.Join(c.home(), "bye")); (err == nil) != test.farewell {
				t.Errorf("farewell: %v", err)
			}
		})
	}
}

func TestHomeIsNotDeletedUnderAForeignMount(t *testing.T) {
	w := open(t, site(t))
	check(t, w.EnsureShared(t.Context(), "c1", alone))
	c, _ := w.shared("c1")
	below := filepath.Join(c.home(), "data")
	check(t, os.Mkdir(below, 0o755))
	command(t, "mount", "--bind", t.TempDir(), below)
	check(t, os.WriteFile(filepath.Join(below, "precious"), nil, 0o600))
	if err := w.RemoveShared(t.Context(), "c1"); err == nil || !strings.Contains(err.Error(), below) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(below, "precious")); err != nil {
		t.Error(err)
	}
	command(t, "umount", below)
	w.down(t)
}

func TestDriversOfDifferentDirectoriesDoNotCollide(t *testing.T) {
	site := site(t)
	one, two := open(t, site), open(t, site)
	n := node("c1", 1, 1, "")
	one.up(t, n)
	two.up(t, n)
	check(t, one.Remove(t.Context(), n.Ref))
	if seen, err := two.Observe(t.Context(), n.Ref); err != nil || !seen.Running {
		t.Errorf("observed %+v, %v", seen, err)
	}
}

func TestDriversOfOneDirectoryAreReplicas(t *testing.T) {
	site := site(t)
	w := open(t, site)
	other, err := openAt(site, w.config.Dir)
	check(t, err)
	check(t, w.EnsureShared(t.Context(), "c1", alone))
	defer w.down(t)
	var all sync.WaitGroup
	for i := range 12 {
		n, driver := node("c1", i/2+1, 1, ""), []*Driver{w.Driver, other}[i%2]
		all.Go(func() { check(t, driver.Ensure(t.Context(), n)) })
	}
	all.Wait()
	if refs, err := w.List(t.Context()); err != nil || len(refs) != 6 {
		t.Errorf("listed %v, %v", refs, err)
	}
	// Whichever driver removes a node, the one that started it collects the dead process.
	w.down(t)
	w.wards.collect()
	other.wards.collect()
	w.wantNothingLeft(t)
}

// ensureForever is a controller that starts and restarts a node until it is killed.
func ensureForever(site string) {
	d, err := openAt(site, filepath.Join(site, "state"))
	if err == nil {
		fmt.Println("open")
	}
	for boot := time.Now().UnixNano(); err == nil; boot++ {
		err = d.Ensure(context.Background(), node("c1", 1, boot, ""))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestAKilledControllerLeavesNothingThatRemoveDoesNotFind(t *testing.T) {
	site, w := besideKilled(t)
	check(t, w.EnsureShared(t.Context(), "c1", alone))
	defer w.down(t)
	for range 12 {
		killed(t, crashEnv, site, rand.N(120*time.Millisecond))
		n := node("c1", 1, time.Now().UnixNano(), "")
		if rand.N(2) == 0 {
			check(t, w.Ensure(t.Context(), n))
			if seen, err := w.Observe(t.Context(), n.Ref); err != nil || !seen.Running || seen.Boot != n.Boot {
				t.Errorf("observed %+v, %v", seen, err)
			}
		}
		n.Boot = 0
		check(t, w.Remove(t.Context(), n.Ref))
		if refs, _ := w.List(t.Context()); len(refs) > 0 {
			t.Errorf("listed %v", refs)
		}
	}
	check(t, w.RemoveShared(t.Context(), "c1"))
	w.wantNothingLeft(t)
}

func BenchmarkEnsure(b *testing.B) {
	site := site(b)
	for _, nodes := range []int{1, 4, 50, 200} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			w := open(b, site)
			check(b, w.EnsureShared(b.Context(), "c1", alone))
			defer w.down(b)
			var removing time.Duration
			boot := int64(0)
			for b.Loop() {
				boot++
				inParallel(nodes, func(i int) { check(b, w.Ensure(b.Context(), node("c1", i+1, boot, ""))) })
				b.StopTimer()
				start := time.Now()
				inParallel(nodes, func(i int) { check(b, w.Remove(b.Context(), node("c1", i+1, 0, "").Ref)) })
				removing += time.Since(start)
				b.StartTimer()
			}
			b.ReportMetric(float64(removing.Milliseconds())/float64(b.N), "ms/remove")
		})
	}
}

func BenchmarkEnsureOfARunningNode(b *testing.B) {
	w := open(b, site(b))
	n := node("c1", 1, 1, "")
	w.up(b, n)
	for b.Loop() {
		check(b, w.Ensure(b.Context(), n))
	}
}

func BenchmarkObserve(b *testing.B) {
	w := open(b, site(b))
	n := node("c1", 1, 1, "")
	w.up(b, n)
	for b.Loop() {
		_, err := w.Observe(b.Context(), n.Ref)
		check(b, err)
	}
}

func inParallel(n int, do func(int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

func TestAMachineThatIsLargerThanItsHostFailsItsInspection(t *testing.T) {
	host := inventory.Facts{CPUs: 2, MemoryMiB: 8000}
	for _, c := range []struct {
		asked inventory.Facts
		want  []string
	}{
		{inventory.Facts{}, nil}, {host, nil}, {inventory.Facts{CPUs: 1, MemoryMiB: 512}, nil},
		{inventory.Facts{CPUs: 4}, []string{"4 asked for, and this host has 2"}},
		{inventory.Facts{CPUs: 3, MemoryMiB: 9000}, []string{"3 asked for", "9000 MiB asked for, and this host has 8000 MiB"}},
	} {
		failed := within(host, c.asked)
		if len(failed) != len(c.want) {
			t.Errorf("%+v: %+v", c.asked, failed)
			continue
		}
		for i, check := range failed {
			if check.OK || !strings.Contains(check.Text, c.want[i]) {
				t.Errorf("%+v: %+v, want %q", c.asked, check, c.want[i])
			}
		}
	}
}
