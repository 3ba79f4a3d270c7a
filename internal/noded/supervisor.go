package noded

import (
	"context"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"muster/internal/kit/clock"
	"muster/internal/kit/lists"
)

const (
	restartFirst = 100 * time.Millisecond // pause before the first restart; doubles
	restartMost  = 5 * time.Second
	steady       = 10 * time.Second // who ran this long starts again with the first pause
	stopGrace    = time.Second      // from SIGTERM to SIGKILL
)

// service is a daemon that is to run as long as the node does.
type service struct {
	name    string
	command Command
	// start starts it where that takes more than the command; nil: it does not.
	start func(Command) (Process, error)
	// wait blocks until the service may be started; nil: at once. An error means that ctx has ended.
	wait func(context.Context) error
	// grace is how long it may take to end, if that is more than stopGrace.
	grace time.Duration
	// noise are parts of lines that say nothing and come often.
	noise []string
	// ended hears how it ended, each time that it is to be started again; nil: nothing needs to know.
	ended func(error)
}

// tidy takes a daemon's own name off its line, and says whether the line is worth the console.
func (s service) tidy(line string) (string, bool) {
	if slices.ContainsFunc(s.noise, func(part string) bool { return strings.Contains(line, part) }) {
		return "", false
	}
	who, text, found := strings.Cut(line, ": ")
	if found && strings.HasPrefix(who, s.name) {
		return text, true
	}
	return line, true
}

// supervisor keeps services running: each in its own goroutine, so that only those wait that have to.
type supervisor struct {
	processes processes
	console   *console
	changed   func(name string) // a service has started or ended; called from any goroutine

	mu       sync.Mutex
	services []*supervised // in order of start
}

type supervised struct {
	service
	cancel  context.CancelFunc
	stopped chan struct{}

	mu      sync.Mutex
	process Process // nil while it does not run
	asked   bool    // to end and start again, without a pause
}

// start supervises a service until stop, or at latest until ctx ends.
func (s *supervisor) start(ctx context.Context, svc service) {
	ctx, cancel := context.WithCancel(ctx)
	one := &supervised{service: svc, cancel: cancel, stopped: make(chan struct{})}
	s.mu.Lock()
	s.services = append(s.services, one)
	s.mu.Unlock()
	go func() {
		defer close(one.stopped)
		s.keep(ctx, one)
	}()
}

func (s *supervisor) keep(ctx context.Context, one *supervised) {
	pause := restartFirst
	for {
		if one.wait != nil && one.wait(ctx) != nil {
			return
		}
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		s.once(ctx, one)
		if time.Since(began) >= steady {
			pause = restartFirst
		}
		if one.takeAsked() {
			continue
		}
		if clock.Sleep(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, restartMost)
	}
}

// once runs the service until it ends by itself or is stopped.
func (s *supervisor) once(ctx context.Context, one *supervised) {
	command := one.command
	command.Output = func(line string) {
		if line, worth := one.tidy(line); worth {
			s.console.from(one.name, line)
		}
	}
	start := s.processes.Start
	if one.start != nil {
		start = one.start
	}
	p, err := start(command)
	if err != nil {
		s.console.printf("%s did not start: %v", one.name, err)
		return
	}
	one.set(p)
	s.changed(one.name)
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(max(one.grace, stopGrace), func() { p.Signal(syscall.SIGKILL) })
		<-p.Done()
		kill.Stop()
	}
	one.set(nil)
	s.changed(one.name)
	if ctx.Err() == nil {
		s.console.printf("%s ended (%s); it will be started again", one.name, ending(p))
		if one.ended != nil {
			one.ended(p.Err())
		}
	}
}

// stop ends all services, the last started first: who needs another ends before it.
func (s *supervisor) stop() {
	s.mu.Lock()
	services := s.services
	s.mu.Unlock()
	for i := len(services) - 1; i >= 0; i-- {
		services[i].cancel()
		<-services[i].stopped
	}
}

// end stops one service for good.
func (s *supervisor) end(name string) {
	if one := s.named(name); one != nil {
		one.cancel()
		<-one.stopped
	}
}

// signal reaches the service if it runs. A service that is being started reads its files anyway.
func (s *supervisor) signal(name string, sig syscall.Signal) {
	if p := s.find(name); p != nil {
		p.Signal(sig)
	}
}

// restart ends the service, if it runs, and starts it again at once.
func (s *supervisor) restart(name string) {
	if one := s.named(name); one != nil {
		one.mu.Lock()
		p := one.process
		one.asked = p != nil
		one.mu.Unlock()
		if p != nil {
			p.Signal(syscall.SIGTERM)
		}
	}
}

// running says whether the service's process is there.
func (s *supervisor) running(name string) bool { return s.find(name) != nil }

func (s *supervisor) find(name string) Process {
	one := s.named(name)
	if one == nil {
		return nil
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.process
}

func (s *supervisor) named(name string) *supervised {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, _ := lists.Find(s.services, func(one *supervised) bool { return one.name == name })
	return one
}

func (o *supervised) set(p Process) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.process = p
}

func (o *supervised) takeAsked() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	asked := o.asked
	o.asked = false
	return asked
}

func ending(p Process) string {
	if err := p.Err(); err != nil {
		return err.Error()
	}
	return "exit status 0"
}
