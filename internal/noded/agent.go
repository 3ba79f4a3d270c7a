// Package noded is the first process of a node: it joins the cluster, makes the node what its configuration says, keeps
// its daemons running, and reports what is true.
//
// What enters: the boot file, once; the controller's Config, again and again. What leaves: Reports, lines on the
// console, and on the head the changes of the scheduler's nodes that follow from the configuration. The node has no other master.
//
//	boot file → join → configuration → files, neighbours, accounts → sshd, the scheduler's daemons → reports
//	                        ↑__________________________________________________________________________|
//
// On a machine of the node's own it is that machine's init before all this, and switches the machine off at its end. A
// machine that has booted to be inspected or enrolled is given to package inspection instead, one that has booted to hold
// guests to package hostd, in a process of its own.
package noded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/inspection"
	"muster/internal/kit/clock"
	"muster/internal/kit/longpoll"
	"muster/internal/noded/jail"
	"muster/internal/protocol"
)

// Options of Run. The zero value is right in a node, but for Console.
type Options struct {
	Schedulers scheduler.Registry
	BootFile   string    // protocol.BootFilePath
	Console    io.Writer // where the node's lines go
}

// StatusRefused is the exit status that says: the controller has refused this boot, which therefore ends for good.
const StatusRefused = 3

// ExitStatus is the process's exit status for what Run returned.
func ExitStatus(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrRefused):
		return StatusRefused
	default:
		return 1
	}
}

// Run is the life of a node, from its boot file until ctx ends or the controller refuses it. As the process with
// number 1 it then ends every other process of the node, and, on a machine of the node's own, the machine. It is called
// once a process and owns all its children.
func Run(ctx context.Context, o Options) error {
	if o.BootFile == "" {
		o.BootFile = protocol.BootFilePath
	}
	jail.DropPrivileges()
	if os.Getpid() == 1 {
		if err := raiseFiles(); err != nil {
			return fmt.Errorf("the limit of open files: %w", err)
		}
	}
	reaper := NewReaper()
	collecting, stop := context.WithCancel(context.WithoutCancel(ctx)) // children end after ctx has
	var collector sync.WaitGroup
	collector.Go(func() { reaper.Collect(collecting) })
	defer collector.Wait()
	defer stop()

	return run(ctx, o, deps{
		processes:   reaper,
		jails:       newJails(reaper),
		machine:     kernelMachine{reaper},
		openConsole: openConsole,
		neighbours:  kernelNeighbours{},
		disk:        disk{root: "/", chown: os.Chown},
		home:        homeCheck,
		served:      served,
		dial:        dial,
		banner:      banner,
		listening:   listening,
		dialer:      func(e []string, i *identity, authority string) (controller, error) { return dialer(e, i, authority) },
		respond:     true,
		program:     protocol.AgentPath,
		end:         end,
		cut:         func() { _ = cutPower() },
		lean:        lean,
		beside:      beside,
	})
}

// lean has this process cost little while its node starts, as many may start on the same CPUs: it works on one CPU, and the few
// megabytes that a start takes are not collected. After that they are.
func lean() {
	const start, relaxed, usual = time.Minute, 400, 100 // percent, as in GOGC
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(relaxed)
	time.AfterFunc(start, func() { debug.SetGCPercent(usual) })
}

// beside is from when a node could measure itself to when it does where others run on its CPUs.
const beside = 10 * time.Second

// end ends the other processes of the node, and its machine. That it could not is all it returns.
func end(machine bool) error {
	if os.Getpid() != 1 {
		return nil
	}
	endAll()
	if machine {
		return powerOff()
	}
	return nil
}

func dialer(endpoints []string, i *identity, authority string) (controller, error) {
	config, err := i.client(authority)
	if err != nil {
		return nil, err
	}
	return newClient(endpoints, config), nil
}

// controller is the other side of the protocol: client, which says what each call is for, or a fake. Join comes first, and again
// before its certificate ends. The others need it; each may be repeated, and is after an answer that was lost.
type controller interface {
	Join(context.Context, protocol.JoinRequest) (protocol.JoinReply, error)
	Config(ctx context.Context, after int64) (*protocol.Config, error)
	Report(context.Context, protocol.Report) (protocol.ReportReply, error)
	// Output, Jobs and Mail are a head's.
	Output(context.Context, protocol.TaskOutput) (protocol.TaskKept, error)
	Jobs(context.Context, protocol.JobsTold) (protocol.JobsKept, error)
	Mail(context.Context, protocol.Letters) (protocol.Posted, error)
	Close() // ends calls that wait
	inspection.Controller
}

// deps is all that the agent touches outside of itself.
type deps struct {
	processes   processes
	jails       jailer // of the head's NFS server
	machine     ownMachine
	openConsole func() (io.Writer, error) // of a machine
	neighbours  interface {
		set(own string, neighbours []protocol.Neighbour) error
	}
	disk      disk
	home      func(write bool) error
	served    func(ctx context.Context, address string) error // /home, by NFS
	dial      func(ctx context.Context, network, address string) error
	banner    func(ctx context.Context, address string) error
	listening func(port int) bool
	dialer    func(endpoints []string, i *identity, authority string) (controller, error)
	respond   bool   // to peers that measure the network
	program   string // this one, as the machine starts it
	end       func(machine bool) error
	cut       func() // takes a machine's power at once, whatever hangs; nil: there is none
	lean      func() // nil: this process is not the agent alone
	beside    time.Duration
}

// endLimit is how long a machine may take to end in order. Its substrate may have no other way to switch it off.
const endLimit = 20 * time.Second

// node is one boot.
type node struct {
	deps       deps
	console    *console
	system     system
	schedulers scheduler.Registry
	boot       protocol.BootFile
	identity   *identity
	hostKey    string // public
	controller controller
	supervisor *supervisor

	// Set when the first configuration has told the role.
	scheduler scheduler.Factory // of the cluster
	driver    scheduler.Driver
	reporter  *reporter
	sites     *siteChecks
	tester    *tester
	head      *headDuty // nil unless this is a head, and its scheduler tells of jobs
	duty      *taskDuty // nil unless this is a head
	jobs      *jobsDuty // nil unless this is a head, and its scheduler tells people of jobs

	homes      *homeKeeper // nil unless this is a head
	leavers    *leavers
	served     bool // the daemons have been started
	pausing    pausing
	homeServer *homeServer
	exports    bool          // /home is served by NFS
	driven     chan struct{} // closed when the machine's drivers are loaded
	homeThere  chan struct{} // closed when /home is mounted

	mu     sync.Mutex
	checks []check

	refuse context.CancelCauseFunc // ends the node
	// holds one token when this node has slept, or the site has changed its keys: certificates are to be renewed
	slept chan struct{}
	lives atomic.Pointer[life] // set by the join
	// what the configuration says that the last join should have been answered with; nil: nothing yet
	stamp atomic.Pointer[string]

	poll  longpoll.Poll
	tasks sync.WaitGroup
}

func run(ctx context.Context, o Options, w deps) error {
	n := &node{deps: w, console: &console{out: o.Console}, system: system{disk: w.disk}, schedulers: o.Schedulers,
		driven: make(chan struct{}), slept: make(chan struct{}, 1), homeThere: make(chan struct{}),
		homeServer: &homeServer{jailer: w.jails}}
	n.leavers = newLeavers(n.console)
	n.supervisor = &supervisor{processes: w.processes, console: n.console, changed: n.due}
	err := n.live(ctx, o.BootFile)
	defer func() {
		if err := w.end(n.boot.OwnKernel()); err != nil {
			n.console.printf("%v", err)
		}
	}()
	switch {
	case ctx.Err() != nil:
		n.console.printf("node ends")
		return nil
	case errors.Is(err, ErrRefused):
		n.console.printf("%v; this node ends", err)
	case err != nil:
		n.console.printf("%v; this node can't start", err)
	}
	return err
}

// life is what the node lives by: from its boot file, and then from the last answer to a join.
type life struct{ token, authority, stamp string }

// live returns when the node is to end, with all its services stopped.
func (n *node) live(ctx context.Context, bootFile string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer n.tasks.Wait()
	defer cancel(nil)
	n.refuse = cancel
	// Services end one after the other, not all at once by a common context.
	defer n.supervisor.stop()

	var err error
	if n.boot, err = takeBoot(bootFile); err != nil {
		return err
	}
	n.lives.Store(&life{token: n.boot.Token, authority: n.boot.Authority})
	if n.boot.OwnKernel() && n.deps.cut != nil {
		limit := sync.OnceFunc(func() { time.AfterFunc(endLimit, n.deps.cut) })
		context.AfterFunc(ctx, limit)
		defer limit() // before the services are stopped, which may hang
	}
	if err := n.wake(ctx); err != nil {
		return err
	}
	if n.boot.Duty == protocol.Enrol {
		return n.enrol(ctx)
	}
	if err := n.prepare(n.boot); err != nil {
		return err
	}
	defer n.controller.Close()
	n.console.printf("%s, boot %d of node %s", n.boot.Name, n.boot.Boot, n.boot.Node)
	renewAt, err := n.join(ctx)
	if err != nil {
		return err
	}
	n.console.printf("joined")
	n.tasks.Go(func() { n.renew(ctx, renewAt, cancel) })
	n.tasks.Go(func() { n.leavers.follow(ctx) })
	if n.boot.InGuest() {
		n.tasks.Go(func() { n.keepTime(ctx) })
	}
	if n.boot.Duty == protocol.Inspect {
		return n.inspect(ctx)
	}
	select { // what the scheduler finds, and guests can have, must be all that there is
	case <-n.driven:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if n.boot.Duty == protocol.Host {
		return n.holdGuests(ctx)
	}
	return n.follow(ctx)
}

func (n *node) prepare(boot protocol.BootFile) error {
	var err error
	if n.identity, err = newIdentity(); err != nil {
		return err
	}
	if n.hostKey, err = n.system.hostKey("root@" + boot.Name); err != nil {
		return fmt.Errorf("SSH host key: %w", err)
	}
	n.controller, err = n.deps.dialer(boot.Endpoints, n.identity, boot.Authority)
	return err
}

// start does what waits for the first configuration only: the role is known and won't change.
func (n *node) start(ctx context.Context, config *protocol.Config) error {
	var found bool
	if n.scheduler, found = n.schedulers.Find(config.Scheduler); !found {
		return fmt.Errorf("this agent knows no scheduler %q", config.Scheduler)
	}
	n.driver, n.system.hostFile = n.scheduler.Open(n.lend()), n.scheduler.HostFile
	n.leavers.jobsBelow(n.scheduler.Caps.JobRoot)
	if err := errors.Join(n.system.daemons(config.Self.Role), n.driver.Prepare(ctx, config)); err != nil {
		return err
	}
	checks := names(n.probes(config))
	n.reporter = newReporter(n.boot.Boot, checks)
	n.reporter.late = n.scheduler.Caps.Late
	n.sites = &siteChecks{disk: n.deps.disk, role: config.Self.Role, reporter: n.reporter,
		run: n.deps.processes.Run, start: func(ctx context.Context, c check) {
			n.tasks.Go(func() { c.run(ctx, n.reporter) })
		}}
	n.sites.taken = append(checks, gpusCheck, partitionsCheck, nfsCheck, string(protocol.PauseHalt), string(protocol.PauseSleep))
	n.sites.read(true)
	n.reporter.setFacts(n.accelerators(facts(), config.Self))
	n.tester = newTester(n.deps.beside, n.reporter, n.console)
	if config.Self.Role == protocol.Head {
		n.duty = n.newTaskDuty(config.Self.Name)
		n.homes = newHomeKeeper(n.system, func(undone []protocol.Undone) {
			for _, u := range undone {
				n.console.printf("for %s not done, and tried again: %s", u.User, u.Text)
			}
			n.reporter.setUndone("homes", undone)
		})
		n.tasks.Go(func() { n.homes.follow(ctx) })
	}
	if control, ok := n.driver.(scheduler.Control); ok && config.Self.Role == protocol.Head {
		n.head = newHeadDuty(control, n.scheduler.Caps.Controller, n.reporter, n.console, n.newestPeers)
		if s, ok := control.(scheduler.Teller); ok {
			n.jobs = newJobsDuty(s, n.controller.Jobs, n.console)
		}
		n.console.listen(func(who string) {
			if who != n.scheduler.Caps.Controller {
				return
			}
			n.head.look() // it logs what happens to its nodes and jobs
			n.duty.look()
			if n.jobs != nil {
				n.jobs.look()
			}
		})
	}
	n.tasks.Go(func() {
		if err := n.reporter.run(ctx, n.controller, n.console, n.poll.Newest); err != nil {
			n.refuse(err)
		}
	})
	return nil
}

// newestPeers asks the controller for the configuration as it is now.
func (n *node) newestPeers(ctx context.Context) ([]protocol.Peer, error) {
	config, err := n.controller.Config(ctx, 0)
	switch {
	case err != nil:
		return nil, err
	case config == nil:
		return nil, errors.New("the controller has no configuration")
	}
	return config.Peers, validate(config)
}

// serve starts the daemons and whatever watches them.
func (n *node) serve(ctx context.Context, config *protocol.Config) error {
	services, err := n.services(config)
	if err != nil {
		return err
	}
	n.tasks.Go(func() { n.provideHome(ctx) })
	n.tasks.Go(func() { n.measure(ctx) })
	if n.deps.respond {
		n.tasks.Go(func() { n.respond(ctx, config.Self.Address) })
	}
	for _, s := range services {
		// Not ctx: stop ends them in order.
		n.supervisor.start(context.WithoutCancel(ctx), s)
	}
	for _, c := range n.probes(config) {
		if c.probe != nil {
			n.watch(ctx, c)
		}
	}
	n.tasks.Go(func() { n.sites.follow(ctx) })
	if n.head != nil {
		n.tasks.Go(func() { n.head.run(ctx) })
	}
	if n.jobs != nil {
		n.tasks.Go(func() { n.jobs.run(ctx) })
	}
	if config.Self.Role == protocol.Head {
		mails := mailDuty{dir: n.deps.disk.path(protocol.MailDir), post: n.controller.Mail, console: n.console}
		n.tasks.Go(func() { mails.run(ctx) })
	}
	return nil
}

// watch runs a check until ctx ends.
func (n *node) watch(ctx context.Context, c check) {
	c.due = make(chan struct{}, 1)
	n.mu.Lock()
	n.checks = append(n.checks, c)
	n.mu.Unlock()
	n.tasks.Go(func() { c.run(ctx, n.reporter) })
}

// due makes the checks of a service run at once.
func (n *node) due(service string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.checks {
		if c.service == service {
			clock.Wake(c.due)
		}
	}
}

// endAll ends every process but this one, the first of a node: politely, then surely.
func endAll() {
	_ = syscall.Kill(-1, syscall.SIGTERM) // fails when no other process is left
	for end := time.Now().Add(stopGrace); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if syscall.Kill(-1, 0) != nil {
			return
		}
	}
	_ = syscall.Kill(-1, syscall.SIGKILL)
}
