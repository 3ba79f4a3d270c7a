package gateway

import (
	"context"
	"encoding/binary"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// vigil keeps the host's CPUs from sleeping while much goes to and fro. Programs that copy small files wait for an answer to
// each message, so the CPUs at both sides of the door sleep between any two of them, and to wake one takes longer than to
// carry a message: under a hypervisor tens of microseconds, twice a message more than without the door. The kernel's way to
// ask for it is a file that is held open (Linux, Documentation/power/pm_qos_interface.rst). It costs power, no time of
// others: a CPU that has something to do does it.
type vigil struct {
	device string
	log    *slog.Logger

	messages atomic.Int64
	stirred  chan time.Time
}

// Traffic is dense when so many messages pass within so long. Who types, or watches a screen, makes none.
const (
	denseMessages = 64
	denseWithin   = 50 * time.Millisecond
)

const latencyDevice = "/dev/cpu_dma_latency"

// newVigil needs run beside it.
func newVigil(device string, log *slog.Logger) *vigil {
	return &vigil{device: device, log: log, stirred: make(chan time.Time, 1)}
}

// pass says that a message passes the door.
func (v *vigil) pass() {
	if v.messages.Add(1)%denseMessages == 0 {
		select {
		case v.stirred <- time.Now():
		default:
		}
	}
}

// run keeps watch until ctx ends.
func (v *vigil) run(ctx context.Context) {
	var held *os.File
	var last time.Time
	quiet := time.NewTimer(denseWithin)
	defer func() { quiet.Stop(); release(held) }()
	for able := true; ; {
		select {
		case <-ctx.Done():
			return
		case <-quiet.C:
			release(held)
			held = nil
		case now := <-v.stirred:
			dense := now.Sub(last) < denseWithin
			last = now
			if dense && able && held == nil {
				var err error
				if held, err = awake(v.device); err != nil {
					able = false // it will not become able to
					v.log.InfoContext(ctx, "cannot keep the CPUs awake while files pass the gateway, so small ones take longer", "error", err)
				}
			}
			quiet.Reset(denseWithin)
		}
	}
}

// awake asks for CPUs that answer at once, until what it returns is closed.
func awake(device string) (*os.File, error) {
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(binary.NativeEndian.AppendUint32(nil, 0)); err != nil { // microseconds until a CPU works
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func release(f *os.File) {
	if f != nil {
		_ = f.Close() // the kernel forgets the wish with it
	}
}
