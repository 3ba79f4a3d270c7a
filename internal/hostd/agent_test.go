package hostd

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"muster/internal/drivers/substrate"
)

// opened is a substrate that says how it was opened, and makes networks.
type opened struct {
	substrate.Substrate
	substrate.Inspector
	substrate.Networks
	env substrate.Env
}

func TestTheFirstSubstrateOfAHostMakesTheNetworksOfTheOthers(t *testing.T) {
	var all substrate.Registry
	made := map[string]*opened{}
	for _, name := range []string{"first", "second", "third"} {
		open := func(_ context.Context, e substrate.Env) (substrate.Substrate, error) {
			made[name] = &opened{env: e}
			return made[name], nil
		}
		all = append(all, substrate.Factory{Name: name, Open: open})
	}
	s := Settings{Substrates: []string{"first", "third"}, Dir: "/data", Images: t.TempDir(), Home: 7,
		Host: substrate.Host{Machine: "box-hv", Guests: true}}
	agent, err := OpenAgent(t.Context(), s, all, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	first, third := made["first"], made["third"]
	if len(agent.opened) != 2 || first.env.Networks != nil || third.env.Networks != substrate.Networks(first) {
		t.Errorf("it has %v, with networks of %v and %v", agent.opened, first.env.Networks, third.env.Networks)
	}
	if e := third.env; e.Dir != "/data/third" || !e.Host.Guests || e.Host.Machine != "box-hv" || e.Site.HomeBytes != 7 {
		t.Errorf("it was told %+v", e)
	}
}

func TestAnAgentSaysWhatItCannotOpen(t *testing.T) {
	all := substrate.Registry{
		{Name: "broken", Open: func(context.Context, substrate.Env) (substrate.Substrate, error) {
			return nil, errors.New("QEMU is missing")
		}},
		{Name: "idle", Open: func(context.Context, substrate.Env) (substrate.Substrate, error) {
			return struct{ substrate.Substrate }{}, nil
		}},
	}
	for name, want := range map[string]string{"broken": "QEMU is missing", "idle": "looks after no machines",
		"none": `no substrate "none" is known here`} {
		_, err := OpenAgent(t.Context(), Settings{Substrates: []string{name}, Images: t.TempDir()}, all,
			slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
