package rackd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"muster/internal/kit/netns"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is a machine that has power: one run of QEMU.
type process struct {
	monitor *monitor
	cables  []*cable // one a NIC
	since   time.Time
	kill    func()
	done    chan struct{} // closed when QEMU is gone
}

// startPatience is how long QEMU may take until its machine runs; tens of milliseconds are usual.
const startPatience = 20 * time.Second

// power starts QEMU. It returns when the machine runs.
func power(ctx context.Context, namespace string, v virtual) (*process, error) {
	p := &process{since: time.Now(), done: make(chan struct{})}
	ours, theirs, err := newMonitor()
	if err != nil {
		return nil, err
	}
	p.monitor = ours
	const first = 3 // number of the first inherited file in QEMU
	files := []*os.File{theirs}
	v.monitor = first
	defer func() {
		for _, f := range files {
			f.Close() // QEMU has its own by now
		}
	}()
	for _, name := range v.Ports {
		file, err := openTap(namespace, name, func() error { return nil })
		if err != nil {
			ours.close()
			return nil, err
		}
		v.taps = append(v.taps, first+len(files))
		files = append(files, file)
		// The bridge opens a port when it sees its carrier, even one that a bad cable has closed by then.
		if err := netns.AwaitCarrier(ctx, namespace, name); err != nil {
			ours.close()
			return nil, err
		}
		p.cables = append(p.cables, &cable{namespace: namespace, port: name})
	}
	said, err := p.launch(v.arguments(), files, v.disks)
	if err != nil {
		ours.close()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if err := ours.begin(ctx); err != nil {
		p.end()
		return nil, fmt.Errorf("start QEMU: %w", errors.Join(errors.New(strings.TrimSpace(said.String())), err))
	}
	return p, nil
}

// launch runs QEMU from a thread that stays with it, as the kernel ends it together with that thread, and so with this
// process however that ends (prctl(2), PR_SET_PDEATHSIG). What QEMU said may be read after done. Disks are trimmed when it is
// gone.
func (p *process) launch(args []string, files []*os.File, disks []string) (said *bytes.Buffer, err error) {
	said = &bytes.Buffer{}
	c := exec.Command(qemu, args...)
	c.Env = []string{"PATH=" + os.Getenv("PATH")}
	c.ExtraFiles = files
	c.Stdout, c.Stderr = said, said
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	p.kill = func() { _ = c.Process.Kill() } // the only error is that it has ended
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(p.done)
		err := c.Start()
		started <- err
		if err == nil {
			_ = c.Wait() // that it has ended is all there is to know
			for _, disk := range disks {
				_ = trim(disk) // it costs room only
			}
		}
		p.monitor.close()
		for _, cable := range p.cables {
			cable.repair()
		}
	}()
	return said, <-started
}

// end takes the power away and returns when all of it is gone.
func (p *process) end() {
	p.kill()
	<-p.done
}

// ended says that the machine has switched itself off, or was killed.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
