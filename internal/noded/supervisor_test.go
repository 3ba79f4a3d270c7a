package noded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"muster/internal/kit/clock"
)

// fakeProcesses records what is started and stopped, and when.
type fakeProcesses struct {
	mu      sync.Mutex
	log     []string
	ran     []string // programs that ended at once
	starts  []time.Time
	running map[string]*fakeProcess
	deaf    bool // processes ignore SIGTERM
}

type fakeProcess struct {
	name string
	all  *fakeProcesses
	done chan struct{}
	once sync.Once
	err  error
}

func (f *fakeProcesses) Start(c Command) (Process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := filepath.Base(c.Argv[0])
	p := &fakeProcess{name: name, all: f, done: make(chan struct{})}
	if f.running == nil {
		f.running = map[string]*fakeProcess{}
	}
	f.running[name] = p
	f.log = append(f.log, "start "+name)
	f.starts = append(f.starts, time.Now())
	return p, nil
}

func (f *fakeProcesses) Run(_ context.Context, argv ...string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	line := strings.Join(argv, " ")
	f.ran = append(f.ran, line)
	if line == asksVersion {
		return []byte("slurm-wlm 24.11.5\n"), nil
	}
	return nil, nil
}

func (f *fakeProcesses) RunAs(ctx context.Context, _ Account, argv ...string) ([]byte, error) {
	return f.Run(ctx, argv...)
}

func (f *fakeProcesses) has(line string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.log, line)
}

func (p *fakeProcess) Done() <-chan struct{} { return p.done }
func (p *fakeProcess) Err() error            { return p.err }
func (p *fakeProcess) Kill()                 { p.Signal(syscall.SIGKILL) }
func (p *fakeProcess) Signal(s syscall.Signal) {
	p.all.mu.Lock()
	p.all.log = append(p.all.log, fmt.Sprintf("%v %s", s, p.name))
	deaf := p.all.deaf && s != syscall.SIGKILL
	p.all.mu.Unlock()
	if s != syscall.SIGHUP && !deaf {
		p.end(fmt.Errorf("killed by %v", s))
	}
}

func (p *fakeProcess) end(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.done)
	})
}

func newTestSupervisor(f *fakeProcesses) *supervisor {
	return &supervisor{processes: f, console: &console{out: io.Discard}, changed: func(string) {}}
}

func TestServicesStartInOrderOfNeedAndStopInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeProcesses{}
		s := newTestSupervisor(f)
		after := func(line string) func(context.Context) error {
			return func(ctx context.Context) error {
				for !f.has(line) {
					if err := clock.Sleep(ctx, 20*time.Millisecond); err != nil {
						return err
					}
				}
				return nil
			}
		}
		s.start(t.Context(), service{name: "munged", command: Command{Argv: []string{"munged"}}, wait: after("start sshd")})
		s.start(t.Context(), service{name: "sshd", command: Command{Argv: []string{"sshd"}}})
		s.start(t.Context(), service{name: "slurmd", command: Command{Argv: []string{"slurmd"}}, wait: after("start munged")})
		time.Sleep(time.Second)
		s.stop()
		want := []string{"start sshd", "start munged", "start slurmd", "terminated slurmd", "terminated sshd",
			"terminated munged"}
		if !slices.Equal(f.log, want) {
			t.Errorf("%q, want %q", f.log, want)
		}
	})
}

func TestAServiceThatEndsIsStartedAgainWithGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeProcesses{}
		s := newTestSupervisor(f)
		s.start(t.Context(), service{name: "slurmd", command: Command{Argv: []string{"slurmd"}}})
		for range 9 {
			synctest.Wait()
			f.running["slurmd"].end(errors.New("exit status 1"))
			time.Sleep(restartMost)
		}
		synctest.Wait()
		time.Sleep(steady)
		f.running["slurmd"].end(errors.New("exit status 1"))
		time.Sleep(restartFirst)
		synctest.Wait()
		s.stop()
		if len(f.starts) != 11 {
			t.Errorf("%d starts, want 11", len(f.starts))
		}
	})
}

func TestARestartThatWasAskedForHasNoPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeProcesses{}
		s := newTestSupervisor(f)
		s.restart("slurmctld") // not there yet: it reads its files when it starts
		s.start(t.Context(), service{name: "slurmctld", command: Command{Argv: []string{"slurmctld"}}})
		synctest.Wait()
		s.restart("slurmctld")
		synctest.Wait()
		if len(f.starts) != 2 || !f.starts[0].Equal(f.starts[1]) {
			t.Errorf("starts at %v", f.starts)
		}
		s.stop()
	})
}

func TestAServiceDeafToSIGTERMIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeProcesses{deaf: true}
		s := newTestSupervisor(f)
		s.start(t.Context(), service{name: "slurmd", command: Command{Argv: []string{"slurmd"}}})
		synctest.Wait()
		began := time.Now()
		s.stop()
		if took := time.Since(began); took != stopGrace {
			t.Errorf("took %v", took)
		}
	})
}
