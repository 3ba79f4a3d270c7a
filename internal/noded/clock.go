package noded

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/clock"
)

// A guest that slept does not know it: all its clocks stood still, but for its machine's own, which runs by its host's.
const (
	clockLooks = time.Second     // between two looks at that clock, which has seconds
	clockSlack = 5 * time.Second // what is less is for others to correct
)

// keepTime sets the clock of a guest that slept until ctx ends, and has its certificates renewed: they have grown old without
// it.
func (n *node) keepTime(ctx context.Context) {
	for clock.Sleep(ctx, clockLooks) == nil {
		slept, err := n.deps.machine.catchUp(clockSlack)
		if err != nil {
			n.console.printf("%v; the clock is left alone", err)
			return
		}
		if slept == 0 {
			continue
		}
		n.console.printf("was suspended for %s", slept.Round(time.Second))
		clock.Wake(n.slept)
	}
}

// catchUp sets the system's clock by the machine's if it is behind that by more than slack, and says by how much it was.
func (kernelMachine) catchUp(slack time.Duration) (behind time.Duration, err error) {
	device, err := os.Open("/dev/rtc0")
	if err != nil {
		return 0, fmt.Errorf("the machine's clock: %w", err)
	}
	defer device.Close()
	is, err := unix.IoctlGetRTCTime(int(device.Fd()))
	if err != nil {
		return 0, fmt.Errorf("the machine's clock: %w", err)
	}
	now := time.Date(int(is.Year)+1900, time.Month(is.Mon+1), int(is.Mday), int(is.Hour), int(is.Min), int(is.Sec), 0, time.UTC)
	if behind = time.Until(now); behind <= slack {
		return 0, nil
	}
	to := unix.NsecToTimespec(now.UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &to); err != nil {
		return 0, fmt.Errorf("set the clock: %w", err)
	}
	return behind, nil
}
