package firststage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/clock"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// guestPlan reads the plan that a hypervisor has put into the initramfs; false: there is none, this is no guest. What it
// holds is gone with the initramfs when the root is switched.
func guestPlan(path string) (plan protocol.Plan, found bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return plan, false, nil
	}
	if err == nil {
		plan, err = parsePlan(text)
	}
	switch {
	case err != nil:
		return plan, true, fmt.Errorf("plan in the initramfs: %w", err)
	case plan.Boot.Attachment == nil:
		return plan, true, errors.New("plan in the initramfs: it names no network; the hypervisor of Muster writes it")
	}
	return plan, true, nil
}

// rootOfGuest lays the root's layers from the guest's disks. They hold what the host's own memory holds as well, so nothing is
// verified once more. The NIC is only waited for: it is the agent that settles on the cluster's network.
func rootOfGuest(ctx context.Context, h *hardware, plan protocol.Plan) (protocol.BootNetwork, error) {
	network := protocol.BootNetwork{MAC: plan.Boot.Attachment.MAC, Address: plan.Boot.Attachment.Address, By: "plan"}
	mac, err := net.ParseMAC(network.MAC)
	if err != nil {
		return network, fmt.Errorf("plan in the initramfs: %w", err)
	}
	if network.NIC, err = h.awaitNIC(ctx, mac); err != nil {
		return network, err
	}
	h.load("squashfs", "overlay")
	root, err := h.awaitSerial(ctx, protocol.GuestRoot)
	if err != nil {
		return network, err
	}
	agent, err := h.awaitSerial(ctx, protocol.GuestAgent)
	if err != nil {
		return network, err
	}
	if err := mount(root, lowerDir, "squashfs", unix.MS_RDONLY, ""); err != nil {
		return network, fmt.Errorf("root image: %w", err)
	}
	if err := mount("tmpfs", upperDir, "tmpfs", 0, "mode=0755"); err != nil {
		return network, err
	}
	return network, wrap.Errorf(copyAgent(agent, plan.Agent.Size), "agent")
}

// awaitSerial returns the device of the disk with this serial once it is there.
func (h *hardware) awaitSerial(ctx context.Context, serial string) (string, error) {
	for start := time.Now(); ; {
		h.loadFor(diskDrivers()...)
		found, _ := filepath.Glob(filepath.Join(h.sys, "block/*/serial")) // the pattern is sound
		for _, f := range found {
			text, err := os.ReadFile(f)
			if err == nil && string(bytes.TrimSpace(text)) == serial {
				return "/dev/" + filepath.Base(filepath.Dir(f)), nil
			}
		}
		if time.Since(start) > diskWait {
			return "", fmt.Errorf("no disk has the serial %s; the hypervisor gives it to every guest", serial)
		}
		if err := clock.Sleep(ctx, 50*time.Millisecond); err != nil {
			return "", err
		}
	}
}

// copyAgent puts the first bytes of a disk into the upper layer, as the agent.
func copyAgent(device string, size int64) error {
	from, err := openWhenThere(device, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer from.Close()
	path := filepath.Join(written, protocol.AgentPath)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.CopyN(to, from, size)
	return errors.Join(err, to.Chmod(0o755), to.Close())
}
