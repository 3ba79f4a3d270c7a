package local

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// A head and three nodes that did nothing but fork left no process number to the host, and none to others' nodes.
func TestANodeThatOnlyForksLeavesProcessNumbersToTheHostAndToOthers(t *testing.T) {
	w := open(t, site(t))
	if !w.cgroups.Pids {
		t.Skip("skipped: this host cannot limit processes")
	}
	// A shell that cannot fork ends, and what it has begun goes on: another one comes.
	const forks = "bomb() { sleep $1; while :; do sleep 1000 & done 2>/dev/null; }; for i in 0 1 2 3 4 5 6 7 8 9; do " +
		"bomb 0.$i & bomb 1.$i & bomb 2.$i & done; exec sleep 1000"
	modest := w.up(t, node("c2", 1, 1, "until [ -e /home/go ]; do sleep 0.1; done; i=0; "+
		"while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done && touch /home/forked; sleep 1000"))
	greedy := []boot{w.up(t, node("c1", 1, 1, forks)), w.up(t, node("c1", 2, 1, forks))}
	count := func(b boot) (n int64) {
		n, _ = strconv.ParseInt(w.cgroups.Read(b.name, "pids.current"), 10, 64)
		return n
	}
	if most := w.cgroups.Read(modest.name, "pids.max"); most != fmt.Sprint(min(allTasks()/4, tasksAtStart)) {
		t.Errorf("a node may have %s at its start", most)
	}
	all, took := int64(8000), int64(0) // the host is told to be small
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		check(t, w.share(all))
		took = count(greedy[0]) + count(greedy[1])
		if lasts := time.Since(began); lasts > 3*time.Second && took >= tasksAtStart || lasts > 2*time.Minute {
			break
		}
	}
	if took < tasksAtStart || took > all*3/4*3/4 {
		t.Errorf("two nodes that fork have %d of %d", took, all)
	}
	c, err := w.shared("c2")
	check(t, err)
	check(t, os.WriteFile(filepath.Join(c.home(), "go"), nil, 0o600))
	eventually(t, "another cluster begins 200 processes", func() bool {
		check(t, w.share(all))
		_, err := os.Stat(filepath.Join(c.home(), "forked"))
		return err == nil
	})
}

// As every controller does, this raises what the host has few of.
func TestAHostAtWorkGuardsWhatNodesShare(t *testing.T) {
	w := open(t, site(t))
	b := w.up(t, node("c1", 1, 1, "sleep 1000"))
	long := filepath.Join(b.dir, "console.log")
	check(t, os.WriteFile(long, bytes.Repeat([]byte("said\n"), 4<<20), 0o600))
	const few = "/proc/sys/fs/file-max"
	text, err := os.ReadFile(few)
	check(t, err)
	usual, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	check(t, err)
	check(t, os.WriteFile(few, fmt.Append(nil, fewNumbers()[few]/2), 0o644)) // enough for all who run beside this test
	defer func() { check(t, os.WriteFile(few, fmt.Append(nil, max(usual, fewNumbers()[few])), 0o644)) }()
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		host(w).Work(ctx)
	}()
	defer func() { end(); <-ended }()
	eventually(t, "the host has as many open files as all nodes may take", func() bool {
		text, err := os.ReadFile(few)
		return err == nil && strings.TrimSpace(string(text)) == fmt.Sprint(fewNumbers()[few])
	})
	if w.cgroups.Pids {
		eventually(t, "a node has its share of process numbers", func() bool {
			return w.cgroups.Read(b.name, "pids.max") != fmt.Sprint(min(allTasks()/4, tasksAtStart))
		})
	}
	eventually(t, "a long console is trimmed", func() bool {
		var info unix.Stat_t
		return unix.Stat(long, &info) == nil && info.Blocks*512 < info.Size/2
	})
}

// Each node that began took as much of the CPUs from the controller as the one before.
func TestAllNodesTogetherWeighAsMuchAsAFewGroups(t *testing.T) {
	w := open(t, site(t))
	file, usual := "cpu.shares", int64(1024)
	if w.cgroups.Version == 2 {
		file, usual = "cpu.weight", 100
	}
	if !w.cgroups.CPU || !w.cgroups.Pids {
		t.Skip("skipped: this host cannot limit processes, or CPUs")
	}
	for _, nodes := range []int{1, nodesWeigh + 2} {
		sum := int64(0)
		var all []boot
		for n := range nodes {
			all = append(all, w.up(t, node("c1", n+1, 1, "")))
		}
		check(t, w.share(allTasks()))
		for _, b := range all {
			n, err := strconv.ParseInt(w.cgroups.Read(b.name, file), 10, 64)
			check(t, err)
			sum += n
		}
		if want := min(int64(nodes), nodesWeigh) * usual; sum > want || sum < want*9/10 {
			t.Errorf("%d nodes weigh %d, want %d", nodes, sum, want)
		}
	}
}

func TestWhatNodesMayHaveNeverAddsUpToWhatTheHostKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.Int64Range(1000, 1<<22).Draw(t, "all")
		host := rapid.Int64Range(50, all/2).Draw(t, "host")
		has, had := map[string]map[string]int64{}, int64(0)
		left := max(0, all-all/4-host)
		for c := range rapid.IntRange(1, 6).Draw(t, "clusters") {
			of := map[string]int64{}
			for n := range rapid.IntRange(1, 6).Draw(t, "nodes") {
				tasks := rapid.Int64Range(0, min(left, all/4)).Draw(t, "tasks")
				left -= tasks
				had += tasks
				of[fmt.Sprintf("%d.%d", c, n)] = tasks
			}
			has[fmt.Sprint(c)] = of
		}
		may := int64(0)
		for _, n := range allowTasks(all, host, has) {
			may += n
		}
		if may > max(had, all-all/4-host) {
			t.Fatalf("nodes that have %d may have %d, beside %d of the host, of %d", had, may, host, all)
		}
	})
}

// Where memory does not count what sockets hold, a node's sockets took all that the host has for those of all.
func TestSocketsOfANodeHaveABoundOfItsMemory(t *testing.T) {
	w := open(t, site(t))
	switch {
	case !w.cgroups.Memory || !w.cgroups.Pids:
		t.Skip("skipped: this host cannot limit memory, or processes")
	case w.cgroups.Version == 2:
		t.Skip("skipped: control groups of version 2 count sockets as memory")
	}
	n := node("c1", 1, 1, "")
	n.MemoryMiB = 64
	b := w.up(t, n)
	check(t, w.share(allTasks()))
	if got := w.cgroups.Read(b.name, "memory.kmem.tcp.limit_in_bytes"); got != fmt.Sprint(16<<20) {
		t.Errorf("sockets of a node with 64 MiB may hold %s bytes", got)
	}
}
