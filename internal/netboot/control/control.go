// Package control answers what the server of boots asks: which address a machine gets, what it boots now, who is at the other
// end of a connection. It writes down how far each boot is, and which unknown machines have asked.
//
// What enters: the questions of netboot, and rows of machines, boots and networks. What leaves: answers, leases, steps of boots
// and wake-ups for the engine, which alone changes phases.
package control

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"muster/internal/core"
	"muster/internal/core/telemetry"
	"muster/internal/identity"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
	"muster/internal/kinds/node"
	"muster/internal/kit/printable"
	"muster/internal/netboot"
	"muster/internal/protocol"
)

// Files are what machines boot an image from.
type Files struct {
	Root, Agent     protocol.Blob
	Kernel, Drivers string // digests
	Arguments       string // for the kernel
}

// Images finds the files of images.
type Images interface {
	// BootFiles finds those of the image of a digest.
	BootFiles(digest string) (Files, error)
	// Inspector is the digest of the image that looks at machines.
	Inspector() (string, error)
}

// Controller is what netboot asks: it gives addresses to machines, tells them what to boot, and writes down how far
// they are. It implements netboot.Controller.
type Controller struct {
	DB        *core.Store
	Authority *identity.Authority
	Images    Images
	Telemetry *telemetry.Telemetry // nil: nothing is counted

	offers offers
}

// scriptLimit is how often one boot's script is handed out, to its machine alone. A firmware may repeat itself; one that goes on
// doing so waits until the boot is begun again.
const scriptLimit = 10

// newsEach is how many unknown machines of a network an hour are news: MACs are made up easily.
const newsEach = 50

// BootConfig says what the machine behind a MAC boots now.
func (c *Controller) BootConfig(ctx context.Context, networkName string, mac net.HardwareAddr) (netboot.BootConfig, error) {
	boot, on, err := c.find(ctx, networkName, mac)
	if errors.Is(err, netboot.ErrNothing) && boot.Step == protocol.StepAgent && boot.Detail != machine.AskedAgain {
		return netboot.BootConfig{}, errors.Join(err, c.asksAgain(ctx, boot))
	}
	if err == nil && boot.Scripts >= scriptLimit {
		err = netboot.ErrWait
	}
	if err != nil {
		return netboot.BootConfig{}, err
	}
	files, err := c.Images.BootFiles(boot.Image)
	if err != nil {
		return netboot.BootConfig{}, err
	}
	answer := netboot.BootConfig{Kernel: files.Kernel, Drivers: files.Drivers, Arguments: files.Arguments}
	if boot.Subject != "" {
		answer.Token = c.Authority.Token(boot.Subject, boot.Number)
	}
	if on.Mode == inventory.ModeOwn {
		err = c.DB.View(ctx, func(tx *core.Tx) error {
			lease, err := network.LeaseOf(ctx, tx, networkName, mac.String())
			if errors.Is(err, core.ErrNotFound) {
				return nil
			}
			answer.Address = lease.Address
			return err
		})
	}
	return answer, err
}

// asksAgain notes that a machine asks what to boot whose agent has come. Either it has restarted, and its agent is
// silent, or somebody else uses its MAC: the machine's life looks which.
func (c *Controller) asksAgain(ctx context.Context, boot machine.Boot) error {
	return c.DB.Update(ctx, func(tx *core.Tx) error {
		_, err := machine.MarkBoot(ctx, tx, boot.Subject, boot.Number, protocol.StepAgent, machine.AskedAgain)
		tx.Wake(node.Kind, boot.Subject)
		return err
	})
}

// find is what a MAC boots: the boot of its machine, or, for an unknown one, the inspector, without a subject.
func (c *Controller) find(ctx context.Context, networkName string, mac net.HardwareAddr) (boot machine.Boot, on inventory.Network,
	err error) {
	known := false
	err = c.DB.View(ctx, func(tx *core.Tx) error {
		if on, err = network.Get(ctx, tx, networkName); err != nil {
			return err
		}
		machineID, err := machine.OwnerOf(ctx, tx, networkName, mac.String())
		if known = machineID != ""; err != nil || !known {
			return err
		}
		boot, err = machine.BootOn(ctx, tx, machineID)
		return err
	})
	switch {
	case known && errors.Is(err, core.ErrNotFound):
		return boot, on, netboot.ErrNothing
	case err != nil:
		return boot, on, err
	case known && (boot.Ending || boot.Step == protocol.StepAgent):
		// Its agent has come already, or must not come any more: who asks now gets nothing that is of use.
		return boot, on, netboot.ErrNothing
	case known:
		return boot, on, nil
	case on.Unknown != inventory.UnknownEnrol:
		return boot, on, netboot.ErrUnknown
	}
	boot.Image, err = c.Images.Inspector()
	boot.File.Duty = protocol.Enrol
	boot.File.Name = "unknown"
	return boot, on, err
}

// Plan is what the machine's first stage makes of it.
func (c *Controller) Plan(ctx context.Context, network string, mac net.HardwareAddr) (protocol.Plan, error) {
	boot, _, err := c.find(ctx, network, mac)
	if err != nil {
		return protocol.Plan{}, err
	}
	files, err := c.Images.BootFiles(boot.Image)
	if err != nil {
		return protocol.Plan{}, err
	}
	boot.File.Authority = c.Authority.AgentsPEM() // it may have changed since the row was written
	plan := protocol.Plan{Root: files.Root, Agent: files.Agent, Boot: boot.File, Disk: boot.Disk}
	if plan.Boot.Attachment != nil {
		plan.Boot.Attachment.NIC = mac.String()
	}
	if boot.Disk {
		plan.Keep = boot.Subject
	}
	return plan, nil
}

// Seen notes a step. What only a caller with the boot's token can know is believed of no other.
func (c *Controller) Seen(ctx context.Context, networkName string, p protocol.BootProgress, proof string) error {
	var reached Progress
	err := c.DB.Update(ctx, func(tx *core.Tx) error {
		reached = Progress{}
		machineID, err := machine.OwnerOf(ctx, tx, networkName, p.MAC)
		if err != nil {
			return err
		}
		if machineID == "" {
			if p.Step != protocol.StepScript {
				return nil
			}
			if err := network.ProveLease(ctx, tx, networkName, p.MAC, provenFor); err != nil {
				return err
			}
			fresh, err := network.SeeDiscovered(ctx, tx, networkName, p.MAC)
			news := core.Event{Type: "machine.unknown", Text: fmt.Sprintf("unknown machine %s asked to boot on network %s", p.MAC,
				networkName)}
			if fresh == newsEach {
				news.Text += "; of more within this hour there is no event (`muster machines unknown` lists them)"
			}
			if 0 < fresh && fresh <= newsEach {
				tx.Log(news)
			}
			return err
		}
		boot, err := machine.BootOn(ctx, tx, machineID)
		if errors.Is(err, core.ErrNotFound) {
			return nil // it booted by itself, and was told that there is nothing
		}
		if err != nil {
			return err
		}
		if needsProof(p.Step) && boot.Step == protocol.StepAgent {
			return nil // its first stage has ended, and what it knew stands in /proc/cmdline
		}
		if needsProof(p.Step) && !slices.ContainsFunc(c.Authority.Tokens(boot.Subject, boot.Number), func(token string) bool {
			return proves(proof, token)
		}) {
			return netboot.ErrProof
		}
		if err := learn(ctx, tx, networkName, machineID, p); err != nil {
			return err
		}
		if reached, err = ProgressTo(ctx, tx, boot, p.Step); err != nil {
			return err
		}
		return c.mark(ctx, tx, machineID, boot, p)
	})
	if err == nil {
		reached.Tell(c.Telemetry)
	}
	return err
}

// learn notes the address that another DHCP server gave to a machine: its agent must come from there. Another machine that is on
// keeps its own.
func learn(ctx context.Context, tx *core.Tx, networkName, machine string, p protocol.BootProgress) error {
	if p.Step != protocol.StepInit || !p.From.Is4() {
		return nil
	}
	on, err := network.Get(ctx, tx, networkName)
	if err != nil || on.Mode == inventory.ModeOwn {
		return err
	}
	if err := taken(ctx, tx, on, machine, p.From); err != nil {
		return err
	}
	return network.LearnLease(ctx, tx, networkName, p.MAC, p.From)
}

func needsProof(s protocol.BootStep) bool {
	return s == protocol.StepInit || s == protocol.StepRoot || s == protocol.StepProblem
}

// proves compares the proof of a boot with what its token makes, in constant time.
func proves(proof, token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare([]byte(hex.EncodeToString(sum[:])), []byte(proof)) == 1
}

// mark writes a step down, tells those who watch, and wakes those who wait for it. Steps that a machine repeats, such as
// the addresses that firmware, iPXE and kernel each ask for, are told once, and what a first stage says of its files is no event.
func (c *Controller) mark(ctx context.Context, tx *core.Tx, machineID string, boot machine.Boot, p protocol.BootProgress) error {
	words := inWords(p)
	if words == boot.Detail && p.Step != protocol.StepScript || order[p.Step] < order[boot.Step] {
		return nil
	}
	if _, err := machine.MarkBoot(ctx, tx, boot.Subject, boot.Number, p.Step, words); err != nil {
		return err
	}
	m, err := machine.Get(ctx, tx, machineID)
	if err != nil {
		return err
	}
	event := core.Event{Type: "machine.boot." + string(p.Step), Machine: m.Name, Text: words}
	more := needsProof(p.Step) && p.Step == boot.Step // how far its files are, every few seconds, or a problem in other words
	if boot.Inspection() {
		tx.Wake(machine.Kind, machineID)
		if !more {
			tx.Log(event)
		}
		return nil
	}
	n, err := node.Get(ctx, tx, boot.Subject)
	if err != nil {
		return err
	}
	cluster, err := cluster.Get(ctx, tx, n.Cluster)
	if err != nil {
		return err
	}
	event.Type, event.Project, event.ClusterID = "node.boot."+string(p.Step), cluster.Project, cluster.ID
	event.Cluster, event.Node = cluster.Name, n.Name
	if !more {
		tx.Log(event)
	}
	tx.Wake(node.Kind, n.ID)
	return nil
}

// Progress is one step of a boot and how long it took, to be told once the step is written. The zero value is none.
type Progress struct {
	Substrate string
	Step      protocol.BootStep
	Took      time.Duration
}

// Tell counts it; nil: it is not counted.
func (p Progress) Tell(t *telemetry.Telemetry) {
	if p.Step != "" {
		t.BootStep(p.Substrate, string(p.Step), p.Took)
	}
}

// ProgressTo measures a machine's step since its last sign of life; a step that is said again is none.
func ProgressTo(ctx context.Context, tx *core.Tx, boot machine.Boot, to protocol.BootStep) (Progress, error) {
	if order[to] <= order[boot.Step] {
		return Progress{}, nil
	}
	now, err := tx.Now(ctx)
	since := boot.StepAt
	if boot.PoweredAt.After(since) {
		since = boot.PoweredAt
	}
	if err != nil {
		return Progress{}, err
	}
	machine, err := machine.Get(ctx, tx, boot.MachineID)
	return Progress{machine.Substrate, to, now.Sub(since)}, err
}

// order is how far each step is.
var order = map[protocol.BootStep]int{
	"": 0, protocol.StepPower: 1, protocol.StepAddress: 2, protocol.StepScript: 3, protocol.StepKernel: 4, protocol.StepInit: 5,
	protocol.StepRoot: 6, protocol.StepAgent: 7, protocol.StepProblem: 8,
}

// inWords says a step as people read it. What a machine adds is cut and cleaned.
func inWords(p protocol.BootProgress) string {
	detail := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, p.Detail)
	detail = printable.Cut(detail, 500)
	if p.Took > 0 && p.Step != protocol.StepProblem {
		if detail != "" {
			detail += ", "
		}
		detail += fmt.Sprintf("%.1f s after its kernel began", p.Took.Seconds())
	}
	words := map[protocol.BootStep]string{
		protocol.StepPower: "is switched on", protocol.StepAddress: "has its address", protocol.StepScript: "asked what to boot",
		protocol.StepKernel: "has its kernel", protocol.StepInit: "runs its first stage", protocol.StepRoot: "has its root",
		protocol.StepAgent: "its agent is here", protocol.StepProblem: "cannot boot",
	}[p.Step]
	if detail == "" {
		return words
	}
	return words + ": " + detail
}

// Enrol notes what an unknown machine says of itself, and of no other machine.
func (c *Controller) Enrol(ctx context.Context, networkName string, mac net.HardwareAddr, e protocol.Enrolment) error {
	var facts inventory.Facts
	if err := json.Unmarshal(e.Facts, &facts); err != nil {
		return fmt.Errorf("facts of an unknown machine: %w", err)
	}
	facts.Bound()
	return c.DB.Update(ctx, func(tx *core.Tx) error {
		for _, mac := range e.MACs {
			owner, err := machine.OwnerOf(ctx, tx, networkName, mac)
			if err != nil || owner != "" {
				return err
			}
		}
		return network.DescribeDiscovered(ctx, tx, mac.String(), e.MACs, facts) // the one that booted was seen doing so
	})
}

// Release forgets a lease that its machine gave back. An enrolled one keeps it: ErrKept.
func (c *Controller) Release(ctx context.Context, networkName string, mac net.HardwareAddr, address netip.Addr) error {
	return c.DB.Update(ctx, func(tx *core.Tx) error {
		owner, err := machine.OwnerOf(ctx, tx, networkName, mac.String())
		if err == nil && owner != "" {
			err = netboot.ErrKept
		}
		if err != nil {
			return err
		}
		return network.DropLease(ctx, tx, networkName, mac.String(), address)
	})
}
