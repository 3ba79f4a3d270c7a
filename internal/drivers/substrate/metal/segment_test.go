package metal_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/drivers/power"
	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/metal"
	switches "muster/internal/drivers/switch"
	"muster/internal/drivers/switch/fake"
	"muster/internal/inventory"
)

// errFault is what any step may fail with, before it does anything or after.
var errFault = errors.New("a fault")

// switchedTestbed is a testbed whose machines are on ports of a switch. It looks on, and keeps what it saw that must never be.
type switchedTestbed struct {
	*networks
	ports *fake.Switch
	fault func(step string) error
	wrong []string
}

func newSwitchedTestbed(machines ...string) *switchedTestbed {
	h := &switchedTestbed{networks: newTestbed(), ports: fake.New(machines...), fault: func(string) error { return nil }}
	for _, m := range machines {
		if err := h.ports.Put(context.Background(), switches.Port{Name: m}, switches.Common); err != nil {
			panic(err)
		}
	}
	h.ports.Fail = func(step string) error { return h.fault("before " + step) }
	h.ports.Lose = func(step string) error { return h.fault("after " + step) }
	return h
}

// at is where a machine's port is, whatever may fail.
func (h *switchedTestbed) at(machine string) switches.Segment {
	fault := h.fault
	defer func() { h.fault = fault }()
	h.fault = func(string) error { return nil }
	all, _ := h.ports.Ports(context.Background())
	return all[machine]
}

func (h *switchedTestbed) see(format string, args ...any) {
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

// of is the segment that a boot belongs in: clusters "c1", "c2" … have their numbers.
func of(b substrate.Boot) switches.Segment {
	var cluster int
	if n, _ := fmt.Sscanf(b.Subject, "c%d-", &cluster); n == 0 {
		return switches.Common
	}
	return switches.Segment(cluster)
}

// hand switches a machine of a switched testbed, and looks where it is while it does.
type hand struct {
	control
	*switchedTestbed
}

func (c hand) State(ctx context.Context) (power.State, error) {
	if err := c.fault("before state"); err != nil {
		return power.Unknown, err
	}
	return c.control.State(ctx)
}

func (c hand) On(ctx context.Context) error {
	if err := c.fault("before on"); err != nil {
		return err
	}
	b, err := c.switchedTestbed.networks.BootOn(ctx, c.machine)
	if err != nil || of(b) != c.at(c.machine) {
		c.see("%s is switched on in %s for %q (%v)", c.machine, c.at(c.machine), b.Subject, err)
	}
	if err := c.control.On(ctx); err != nil {
		return err
	}
	return c.fault("after on")
}

func (c hand) Off(ctx context.Context) error {
	if err := c.fault("before off"); err != nil {
		return err
	}
	if err := c.control.Off(ctx); err != nil {
		return err
	}
	return c.fault("after off")
}

func (c hand) BootFromNetwork(context.Context) error { return power.ErrUnsupported }

func (h *switchedTestbed) driver() *metal.Driver {
	return metal.New(metal.Config{
		Ledger: h, Power: func(m substrate.Machine) (power.Driver, error) { return hand{control{h.networks, m.ID}, h}, nil },
		Place: func(ctx context.Context, m substrate.Machine, s switches.Segment) error {
			if on, _ := (control{h.networks, m.ID}).State(ctx); on == power.On && s != switches.Common { // there it does no harm
				h.see("%s is on while it is put into %s", m.ID, s)
			}
			return h.ports.Put(ctx, switches.Port{Name: m.ID}, s)
		},
		Images: anyImage{}, Keys: noKeys{},
	})
}

func (h *switchedTestbed) Begin(ctx context.Context, b substrate.Boot) error {
	if err := h.fault("before begin"); err != nil {
		return err
	}
	if err := h.networks.Begin(ctx, b); err != nil {
		return err
	}
	return h.fault("after begin")
}

func (h *switchedTestbed) Powered(ctx context.Context, b substrate.Boot) error {
	if err := h.fault("before powered"); err != nil {
		return err
	}
	return h.networks.Powered(ctx, b)
}

func (h *switchedTestbed) Drop(ctx context.Context, subject string, number int64) error {
	if err := h.fault("before drop"); err != nil {
		return err
	}
	if err := h.networks.Drop(ctx, subject, number); err != nil {
		return err
	}
	return h.fault("after drop")
}

// TestAMachineRunsInItsClustersSegmentOrNotAtAll lets every step fail, before or after it did its work, and repeats it as the
// engine would, in any order.
func TestAMachineRunsInItsClustersSegmentOrNotAtAll(t *testing.T) {
	rapid.Check(t, segmentsAsTheyShouldBe)
}

func segmentsAsTheyShouldBe(t *rapid.T) {
	machines := []string{"m1", "m2"}
	h := newSwitchedTestbed(machines...)
	driver := h.driver()
	held, boots := map[string]string{}, map[string]int64{} // machine → node, as the database's constraint has it
	calm := func(string) error { return nil }
	faulty := func(step string) error {
		if rapid.IntRange(0, 5).Draw(t, step) == 0 {
			return errFault
		}
		return nil
	}
	node := func(machine string) substrate.Node {
		var cluster int
		_, _ = fmt.Sscanf(held[machine], "c%d-", &cluster)
		return substrate.Node{Ref: substrate.Ref{Cluster: fmt.Sprintf("c%d", cluster), Node: held[machine],
			Boot: boots[held[machine]]},
			Machine: machine, MAC: substrate.MAC(cluster, 2)}
	}
	for range rapid.IntRange(1, 25).Draw(t, "steps") {
		m := rapid.SampledFrom(machines).Draw(t, "machine")
		h.fault = faulty
		switch rapid.SampledFrom([]string{"take", "boot", "boot", "again", "release", "release", "inspect", "press"}).
			Draw(t, "what") {
		case "take":
			if _, err := h.networks.BootOn(t.Context(), m); held[m] == "" && errors.Is(err, substrate.ErrNoBoot) {
				held[m] = fmt.Sprintf("c%d-on-%s", rapid.IntRange(1, 3).Draw(t, "cluster"), m)
				boots[held[m]]++
			}
		case "again":
			if held[m] != "" {
				boots[held[m]]++
			}
		case "boot":
			if held[m] != "" {
				_ = driver.Ensure(t.Context(), node(m))
			}
		case "release":
			if held[m] == "" {
				continue
			}
			if driver.Remove(t.Context(), node(m).Ref) == nil {
				if _, err := h.networks.BootOn(t.Context(), m); errors.Is(err, substrate.ErrNoBoot) {
					held[m] = ""
				}
			}
		case "inspect":
			if held[m] == "" {
				_, _ = driver.Inspect(t.Context(), substrate.Inspection{Machine: inventory.Machine{ID: m, Name: m}, Number: 1})
				_ = h.networks.Drop(t.Context(), m, math.MaxInt64)
				_ = control{h.networks, m}.set(false)
			}
		case "press": // somebody presses the button of a machine that is off
			if held[m] == "" {
				_ = control{h.networks, m}.set(true)
			}
		}
		h.fault = calm
		for _, m := range machines {
			b, err := h.networks.BootOn(t.Context(), m)
			if at := h.at(m); errors.Is(err, substrate.ErrNoBoot) && at != switches.Common {
				h.see("%s boots nothing and is in %s", m, at)
			} else if err == nil && at != switches.Common && at != of(b) {
				on, _ := (control{h.networks, m}).State(t.Context())
				if on == power.On {
					h.see("%s is on in %s, and boots %s", m, at, b.Subject)
				}
			}
		}
		if len(h.wrong) > 0 {
			t.Fatal(h.wrong)
		}
	}
}

func TestAMachineWhosePortDoesNotMoveKeepsItsNode(t *testing.T) {
	h := newSwitchedTestbed("m1")
	n := substrate.Node{Ref: substrate.Ref{Cluster: "c7", Node: "c7-on-m1", Boot: 1}, Machine: "m1", MAC: substrate.MAC(7, 2)}
	if err := h.driver().Ensure(t.Context(), n); err != nil || h.at("m1") != 7 || !h.on["m1"] {
		t.Fatalf("%v, in %s, on: %v", err, h.at("m1"), h.on["m1"])
	}
	h.fault = func(step string) error {
		if step == "before put" {
			return errFault
		}
		return nil
	}
	for range 2 {
		if err := h.driver().Remove(t.Context(), n.Ref); !errors.Is(err, errFault) {
			t.Error(err)
		}
		if seen, err := h.driver().Observe(t.Context(), n.Ref); err != nil || !seen.Present || seen.Running {
			t.Errorf("%+v, %v", seen, err)
		}
	}
	h.fault = func(string) error { return nil }
	if err := h.driver().Remove(t.Context(), n.Ref); err != nil || h.at("m1") != switches.Common {
		t.Errorf("%v, in %s", err, h.at("m1"))
	}
	if seen, err := h.driver().Observe(t.Context(), n.Ref); err != nil || seen.Present {
		t.Errorf("%+v, %v", seen, err)
	}
}
