package networklife

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"muster/internal/core"
	switches "muster/internal/drivers/switch"
	"muster/internal/drivers/switch/fake"
	"muster/internal/inventory"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
)

// reopened is a switch whose port eth9 is opened again before each look. It notes what was named.
type reopened struct {
	*fake.Switch
	named *[]string
}

func (r reopened) Isolate(ctx context.Context, named []string) ([]string, error) {
	*r.named = named
	isolated, err := r.Switch.Isolate(ctx, named)
	return append(isolated, "eth9"), err
}

// TestAPortThatNobodyNamedIsIsolated: the regular look at ports isolates it and tells of it once, and leaves a machine's alone.
func TestAPortThatNobodyNamedIsIsolated(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		ctx, db, ports := t.Context(), kindstest.Open(t, url), fake.New("m1n0", "eth8")
		kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) error {
			return errors.Join(network.Put(ctx, tx, inventory.Network{Name: "boot", Interface: "br0", Switch: "fake"}),
				machine.Add(ctx, tx, inventory.Machine{ID: "m1", Name: "m1", Substrate: "metal", Network: "boot",
					MACs: []string{"52:54:00:00:00:01"}, Ports: []string{"m1n0"}}))
		})
		var named []string
		s := &Ports{DB: db, Log: slog.New(slog.DiscardHandler), Switches: switches.Registry{{Name: "fake", Isolates: true,
			Open: func(inventory.Network) switches.Switch { return reopened{ports, &named} }}}}
		for range 3 {
			if err := s.look(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if now, err := ports.Ports(ctx); err != nil || now["eth8"] != switches.Common || !slices.Equal(named, []string{"m1n0"}) {
			t.Errorf("ports are in %v, and %q were named: %v", now, named, err)
		}
		var said []string
		kindstest.View(t, db, func(ctx context.Context, tx *core.Tx) error {
			all, err := tx.Events(ctx, core.EventsOf{Limit: 100})
			for _, e := range all {
				if e.Type == "network.port" {
					port, _, _ := strings.Cut(strings.TrimPrefix(e.Text, "port "), " of network boot ")
					said = append(said, port)
				}
			}
			return err
		})
		if slices.Sort(said); !slices.Equal(said, []string{"eth8", "eth9"}) {
			t.Errorf("events tell of %q", said)
		}
	})
}
