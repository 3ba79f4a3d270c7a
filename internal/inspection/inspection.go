// Package inspection looks at a machine from inside: it erases the disks, reads what the machine is, and tests it.
//
// What enters: the Inspection that the controller asks for, and the machine itself: sysfs, procfs, block devices, and
// the programs nvme, smartctl, hdparm, sg_sanitize, lspci, ethtool and modprobe; any of these may be missing. What leaves:
// Findings, once every 2 s while it works and once at its end; and what is on the disks, for ever.
//
//	erase and read back → facts → health checks → Findings
//
// It runs in the first process of a machine that has booted from the network: no disk is in use, and nothing of what
// it does needs to be undone.
package inspection

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"muster/internal/inventory"
	"muster/internal/kit/clock"
	"muster/internal/protocol"
)

// Controller is whom the inspection works for. Every call may be repeated.
type Controller interface {
	// Inspection is what this machine's inspection is to do; asked once it has joined.
	Inspection(ctx context.Context) (protocol.Inspection, error)
	// Findings tells how far it is, now and then, and at its end what it found.
	Findings(ctx context.Context, f protocol.Findings) error
}

// Tools runs programs.
type Tools interface {
	// Run runs one to its end. It returns the standard output also of a program that failed.
	Run(ctx context.Context, argv ...string) ([]byte, error)
}

// Options of Run and Enrol. Tools is required; the rest is right as it is on a machine.
type Options struct {
	Root    string                  // where sys, proc and dev are: "/"
	Tools   Tools                   // the first process's way to start programs
	LinkUp  func(name string) error // brings a NIC up; nil: through the kernel's own interface
	Refused error                   // what errors of the Controller wrap when this boot is no longer wanted; nil: none do
}

const (
	defaultWithin = time.Minute
	retryFirst    = time.Second // after a failed call of the controller; doubles
	retryMost     = 15 * time.Second
	enrolLimit    = 64 << 10 // bytes of facts in an Enrolment
)

// Run does one inspection and returns when the controller has its findings. It ends early when ctx does or when the
// controller refuses. What is wrong with the machine is a finding, not an error.
func Run(ctx context.Context, c Controller, console io.Writer, o Options) error {
	return newMachine(o, console).serve(ctx, c)
}

func (m *machine) serve(ctx context.Context, c Controller) error {
	var asked protocol.Inspection
	err := m.insist(ctx, "ask what to do", func() (err error) {
		asked, err = c.Inspection(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if asked.Within <= 0 {
		asked.Within = defaultWithin
	}

	p := newProgress()
	reporting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	refused := make(chan struct{})
	go func() {
		defer close(refused)
		p.report(reporting, func(doing string) error {
			err := c.Findings(reporting, protocol.Findings{Doing: doing})
			if m.refused(err) {
				stop(err)
			}
			return err
		})
	}()
	findings := m.inspect(reporting, asked, p)
	err = context.Cause(reporting)
	stop(nil)
	<-refused // no word of progress may come after the last word
	if err != nil {
		return err
	}
	return m.insist(ctx, "deliver findings", func() error { return c.Findings(ctx, findings) })
}

// inspect is the inspection without the controller. When ctx ends it returns early; then its result means nothing.
func (m *machine) inspect(ctx context.Context, asked protocol.Inspection, p *progress) protocol.Findings {
	p.say("machine", "finding devices")
	m.loadDrivers(ctx)
	m.bringNICsUp()
	linksUp := time.Now()
	disks := m.disks(ctx)
	findings := protocol.Findings{Done: true}
	if asked.Erase {
		p.say("machine", "") // each disk speaks for itself
		findings.Erased = m.erase(ctx, disks, p)
	}
	p.say("machine", "reading facts")
	m.awaitCarriers(ctx, linksUp)
	facts := m.facts(ctx, disks)
	findings.Checks = m.check(ctx, asked.Within, disks, &facts, p)
	p.say("machine", "")
	findings.Facts, _ = json.Marshal(facts) // plain data with finite numbers: can't fail
	return findings
}

// Enrol tells the controller at server ("http://host:port") what this unknown machine is. It changes nothing on it. It
// tries until it is heard or ctx ends.
func Enrol(ctx context.Context, server string, console io.Writer, o Options) error {
	m := newMachine(o, console)
	m.loadDrivers(ctx)
	m.bringNICsUp()
	linksUp := time.Now()
	disks := m.disks(ctx)
	m.awaitCarriers(ctx, linksUp)
	facts := m.facts(ctx, disks)
	m.logf("this machine is unknown: %d CPUs, %d MiB, %d disks, %d NICs", facts.CPUs, facts.MemoryMiB, len(facts.Disks),
		len(facts.NICs))
	body, err := enrolment(facts)
	if err != nil {
		return err
	}
	if err := m.insist(ctx, "offer this machine", func() error {
		return post(ctx, server+protocol.EnrolPath, body)
	}); err != nil {
		return err
	}
	m.logf("offered; an operator may enrol it")
	return nil
}

// enrolment keeps to the limit of what is listened to: what need not be known before the machine is inspected goes first, then
// the longest lists.
func enrolment(facts inventory.Facts) ([]byte, error) {
	text, err := json.Marshal(facts)
	for _, leave := range []func(){
		func() {
			facts.Devices = slices.DeleteFunc(slices.Clone(facts.Devices), func(d inventory.Device) bool {
				return d.Parent != "" || d.Kind == "bridge" || d.Kind == "other"
			})
		},
		func() { facts.Devices = nil },
		func() { facts.DIMMs = nil },
		func() { facts.Disks = nil },
	} {
		if err != nil || len(text) <= enrolLimit {
			break
		}
		leave()
		text, err = json.Marshal(facts)
	}
	if err != nil {
		return nil, fmt.Errorf("write facts: %w", err)
	}
	var macs []string
	for _, n := range facts.NICs {
		if mac, err := net.ParseMAC(n.MAC); err == nil && len(mac) == 6 { // InfiniBand's have 20 bytes
			macs = append(macs, n.MAC)
		}
	}
	return json.Marshal(protocol.Enrolment{MACs: macs, Facts: text})
}

func post(ctx context.Context, url string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		answer, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(answer))
	}
	return nil
}

// insist repeats a call until it works, ctx ends, or the controller refuses.
func (m *machine) insist(ctx context.Context, what string, call func() error) error {
	pause := retryFirst
	for {
		err := call()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		case m.refused(err):
			return fmt.Errorf("%s: %w", what, err)
		}
		m.logf("%s: %v; again in %v", what, err, pause)
		if clock.Sleep(ctx, pause) != nil {
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
		pause = min(2*pause, retryMost)
	}
}

func (m *machine) refused(err error) bool {
	return m.options.Refused != nil && errors.Is(err, m.options.Refused)
}
