package noded

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"muster/internal/drivers"
	"muster/internal/kit/netns"
	"muster/internal/protocol"
)

func agentMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return ExitStatus(Run(ctx, Options{Schedulers: drivers.Schedulers(), Console: os.Stdout}))
}

// TestARealClusterLives boots head and nodes of the real image and takes them through a cluster's life.
func TestARealClusterLives(t *testing.T) {
	r := newRack(t)
	f := r.controller
	queues := []protocol.Queue{{Name: "cpu", Default: true}}
	head, n1, n2, n3 := testPeer("head", 0, protocol.Head), testPeer("n1", 1, protocol.Compute),
		testPeer("n2", 2, protocol.Compute), testPeer("n3", 3, protocol.Compute)
	for _, p := range []protocol.Peer{head, n1, n2, n3} {
		r.plug(t, p)
	}

	r.configure(1, queues, head, n1, n2)
	began := time.Now()
	var starts sync.WaitGroup
	for _, p := range []protocol.Peer{head, n1, n2} {
		starts.Go(func() { r.boot(t, p) })
	}
	starts.Wait()
	t.Logf("containers run after %v", time.Since(began))
	f.until(t, "two idle nodes", func() bool {
		return f.scheduler("n1").State == protocol.NodeFree && f.scheduler("n2").State == protocol.NodeFree
	})
	t.Logf("idle after %v", time.Since(began))
	f.until(t, "all healthy", func() bool {
		return f.healthy("head") && f.healthy("n1") && f.healthy("n2") && f.reports["head"].Revision == 1
	})
	t.Logf("healthy after %v", time.Since(began))
	t.Logf("agent of n1: %s", r.cost(t, n1))

	if got := strings.Fields(r.ssh(t, head, "srun -N2 hostname | sort")); strings.Join(got, " ") != "n1 n2" {
		t.Errorf("srun hostname: %q", got)
	}
	if got := r.ssh(t, head, "srun -N2 -n2 mpi-pingpong 2>&1 || true"); !strings.Contains(got, "pingpong_bandwidth_mbs") {
		t.Errorf("MPI: %s", got)
	}
	if got := r.ssh(t, head, "ssh n1 hostname"); got != "n1\n" {
		t.Errorf("ssh from node to node: %q", got)
	}

	err := netns.Do("/run/netns/"+r.net, func() error { return served(t.Context(), head.Address) })
	if err == nil || !strings.Contains(err.Error(), "does not serve /home to this node") {
		t.Errorf("the head serves /home to who is no node: %v", err)
	}
	// Bit 2, which is missing in b, is DAC_READ_SEARCH: capability.h.
	if got := r.ssh(t, head, "grep CapBnd /proc/self/status"); !strings.HasSuffix(strings.TrimSpace(got), "b") {
		t.Errorf("who logs in to the head may come to open files by handle: %s", got)
	}

	r.ssh(t, head, "sbatch -w n2 --wrap 'sleep 300'")
	f.until(t, "a job on n2", func() bool { return f.scheduler("n2").Jobs == 1 })
	r.crash(t, n2)
	r.boot(t, n2)
	f.until(t, "n2 idle again", func() bool {
		n := f.scheduler("n2")
		return n.State == protocol.NodeFree && n.Jobs == 0 && n.Reason == ""
	})
	if got := r.ssh(t, head, "squeue -h -o %t; scancel -u alice"); got != "PD\n" {
		t.Errorf("the job of the crashed node: %q, want it to be queued again", got)
	}

	r.ssh(t, head, "sbatch -w n1 --wrap 'until [ -e ~/go ]; do sleep 0.2; done; echo finished > ~/done'")
	f.until(t, "a job on n1", func() bool { return f.scheduler("n1").Jobs == 1 })
	began = time.Now()
	n1.Drain = true
	r.configure(2, append(queues, protocol.Queue{Name: "big"}), head, n1, n2, n3)
	r.boot(t, n3)
	f.until(t, "n3 idle", func() bool { return f.scheduler("n3").State == protocol.NodeFree })
	t.Logf("third node idle after %v", time.Since(began))
	f.until(t, "n1 draining with its job", func() bool { n := f.scheduler("n1"); return n.Closed() && n.Jobs == 1 })
	r.ssh(t, head, "touch go")
	f.until(t, "n1 drained", func() bool { n := f.scheduler("n1"); return n.Drained() && n.Jobs == 0 })
	if got := r.ssh(t, head, "cat done; sinfo -h -o %P | sort"); got != "finished\nbig\ncpu*\n" {
		t.Errorf("after the drain: %q", got)
	}
	if took := r.halt(t, n1); took > time.Minute {
		t.Errorf("n1 took %v to end", took)
	} else {
		t.Logf("n1 ended in %v", took)
	}
	r.configure(3, append(queues, protocol.Queue{Name: "big"}), head, n2, n3)
	f.until(t, "n1 gone", func() bool { return f.scheduler("n1").Name == "" && f.scheduler("n2").State == protocol.NodeFree })

	r.ssh(t, head, "sbatch -w n2 --wrap 'sleep 300'; sbatch --no-requeue -w n3 --wrap 'sleep 300'")
	f.until(t, "jobs on n2 and n3", func() bool { return f.scheduler("n2").Jobs == 1 && f.scheduler("n3").Jobs == 1 })
	n2.Drain, n2.DrainKill, n3.Drain, n3.DrainKill = true, true, true, true
	r.configure(4, queues, head, n2, n3)
	f.until(t, "n2 and n3 free", func() bool { return f.scheduler("n2").Jobs == 0 && f.scheduler("n3").Jobs == 0 })
	n2.Drain, n2.DrainKill = false, false
	r.configure(5, queues, head, n2)
	// The job that was queued again may be on n2 already.
	f.until(t, "n2 back, n3 gone", func() bool {
		n := f.scheduler("n2")
		return n.Name != "" && !n.Closed() && f.scheduler("n3").Name == ""
	})
	if got := r.ssh(t, head, "squeue -h -o '%Z %j' | wc -l"); got != "1\n" {
		t.Errorf("%s jobs are left, want the one that may be queued again", got)
	}

	for _, p := range []protocol.Peer{n2, head} {
		t.Logf("agent of %s: %s", p.Name, r.cost(t, p))
	}
	for _, p := range []protocol.Peer{n2, head} {
		if took := r.halt(t, p); took > time.Minute { // it has a second for its jobs; a busy host takes its time
			t.Errorf("%s took %v to end", p.Name, took)
		} else {
			t.Logf("%s ended in %v", p.Name, took)
		}
	}
}

// BenchmarkStart measures a cluster's start from the first container to all nodes idle in Slurm, and to all healthy.
// Run it with -benchtime=1x -count=5.
func BenchmarkStart(b *testing.B) {
	for _, size := range []int{3, 50} {
		b.Run(fmt.Sprintf("1+%d", size), func(b *testing.B) { startOnce(b, size) })
	}
}

func startOnce(b *testing.B, size int) {
	b.Helper()
	b.ReportMetric(0, "ns/op") // the metrics below say more
	r := newRack(b)
	f := r.controller
	peers := []protocol.Peer{testPeer("head", 0, protocol.Head)}
	for i := range size {
		peers = append(peers, testPeer(fmt.Sprintf("n%d", i+1), i+1, protocol.Compute))
	}
	for _, p := range peers {
		r.plug(b, p)
	}
	r.configure(1, []protocol.Queue{{Name: "cpu", Default: true}}, peers...)
	began := time.Now()
	next := make(chan protocol.Peer, len(peers))
	for _, p := range peers {
		next <- p
	}
	close(next)
	var starts sync.WaitGroup
	for range 4 {
		starts.Go(func() {
			for p := range next {
				r.boot(b, p)
			}
		})
	}
	starts.Wait()
	b.ReportMetric(time.Since(began).Seconds(), "s-running")
	f.until(b, "all idle", func() bool {
		idle := 0
		if s := f.reports["head"].Scheduler; s != nil {
			for _, n := range s.Nodes {
				if n.State == protocol.NodeFree && n.Responding {
					idle++
				}
			}
		}
		return idle == size
	})
	b.ReportMetric(time.Since(began).Seconds(), "s-idle")
	f.until(b, "all healthy", func() bool {
		for _, p := range peers {
			if !f.healthy(p.Name) {
				return false
			}
		}
		return true
	})
	b.ReportMetric(time.Since(began).Seconds(), "s-healthy")
}
