package fake

import (
	"context"
	"errors"
	"testing"
	"time"

	"muster/internal/drivers/fabric/fabrictest"
	"muster/internal/fabric"
)

func TestTheFakeKeepsTheContract(t *testing.T) {
	fabrictest.Contract(t, func(t *testing.T) fabrictest.Fixture {
		ports := make([]fabric.GUID, 12)
		for i := range ports {
			ports[i] = fabrictest.HostPort(i + 1)
		}
		f := New(fabrictest.HostPort(0), ports...)
		for _, p := range ports {
			f.Narrow(p, 16)
		}
		return fabrictest.Fixture{
			Driver: f, Manager: fabrictest.HostPort(0), Ports: ports, Room: 15,
			Link:  func(_ *testing.T, p fabric.GUID, up bool) { f.Silence(p, !up) },
			Write: func(_ *testing.T, p fabric.GUID, e fabric.Entry) { f.Rogue(p, e) },
		}
	})
}

func TestFaultsStrike(t *testing.T) {
	ctx := context.Background()
	sm, a := fabric.GUID(1), fabric.GUID(2)
	i := fabric.Intent{Partitions: []fabric.Partition{{Key: 5, Members: map[fabric.GUID]fabric.Membership{a: fabric.Full}}},
		Managers: []fabric.GUID{sm}}
	f := New(sm, a)

	f.FailOpen(true)
	if err := f.Apply(ctx, i); !errors.Is(err, ErrOpen) || errors.Is(err, fabric.ErrRefused) ||
		errors.Is(err, fabric.ErrResisted) {
		t.Errorf("open: %v", err)
	}
	if seen, _ := f.Observe(ctx); len(fabric.Compare(i, seen)) != 1 || seen[a].Entries[0] != 0xffff {
		t.Errorf("open: %v", seen)
	}
	f.FailOpen(false)
	if err := f.Apply(ctx, i); err != nil {
		t.Errorf("healed: %v", err)
	}

	full := errors.New("the link to the manager is down")
	f.Refuse(full)
	if err := f.Apply(ctx, fabric.Intent{Managers: i.Managers}); !errors.Is(err, fabric.ErrRefused) || !errors.Is(err, full) {
		t.Errorf("refusing: %v", err)
	}
	f.Refuse(nil)
	if n, last := f.Applied(); n != 1 || len(last.Partitions) != 1 {
		t.Errorf("%d intents were taken, the last one %v", n, last)
	}

	f.Slow(time.Hour)
	ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if err := f.Apply(ctx, i); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("slow: %v", err)
	}
}
