package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate/onhost"
)

// emulators are the processes of QEMU that run a domain, as its command line says: one, or none, unless a start was
// interrupted.
func (d *Driver) emulators(name string) (found []onhost.Process, err error) {
	err = onhost.CommandLines(func(pid int, text string) error {
		if !strings.Contains(text, "\x00guest="+name+",debug-threads=on\x00") {
			return nil // another's
		}
		if p, ok := onhost.Find(pid); ok && d.owns(pid) {
			found = append(found, p)
		}
		return nil
	})
	return found, err
}

// collect takes dead QEMUs off our hands, if they are our children: libvirt lets go of those that it starts, which makes
// them children of the nearest subreaper, as the agent of a host is one. No other code in this process starts a QEMU and waits
// for how it ends. It never waits.
func collect() {
	lists, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is sound
	for _, path := range lists {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended; another has its children now
		}
		for _, word := range strings.Fields(string(text)) {
			stat, _ := os.ReadFile("/proc/" + word + "/stat")
			_, name, _ := strings.Cut(string(stat), " (")
			// One of libvirt's threads is what a QEMU is called before it is QEMU.
			if (strings.HasPrefix(name, "qemu-system-") || strings.HasPrefix(name, "rpc-libvirtd")) &&
				strings.Contains(name, ") Z ") {
				pid, _ := strconv.Atoi(word)
				_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // an error says that it has been collected
			}
		}
	}
}

// collectEvery is often enough for libvirt, which waits for QEMUs to be gone, those included that it asked what they can do.
const collectEvery = 50 * time.Millisecond

// collectUntil collects for as long as our libvirt runs.
func collectUntil(ended <-chan struct{}) {
	for {
		collect()
		select {
		case <-ended:
			return
		case <-time.After(collectEvery):
		}
	}
}

// Emulates says that guests are emulated here, or this host itself is, which is many times slower. The first call tries it out.
func (d *Driver) Emulates() bool { return !d.kvm() || d.emulated() }

// looksEmulated says that QEMU emulates this host's CPUs, as far as their model's name tells. KVM may go by the second of these
// names too, and guests then have more time than they need.
func (d *Driver) looksEmulated() bool {
	facts, err := d.config.Facts(context.Background())
	return err == nil &&
		(strings.HasPrefix(facts.CPUModel, "QEMU TCG CPU") || strings.HasPrefix(facts.CPUModel, "QEMU Virtual CPU"))
}

// probe says whether KVM runs guests here, for QEMU's user. On hosts that are virtual themselves it may be slower than
// emulation by far, so it must not be much slower to show life.
func (d *Driver) probe() bool {
	if d.config.Accel != "" {
		return d.config.Accel == "kvm"
	}
	if unix.Access("/dev/kvm", unix.F_OK) != nil {
		return false
	}
	const longest = 20 * time.Second
	begin := time.Now()
	if d.try(longest, "tcg", "qemu64") != nil {
		return false
	}
	err := d.try(max(2*time.Since(begin), 200*time.Millisecond), "kvm", "host")
	if err != nil {
		d.config.Log.Info("KVM does not work here; guests are emulated", "why", err)
	}
	return err == nil
}

// try starts a machine without anything and waits for its BIOS's first word, which proves that it runs.
func (d *Driver) try(patience time.Duration, accel, cpu string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, d.qemu, "-accel", accel, "-cpu", cpu,
		"-machine", "q35,graphics=off", "-m", "64", "-no-user-config", "-nodefaults", "-display", "none", "-vga", "none",
		"-serial", "stdio")
	c.Dir, c.Env = "/", []string{}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(d.uid), Gid: uint32(d.gid),
		Groups: d.groups}}
	said, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	var complaint strings.Builder
	c.Stderr = &complaint
	if err := c.Start(); err != nil {
		return err
	}
	_, err = said.Read(make([]byte, 1))
	cancel()
	_ = c.Wait() // it was killed
	if err != nil {
		return errors.New(strings.TrimSpace(fmt.Sprintf("no sign of life in %s: %s", patience.Round(time.Millisecond),
			complaint.String())))
	}
	return nil
}
