package monitor

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
	"unicode"

	"muster/internal/agent/protocol"
	"muster/internal/environment/identity"
	"muster/internal/environment/netboot"
	"muster/internal/inventory"
	"muster/internal/printable"
	"muster/internal/store"
	"muster/internal/telemetry"
)

// BootFiles are what machines boot an image from.
type BootFiles struct {
	Root, Agent     protocol.Blob
	Kernel, Drivers string // digests
	Arguments       string // for the kernel
}

// Images finds the files of images.
type Images interface {
	// BootFiles finds those of the image of a digest.
	BootFiles(digest string) (BootFiles, error)
	// Inspector is the digest of the image that looks at machines.
	Inspector() (string, error)
}

// Boots is the house as netboot asks it: it gives addresses to machines, tells them what to boot, and writes down how far
// they are. It implements netboot.House.
type Boots struct {
	DB        *store.Store
	Authority *identity.Authority
	Images    Images
	Telemetry *telemetry.Telemetry // nil: nobody counts

	offers offers
}

// scriptLimit is how often one boot's script is handed out, to its machine alone. A firmware may repeat itself; one that goes on
// doing so waits until the boot is begun anew.
const scriptLimit = 10

// Boot says what the machine behind a MAC boots now.
func (b *Boots) Boot(ctx context.Context, network string, mac net.HardwareAddr) (netboot.Boot, error) {
	boot, on, err := b.find(ctx, network, mac)
	if errors.Is(err, netboot.ErrNothing) && boot.Step == protocol.StepAgent && boot.Detail != store.AskedAgain {
		return netboot.Boot{}, errors.Join(err, b.asksAgain(ctx, boot))
	}
	if err == nil && boot.Scripts >= scriptLimit {
		err = netboot.ErrWait
	}
	if err != nil {
		return netboot.Boot{}, err
	}
	files, err := b.Images.BootFiles(boot.Image)
	if err != nil {
		return netboot.Boot{}, err
	}
	answer := netboot.Boot{Kernel: files.Kernel, Drivers: files.Drivers, Arguments: files.Arguments}
	if boot.Subject != "" {
		answer.Token = b.Authority.Token(boot.Subject, boot.Number)
	}
	if on.Mode == inventory.ModeOwn {
		err = b.DB.View(ctx, func(tx *store.Tx) error {
			lease, err := tx.LeaseOf(ctx, network, mac.String())
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			answer.Address = lease.Address
			return err
		})
	}
	return answer, err
}

// asksAgain notes that a machine asks what to boot whose agent has come. Either it has started anew, and its agent is
// silent, or somebody else uses its MAC: lifecycle looks which.
func (b *Boots) asksAgain(ctx context.Context, boot store.Boot) error {
	return b.DB.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.MarkBoot(ctx, boot.Subject, boot.Number, protocol.StepAgent, store.AskedAgain)
		tx.Wake(store.NodeKind, boot.Subject)
		return err
	})
}

// find is what a MAC boots: the boot of its machine, or, for an unknown one, the inspector, without a subject.
func (b *Boots) find(ctx context.Context, network string, mac net.HardwareAddr) (boot store.Boot, on inventory.Network, err error) {
	known := false
	err = b.DB.View(ctx, func(tx *store.Tx) error {
		if on, err = tx.Network(ctx, network); err != nil {
			return err
		}
		machine, err := tx.OwnerOf(ctx, network, mac.String())
		if known = machine != ""; err != nil || !known {
			return err
		}
		boot, err = tx.BootOn(ctx, machine)
		return err
	})
	switch {
	case known && errors.Is(err, store.ErrNotFound):
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
	boot.Image, err = b.Images.Inspector()
	boot.File.Duty = protocol.Enrol
	boot.File.Name = "unknown"
	return boot, on, err
}

// Plan is what the machine's first stage makes of it.
func (b *Boots) Plan(ctx context.Context, network string, mac net.HardwareAddr) (protocol.Plan, error) {
	boot, _, err := b.find(ctx, network, mac)
	if err != nil {
		return protocol.Plan{}, err
	}
	files, err := b.Images.BootFiles(boot.Image)
	if err != nil {
		return protocol.Plan{}, err
	}
	boot.File.Authority = b.Authority.AgentsPEM() // it may have changed since the row was written
	plan := protocol.Plan{Root: files.Root, Agent: files.Agent, Boot: boot.File, Disk: boot.Disk}
	if plan.Boot.Attachment != nil {
		plan.Boot.Attachment.NIC = mac.String()
	}
	if boot.Disk {
		plan.Keep = boot.Subject
	}
	return plan, nil
}

// Seen notes a step. What only somebody with the boot's token can know is believed of nobody else.
func (b *Boots) Seen(ctx context.Context, network string, p protocol.BootProgress, proof string) error {
	var reached stride
	err := b.DB.Update(ctx, func(tx *store.Tx) error {
		reached = stride{}
		machine, err := tx.OwnerOf(ctx, network, p.MAC)
		if err != nil {
			return err
		}
		if machine == "" {
			if p.Step != protocol.StepScript {
				return nil
			}
			if err := tx.ProveLease(ctx, network, p.MAC, provenFor); err != nil {
				return err
			}
			fresh, err := tx.SeeDiscovered(ctx, network, p.MAC)
			if fresh {
				tx.Log(store.Event{Type: "machine.unknown", Text: fmt.Sprintf("unknown machine %s asked to boot on network %s", p.MAC, network)})
			}
			return err
		}
		boot, err := tx.BootOn(ctx, machine)
		if errors.Is(err, store.ErrNotFound) {
			return nil // it booted by itself, and was told that there is nothing
		}
		if err != nil {
			return err
		}
		if needsProof(p.Step) && boot.Step == protocol.StepAgent {
			return nil // its first stage has ended, and what it knew stands in /proc/cmdline
		}
		if needsProof(p.Step) && !slices.ContainsFunc(b.Authority.Tokens(boot.Subject, boot.Number), func(token string) bool { return proves(proof, token) }) {
			return netboot.ErrProof
		}
		if err := learn(ctx, tx, network, machine, p); err != nil {
			return err
		}
		if reached, err = strideTo(ctx, tx, boot, p.Step); err != nil {
			return err
		}
		return b.mark(ctx, tx, machine, boot, p)
	})
	if err == nil {
		reached.tell(b.Telemetry)
	}
	return err
}

// learn notes the address that another DHCP server gave to a machine: its agent must come from there. Another machine that is on
// keeps its own.
func learn(ctx context.Context, tx *store.Tx, network, machine string, p protocol.BootProgress) error {
	if p.Step != protocol.StepInit || !p.From.Is4() {
		return nil
	}
	on, err := tx.Network(ctx, network)
	if err != nil || on.Mode == inventory.ModeOwn {
		return err
	}
	if err := taken(ctx, tx, on, machine, p.From); err != nil {
		return err
	}
	return tx.LearnLease(ctx, network, p.MAC, p.From)
}

func needsProof(s protocol.BootStep) bool {
	return s == protocol.StepInit || s == protocol.StepRoot || s == protocol.StepProblem
}

// proves compares the proof of a boot with what its token makes, in constant time.
func proves(proof, token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare([]byte(hex.EncodeToString(sum[:])), []byte(proof)) == 1
}

// mark writes a step down, tells whoever watches, and wakes whoever waits for it. Steps that a machine repeats, such as
// the addresses that firmware, iPXE and kernel each ask for, are told once, and what a first stage says of its files is no event.
func (b *Boots) mark(ctx context.Context, tx *store.Tx, machine string, boot store.Boot, p protocol.BootProgress) error {
	words := inWords(p)
	if words == boot.Detail && p.Step != protocol.StepScript || order[p.Step] < order[boot.Step] {
		return nil
	}
	if _, err := tx.MarkBoot(ctx, boot.Subject, boot.Number, p.Step, words); err != nil {
		return err
	}
	m, err := tx.Machine(ctx, machine)
	if err != nil {
		return err
	}
	event := store.Event{Type: "machine.boot", Machine: m.Name, Text: words}
	more := p.Step == protocol.StepInit && p.Step == boot.Step // how far its files are, every few seconds
	if boot.Inspection() {
		tx.Wake(store.MachineKind, machine)
		if !more {
			tx.Log(event)
		}
		return nil
	}
	node, err := tx.Node(ctx, boot.Subject)
	if err != nil {
		return err
	}
	cluster, err := tx.Cluster(ctx, node.Cluster)
	if err != nil {
		return err
	}
	event.Type, event.Project, event.ClusterID, event.Cluster, event.Node = "node.boot", cluster.Project, cluster.ID, cluster.Name, node.Name
	if !more {
		tx.Log(event)
	}
	tx.Wake(store.NodeKind, node.ID)
	return nil
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

// Enrol notes what an unknown machine says of itself, and of nobody else.
func (b *Boots) Enrol(ctx context.Context, network string, mac net.HardwareAddr, e protocol.Enrolment) error {
	var facts inventory.Facts
	if err := json.Unmarshal(e.Facts, &facts); err != nil {
		return fmt.Errorf("facts of an unknown machine: %w", err)
	}
	printable.Bound(&facts, mostFact)
	return b.DB.Update(ctx, func(tx *store.Tx) error {
		for _, mac := range e.MACs {
			owner, err := tx.OwnerOf(ctx, network, mac)
			if err != nil || owner != "" {
				return err
			}
		}
		return tx.DescribeDiscovered(ctx, mac.String(), e.MACs, facts) // the one that booted was seen doing so
	})
}

// Release forgets a lease that its machine gave back. An enrolled one keeps it: ErrKept.
func (b *Boots) Release(ctx context.Context, network string, mac net.HardwareAddr, address netip.Addr) error {
	return b.DB.Update(ctx, func(tx *store.Tx) error {
		owner, err := tx.OwnerOf(ctx, network, mac.String())
		if err == nil && owner != "" {
			err = netboot.ErrKept
		}
		if err != nil {
			return err
		}
		return tx.DropLease(ctx, network, mac.String(), address)
	})
}
