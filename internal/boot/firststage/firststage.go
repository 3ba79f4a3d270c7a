package firststage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/protocol"
)

// Run is the whole life of the first process until it becomes the agent. It does not return: what cannot go on says why,
// on the console and to the controller, and switches the machine off.
func Run() {
	b := &boot{console: console{os.Stdout}}
	err := b.guarded(context.Background())
	b.console.say("this boot cannot go on: %v", err)
	b.report(err)
	b.console.say("switching off in %s", offAfter)
	time.Sleep(offAfter)
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		b.console.say("switch off: %v", err)
	}
	select {} // a first process that ends is a kernel panic
}

// offAfter is how long a person has to read why.
const offAfter = 10 * time.Second

type boot struct {
	console console
	server  *server // nil until it is known, and of a guest
}

// guarded turns a panic into an error: nothing would start this process again.
func (b *boot) guarded(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the first stage has a bug: %v\n%s", p, debug.Stack())
		}
	}()
	return b.run(ctx)
}

// run returns why it could not become the agent.
func (b *boot) run(ctx context.Context) error {
	if err := kernelFilesystems(); err != nil {
		return err
	}
	restart, err := stopOnPanic()
	if err != nil {
		return err
	}
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	b.console.say("first stage after %.1f s", time.Since(kernelStart()).Seconds())
	hardware, err := openHardware("/", b.console)
	if err != nil {
		return err
	}
	plan, guest, err := guestPlan(protocol.GuestPlan)
	if err != nil {
		return err
	}
	var network protocol.BootNetwork
	if guest {
		network, err = rootOfGuest(ctx, hardware, plan)
	} else {
		plan, network, err = b.rootByNetwork(ctx, hardware, string(line))
	}
	if err != nil {
		return err
	}
	if err := overlay(); err != nil {
		return err
	}
	if b.server != nil {
		b.server.progress(ctx, protocol.StepRoot, "")
	}
	if err := furnish(plan, network); err != nil {
		return err
	}
	if err := switchRoot(); err != nil {
		return err
	}
	b.otherDrivers()
	if err := os.WriteFile(panicFile, restart, 0o644); err != nil {
		return err
	}
	b.console.say("the agent takes over after %.1f s", time.Since(kernelStart()).Seconds())
	err = unix.Exec(protocol.AgentPath, []string{protocol.AgentPath, "agent"}, []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TERM=linux",
	})
	return fmt.Errorf("start %s: %w", protocol.AgentPath, err)
}

// rootByNetwork fetches what the kernel's command line leads to, and lays the root's layers. The plan it returns has the
// boot's token in it.
func (b *boot) rootByNetwork(ctx context.Context, h *hardware, line string) (plan protocol.Plan, network protocol.BootNetwork,
	err error) {
	args, err := parseArguments(line)
	if err != nil {
		return plan, network, err
	}
	if network, err = connect(ctx, h, args); err != nil {
		return plan, network, err
	}
	b.server = newServer(args, b.console)
	if plan, err = b.server.plan(ctx); err != nil {
		return plan, network, err
	}
	plan.Boot.Token = args.token
	b.server.progress(ctx, protocol.StepInit, "")

	h.load("loop", "squashfs", "overlay")
	if !plan.Disk {
		return plan, network, rootInMemory(ctx, b.server, plan)
	}
	if err := rootOnDisk(ctx, b.server, h, plan); err != nil {
		return plan, network, err
	}
	return plan, network, fetchAgent(ctx, b.server, plan.Agent)
}

const panicFile = "/proc/sys/kernel/panic" // after how many seconds a kernel restarts; 0: never

// stopOnPanic keeps a machine whose first stage dies from booting again and again. It returns what was set before.
func stopOnPanic() (before []byte, err error) {
	if before, err = os.ReadFile(panicFile); err != nil {
		return nil, err
	}
	return before, os.WriteFile(panicFile, []byte("0\n"), 0o644)
}

// otherDrivers loads what else the machine's devices want, from the root's own modules, where their firmware is too. What
// fails is said; the agent sees what is missing.
func (b *boot) otherDrivers() {
	hardware, err := openHardware("/", b.console)
	if err != nil {
		b.console.say("no more drivers: %v", err)
		return
	}
	hardware.loadFor()
}

// report tells the controller why this boot ended, if it can be told.
func (b *boot) report(problem error) {
	if b.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), offAfter)
	defer cancel()
	err := b.server.again(ctx, "problem", func() (bool, error) {
		within, cancel := context.WithTimeout(ctx, answerWait/2)
		defer cancel()
		return false, b.server.post(within, protocol.StepProblem, problem.Error())
	})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		b.console.say("%v", err)
	}
}

// kernelStart is when the kernel started.
func kernelStart() time.Time {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return time.Now()
	}
	return time.Now().Add(-time.Duration(up.Nano()))
}
