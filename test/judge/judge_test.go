// Package judge asks a real slurmctld which jobs run on how many nodes, and compares that with what Muster counts.
package judge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/drivers/scheduler/schedulertest"
	"muster/internal/drivers/scheduler/slurm"
	"muster/internal/place/elastic"
	"muster/internal/protocol"
)

// start is the machine that slurmctld lives on: an image's files, a network of its own, and no nodes that run. They are said to
// be in a cloud and asleep, so that jobs start on them; they are never woken.
const start = `set -e
cd $1
mkdir lower rw
mount -t squashfs -o loop,ro $2 lower
mount -t tmpfs none rw
mkdir rw/up rw/work root
mount -t overlay none -o lowerdir=lower,upperdir=rw/up,workdir=rw/work root
for d in run tmp; do mount -t tmpfs none root/$d; done
mount -t proc none root/proc
mount --rbind /dev root/dev
ip link set lo up
ip link add lan0 type veth peer name lan1 # names are looked up only where there is an address
ip addr add 10.99.0.1/24 dev lan0
ip link set lan0 up
ip link set lan1 up
hostname head
printf '127.0.0.1 localhost\n10.99.0.1 head\n' >root/etc/hosts
cp slurm.conf nodes.conf job_submit.lua root/etc/slurm/
mkdir root/run/muster
touch root/run/muster/refused
cp room root/run/muster/
chroot root sh -ec '
	mkdir -p /run/munge /run/slurm /var/spool/ctld /etc/munge
	head -c 128 /dev/urandom >/etc/munge/munge.key
	chown -R munge /run/munge /etc/munge /var/lib/munge /var/log/munge
	chmod 400 /etc/munge/munge.key
	chown slurm /run/slurm /var/spool/ctld
	useradd -m alice
	setpriv --reuid munge --regid munge --clear-groups /usr/sbin/munged
	exec setpriv --reuid slurm --regid slurm --clear-groups /usr/sbin/slurmctld -D -i' >>log 2>&1
`

// shape is a kind of node, with as many of them as its queue may have.
type shape struct {
	name string
	most int
	conf string
	cpus []int // that random jobs ask for
}

// Of tasks that do not fill cores with threads, and ask for memory by the node, Slurm 22.05 starts more on a node than it has
// CPUs for: none is asked for here.
var shapes = []shape{
	{"small", 5, "CPUs=2 RealMemory=4096 TmpDisk=1000", []int{1, 2, 3}},
	{"threads", 3, "CPUs=8 Sockets=1 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=8192 TmpDisk=2000", []int{1, 2, 4, 8, 10}},
	{"gpus", 4, "CPUs=4 RealMemory=16000 TmpDisk=2000 Gres=gpu:2", []int{1, 2, 3, 4, 5}},
}

// court is a slurmctld with, for each shape, queues of each number of nodes from none on: small0, small1, …
type court struct {
	*testing.T
	pid    int
	root   string
	driver scheduler.Control
}

func sit(t *testing.T) *court {
	image := os.Getenv("MUSTER_TEST_IMAGE")
	if image == "" || os.Geteuid() != 0 {
		t.Skip("needs root and MUSTER_TEST_IMAGE, the path of an image's root.squashfs")
	}
	dir := t.TempDir()
	cluster := slurm.Cluster{Name: "judge", Head: "head", HeadAddress: "10.99.0.1", StateDir: "/var/spool/ctld",
		SpoolDir: "/var/spool/slurmd", Local: "/etc/slurm/nodes.conf", Memory: map[string]int{}, Asks: true}
	room := "" // as a head writes it, see docs/decisions/queues.md: jobs that are too large begin held
	nodes := "PrivateData=cloud\nResumeProgram=/bin/true\nSuspendProgram=/bin/true\nSuspendTime=-1\nResumeTimeout=3600\n"
	for _, s := range shapes {
		room += fmt.Sprintf("%s0 0 0 0 %d 0 0\n", s.name, s.most)
		for n := range s.most + 1 {
			queue := s.name + strconv.Itoa(n)
			cluster.Queues = append(cluster.Queues, protocol.Queue{Name: queue})
			cluster.Memory[queue] = 1000
			if n > 0 {
				var in []string // a queue of three has the first three nodes
				for size := n; size <= s.most; size++ {
					in = append(in, s.name+strconv.Itoa(size))
				}
				nodes += fmt.Sprintf("NodeName=%s-%d %s Feature=%s State=CLOUD\n", s.name, n, s.conf, strings.Join(in, ","))
			}
		}
	}
	for name, text := range map[string]string{"slurm.conf": slurm.Render(cluster), "nodes.conf": nodes,
		"job_submit.lua": slurm.SubmitScript, "room": room} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child",
		"sh", "-c", start, "start", dir, image)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
	})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed
	}()
	c := &court{T: t, root: filepath.Join(dir, "root")}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		child, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
		c.pid, _ = strconv.Atoi(strings.TrimSpace(string(child)))
		if _, err := c.run(t.Context(), "scontrol", "ping"); err == nil {
			break
		}
		if over(ended) || time.Since(began) > time.Minute {
			text, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("slurmctld does not answer:\n%s%s", said.String(), text)
		}
	}
	driver := slurm.Factory().Open(scheduler.Host{Run: c.run, Listening: func(int) bool { return true },
		Printf: t.Logf, Files: schedulertest.NewFiles(t)})
	c.driver = driver.(scheduler.Control)
	if err := driver.Prepare(t.Context(), &protocol.Config{}); err != nil { // it learns Slurm's version
		t.Fatal(err)
	}
	return c
}

func over(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// run runs a program on the head.
func (c *court) run(ctx context.Context, argv ...string) ([]byte, error) {
	inside := append([]string{"-t", strconv.Itoa(c.pid), "-m", "-n", "-u", "chroot", c.root, "env"}, argv...)
	out, err := exec.CommandContext(ctx, "nsenter", inside...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = errors.New(string(exit.Stderr))
	}
	return out, err
}

// batch submits a job of a user's.
func (c *court) batch(words ...string) (string, error) {
	argv := append([]string{"setpriv", "--reuid", "alice", "--regid", "alice", "--init-groups", "sbatch", "-D", "/tmp"}, words...)
	out, err := c.run(c.Context(), append(argv, "--wrap", "sleep 600")...)
	return string(out), err
}

// observe is what the head sees. Its programs have few seconds each, and this host may be busy.
func (c *court) observe() (view scheduler.View) {
	err := errors.New("not asked")
	for end := time.Now().Add(2 * time.Minute); err != nil; {
		if view, err = c.driver.Observe(c.Context()); err != nil && time.Now().After(end) {
			c.Fatal(err)
		}
	}
	return view
}

// waits submits a job to a queue without nodes, and returns how the head tells of it.
func (c *court) waits(queue string, words []string) (protocol.WaitingJob, error) {
	out, err := c.batch(append([]string{"-p", queue, "--parsable"}, words...)...)
	if err != nil {
		return protocol.WaitingJob{}, err
	}
	id := strings.TrimSpace(out)
	defer func() {
		if _, err := c.run(c.Context(), "scancel", id); err != nil {
			c.Error(err)
		}
	}()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		view := c.observe()
		i := slices.IndexFunc(view.Waiting.Jobs, func(j protocol.WaitingJob) bool { return strconv.Itoa(j.ID) == id })
		if i >= 0 {
			if reason := view.Waiting.Jobs[i].Reason; reason != "None" && reason != "JobHeldUser" {
				return view.Waiting.Jobs[i], nil
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.Fatalf("job %s is not told of", id)
	return protocol.WaitingJob{}, nil
}

// runs says whether Slurm would start the job at once in a queue.
func (c *court) runs(queue string, words []string) bool {
	_, err := c.batch(append([]string{"-p", queue, "--test-only"}, words...)...)
	return err == nil
}

// options are what people ask for, some with something else; each of them changes what a job needs.
func options(r *rand.Rand, s shape) (words []string) {
	maybe := func(of int, format string, args ...any) {
		if r.IntN(of) == 0 {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	ranks := 1
	if r.IntN(2) == 0 {
		ranks = 2 + r.IntN(8)
		words = append(words, fmt.Sprintf("--ntasks=%d", ranks))
	}
	maybe(3, "--cpus-per-task=%d", s.cpus[r.IntN(len(s.cpus))])
	if least := 1 + r.IntN(4); r.IntN(2) == 0 {
		maybe(2, "--nodes=%d", least)
	} else {
		maybe(2, "--nodes=%d-%d", least, least+r.IntN(3))
	}
	maybe(4, "--ntasks-per-node=%d", 1+r.IntN(min(ranks, 3)))
	switch r.IntN(4) {
	case 0:
		words = append(words, fmt.Sprintf("--mem-per-cpu=%dM", 500*(1+r.IntN(10))))
	case 1:
		words = append(words, fmt.Sprintf("--mem=%dM", 500*r.IntN(20)))
	}
	maybe(6, "--tmp=%d", 500*(1+r.IntN(4)))
	maybe(6, "--mincpus=%d", s.cpus[r.IntN(len(s.cpus))])
	maybe(6, "--exclusive")
	if strings.Contains(s.conf, "gpu") {
		switch r.IntN(4) {
		case 0:
			words = append(words, fmt.Sprintf("--gpus=%d", 1+r.IntN(8)))
			if ranks == 1 {
				maybe(3, "--cpus-per-gpu=%d", 1+r.IntN(3))
			}
		case 1:
			words = append(words, fmt.Sprintf("--gpus-per-node=%d", 1+r.IntN(3)))
		case 2:
			words = append(words, fmt.Sprintf("--gpus-per-task=%d", 1+r.IntN(3)), fmt.Sprintf("--ntasks=%d", ranks))
		}
	}
	return words
}

// TestSlurmSaysTheSame: of random jobs, Muster counts as many nodes as Slurm needs to start them, or none where Slurm starts them
// on no number that the queue may have.
func TestSlurmSaysTheSame(t *testing.T) {
	c := sit(t)
	view := c.observe()
	seed := uint64(5) // the same jobs each time; MUSTER_SEED has others
	if text := os.Getenv("MUSTER_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(seed, 0))
	asked, run := 0, 0
	jobs := 150
	if testing.Short() {
		jobs = 60
	}
	for range jobs {
		s := shapes[r.IntN(len(shapes))]
		words := options(r, s)
		job, err := c.waits(s.name+"0", words)
		if err != nil {
			continue // words that do not go together
		}
		asked++
		i := slices.IndexFunc(view.Nodes, func(n protocol.NodeState) bool { return n.Name == s.name+"-1" })
		if i < 0 {
			t.Fatalf("no node of %s in %+v", s.name, view.Nodes)
		}
		q := elastic.Queue{Name: s.name + "0", Scheduler: "Slurm", Max: s.most, Size: view.Nodes[i].Size}
		needs, why := elastic.Needs(q, job.Request)
		if why == "" {
			why = elastic.Why(q, job)
		}
		if why != "" {
			if c.runs(s.name+strconv.Itoa(s.most), words) {
				t.Errorf("%s %v: Muster says %s, and Slurm starts it\n%+v", s.name, words, why, job)
			}
			continue
		}
		run++
		if !c.runs(s.name+strconv.Itoa(needs), words) {
			t.Errorf("%s %v: Muster counts %d nodes, and Slurm does not start it there\n%+v", s.name, words, needs, job)
		} else if needs > 1 && c.runs(s.name+strconv.Itoa(needs-1), words) {
			t.Errorf("%s %v: Muster counts %d nodes, and Slurm starts it on fewer\n%+v", s.name, words, needs, job)
		}
	}
	t.Logf("%d jobs of which %d run", asked, run)
	if asked < jobs*2/3 || run < jobs/4 || run > jobs*3/4 {
		t.Error("that says little: see options")
	}
}
