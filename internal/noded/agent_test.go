package noded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"

	"muster/internal/drivers"
	"muster/internal/inspection"
	"muster/internal/protocol"
)

// lab is one agent in a fake world with a real client, and the controller that it speaks to.
type lab struct {
	controller *fakeController
	processes  *fakeProcesses
	sockets    string
	bootFile   string
	disk       disk
	console    safeBuffer
	neighbours [][]protocol.Neighbour // that were set
	machine    *fakeMachine
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (l *lab) set(_ string, neighbours []protocol.Neighbour) error {
	l.neighbours = append(l.neighbours, neighbours)
	return nil
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{controller: newFakeController(t), processes: &fakeProcesses{}, sockets: t.TempDir(), disk: testDisk(t),
		machine: &fakeMachine{}}
	l.bootFile = filepath.Join(t.TempDir(), "boot.json")
	l.controller.tokens["n1"] = "secret"
	boot, err := json.Marshal(protocol.BootFile{Node: "n1", Name: "n1", Boot: 7, Token: "secret",
		Authority: l.controller.authority,
		Endpoints: []string{"unix://" + l.sockets}})
	must(t, err)
	must(t, os.WriteFile(l.bootFile, boot, 0o600))
	l.configure(1)
	return l
}

func (l *lab) configure(revision int64, change ...func(*protocol.Config)) {
	self := testPeer("n1", 1, protocol.Compute)
	ca := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(l.controller.hostCA.PublicKey())))
	config := protocol.Config{Revision: revision, Cluster: "test", Self: self,
		Peers: []protocol.Peer{testPeer("head", 0, protocol.Head), self}, Credential: []byte("munge secret"),
		SSH: protocol.SSH{UserCA: ca, HostCA: ca}}
	for _, f := range change {
		f(&config)
	}
	l.controller.set("n1", config)
}

func (l *lab) deps() deps {
	return deps{
		processes: l.processes, machine: l.machine, neighbours: l, disk: l.disk,
		dialer:      func(e []string, i *identity, a string) (controller, error) { return dialer(e, i, a) },
		openConsole: func() (io.Writer, error) { return &l.console, nil },
		home:        func(bool) error { return nil },
		served:      l.machine.served,
		dial:        func(context.Context, string, string) error { return nil },
		banner:      l.machine.banner,
		listening:   func(int) bool { return true },
		end:         l.machine.end,
	}
}

// run runs the agent until stop is called, or until it ends by itself; the result arrives then.
func (l *lab) run(t *testing.T) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, Options{Schedulers: drivers.Schedulers(), BootFile: l.bootFile, Console: &l.console}, l.deps())
	}()
	var once sync.Once
	var result error
	stop = func() error {
		once.Do(func() {
			cancel()
			select {
			case result = <-done:
			case <-time.After(2 * time.Minute):
				result = errors.New("the agent does not end")
			}
		})
		return result
	}
	t.Cleanup(func() { _ = stop() })
	t.Cleanup(func() { // runs first
		if t.Failed() {
			t.Logf("console:\n%s", l.console.String())
		}
	})
	return stop
}

func (l *lab) untilReady(t *testing.T) {
	t.Helper()
	l.controller.until(t, "n1 is ready", func() bool {
		return l.controller.healthy("n1") && l.controller.reports["n1"].Revision == l.controller.configs["n1"].Revision
	})
}

func TestANodeJoinsAppliesAndReports(t *testing.T) {
	others := []goleak.Option{goleak.IgnoreCurrent(), goleak.IgnoreAnyFunction("net/http.(*conn).serve"),
		goleak.IgnoreAnyFunction("net/http.(*Server).Serve")}
	defer func() {
		err := goleak.Find(others...)
		for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); {
			err = goleak.Find(others...)
		}
		if err != nil {
			t.Error(err)
		}
	}()
	l := newLab(t)
	l.controller.listen(t, filepath.Join(l.sockets, "one.sock"))
	stop := l.run(t)
	l.untilReady(t)
	if got := l.controller.last("n1").Boot; got != 7 {
		t.Errorf("boot %d", got)
	}
	if _, err := os.Stat(l.bootFile); !os.IsNotExist(err) {
		t.Errorf("the boot file is still there: %v", err)
	}
	for name, part := range map[string]string{"/etc/hosts": "10.99.0.2 n1\n", "/etc/munge/munge.key": "munge secret",
		knownFile: "@cert-authority * ssh-ed25519 ", hostCertFile: "ssh-ed25519-cert-v01@openssh.com "} {
		if text, err := l.disk.read(name); err != nil || !strings.Contains(text, part) {
			t.Errorf("%s: %q %v", name, text, err)
		}
	}
	if text, _ := l.disk.read("/etc/slurm/slurm.conf"); text != "" {
		t.Error("a compute node has a slurm.conf")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if text := l.console.String(); strings.Contains(text, "secret") {
		t.Errorf("a secret is on the console: %s", text)
	}
	log := l.processes.log
	if got := strings.Join(log[len(log)-3:], ", "); got != "terminated slurmd, terminated munged, terminated sshd" {
		t.Error(got)
	}
}

func TestARefusedJoinEndsTheAgent(t *testing.T) {
	l := newLab(t)
	l.controller.stale["n1"] = true
	l.controller.listen(t, filepath.Join(l.sockets, "one.sock"))
	done := make(chan error, 1)
	go func() {
		done <- run(t.Context(), Options{Schedulers: drivers.Schedulers(), BootFile: l.bootFile, Console: &l.console}, l.deps())
	}()
	select {
	case err := <-done:
		if ExitStatus(err) != StatusRefused {
			t.Errorf("status %d: %v", ExitStatus(err), err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it goes on")
	}
	if len(l.processes.log) != 0 || !strings.Contains(l.console.String(), "superseded") {
		t.Errorf("%v, %s", l.processes.log, l.console.String())
	}
}

func TestANodeGoesOnToTheReplicaThatAnswers(t *testing.T) {
	l := newLab(t)
	hung, err := net.Listen("unix", filepath.Join(l.sockets, "a.sock")) // accepts, as a stopped process does, and says nothing
	must(t, err)
	defer hung.Close()
	var calls atomic.Int32
	go func() {
		for {
			conn, err := hung.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			calls.Add(1)
		}
	}()
	l.controller.listen(t, filepath.Join(l.sockets, "b.sock"))
	began := time.Now()
	l.run(t)
	l.untilReady(t)
	// An answer that comes too late, on a busy host, has the agent go round once more.
	if took, n := time.Since(began), calls.Load(); took < dialTimeout || n < 1 || n > 1 && took < 2*dialTimeout {
		t.Errorf("ready after %v and %d calls: the hung socket is to cost its time-out once", took, n)
	}
}

func TestAControllerOfAnotherAuthorityIsNotTrusted(t *testing.T) {
	l := newLab(t)
	other := newFakeController(t)
	other.tokens["n1"] = "secret"
	other.listen(t, filepath.Join(l.sockets, "one.sock"))
	stop := l.run(t)
	untilSo(t, "it says why", func() bool { return strings.Contains(l.console.String(), "unknown authority") })
	if err := stop(); err != nil {
		t.Error(err)
	}
	if other.joins["n1"] != 0 {
		t.Errorf("%d joins; %s", other.joins["n1"], l.console.String())
	}
}

func TestOnlyNewerConfigurationsAreApplied(t *testing.T) {
	l := newLab(t)
	l.configure(5)
	l.controller.listen(t, filepath.Join(l.sockets, "one.sock"))
	stop := l.run(t)
	l.untilReady(t)
	l.configure(4)
	time.Sleep(200 * time.Millisecond)
	if got := l.controller.last("n1").Revision; got != 5 {
		t.Errorf("revision %d", got)
	}
	l.configure(6)
	l.untilReady(t)
	must(t, stop())
	if len(l.neighbours) != 2 {
		t.Errorf("applied %d times, want 2", len(l.neighbours))
	}
}

func TestACertificateIsRenewedOverTheOldOne(t *testing.T) {
	l := newLab(t)
	l.controller.life = 4 * time.Second // whole seconds count in a certificate
	l.controller.listen(t, filepath.Join(l.sockets, "one.sock"))
	l.run(t)
	l.controller.until(t, "a second certificate", func() bool { return l.controller.joins["n1"] >= 2 })
	l.controller.mu.Lock()
	l.controller.count["n1"] = 0
	l.controller.mu.Unlock()
	l.configure(2)
	l.untilReady(t)
}

// deafController counts reports; configurations never come.
type deafController struct {
	inspection.Controller
	mu      sync.Mutex
	reports []protocol.Report
	times   []time.Time
	fail    bool
}

func (d *deafController) Join(context.Context, protocol.JoinRequest) (protocol.JoinReply, error) {
	return protocol.JoinReply{}, errors.New("no")
}

func (d *deafController) Config(ctx context.Context, _ int64) (*protocol.Config, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func (d *deafController) Report(_ context.Context, r protocol.Report) (protocol.ReportReply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail {
		return protocol.ReportReply{}, errors.New("away")
	}
	d.reports, d.times = append(d.reports, r), append(d.times, time.Now())
	return protocol.ReportReply{Revision: 3, Every: time.Minute}, nil
}

func (d *deafController) Jobs(context.Context, protocol.JobsTold) (protocol.JobsKept, error) {
	return protocol.JobsKept{}, errors.New("no")
}

func (d *deafController) Output(context.Context, protocol.TaskOutput) (protocol.TaskKept, error) {
	return protocol.TaskKept{Bytes: protocol.NoTask}, nil
}

func (d *deafController) Mail(context.Context, protocol.Letters) (protocol.Posted, error) {
	return protocol.Posted{}, nil
}

func (d *deafController) Close() {}

func TestReportsGoOutWhenTheyMayChangeSomethingAndElseNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deafController{}
		r := newReporter(1, []string{"munge", "sshd", "slurmd"})
		r.late = []string{"slurmd"}
		r.expectTest(1)
		ctx, cancel := context.WithCancel(t.Context())
		heard := int64(0)
		var task sync.WaitGroup
		task.Go(func() { r.run(ctx, d, &console{out: &safeBuffer{}}, func(n int64) { heard = n }) })
		began := time.Now()
		at := func(after time.Duration, do func()) {
			time.Sleep(after - time.Since(began))
			do()
		}
		at(10*time.Second, func() {
			r.setCheck("munge", nil)
			r.setCheck("munge", nil)
			r.setCheck("sshd", errors.New("still not")) // no flip: can wait
		})
		// one more of many: with the one before, or soon
		at(10*time.Second+10*time.Millisecond, func() { r.setCheck("sshd", nil) })
		at(20*time.Second, func() { r.setTest(&protocol.TestResult{Number: 1}) }) // the last but what is late
		at(20*time.Second+10*time.Millisecond, func() { r.setCheck("slurmd", nil) })
		at(30*time.Second, func() { r.setCheck("munge", errors.New("ended")) })
		at(100*time.Second, cancel)
		task.Wait()
		var times []string
		for _, when := range d.times {
			times = append(times, fmt.Sprint(when.Sub(began)))
		}
		if got := strings.Join(times, " "); got != "250ms 10s 10.25s 20s 20.01s 30s 1m30s" {
			t.Errorf("reports at %s", got)
		}
		if heard != 3 {
			t.Errorf("heard of revision %d", heard)
		}
		if c := d.reports[1].Checks; !c[0].OK || c[0].Name != "munge" || c[1].OK {
			t.Errorf("%+v", c)
		}
	})
}
