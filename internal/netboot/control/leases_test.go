package control_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/network"
	"muster/internal/netboot"
	"muster/internal/netboot/control"
)

// Two controllers offer the same address to two machines; the one that asks for it first has it, and the other begins again.
func TestAnAddressThatTwoControllersOfferedIsGivenOnce(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		here := newTestbed(t, url, inventory.UnknownEnrol)
		there := &testbed{t, &control.Controller{DB: here.DB, Authority: here.Authority, Images: oneImage{}}, here.machine}
		const mine, yours = "52:54:00:00:01:01", "52:54:00:00:01:02"
		address, err := here.ask(mine, false, "")
		if err != nil {
			t.Fatal(err)
		}
		if same, err := there.ask(yours, false, ""); same != address || err != nil {
			t.Fatalf("offered %s here and %s there, %v: there is nothing to test", address, same, err)
		}
		if got, err := there.ask(yours, true, address); got != address || err != nil {
			t.Fatalf("%s, %v", got, err)
		}
		if _, err := here.ask(mine, true, address); !errors.Is(err, netboot.ErrTaken) {
			t.Errorf("given a second time: %v", err)
		}
		if got, err := there.ask(yours, true, address); got != address || err != nil {
			t.Errorf("its first owner renews it: %s, %v", got, err)
		}
		if other, err := here.ask(mine, false, ""); other == address || err != nil {
			t.Errorf("the other is offered %s again, %v", other, err)
		}
	})
}

// A batch is answered as its wishes would be one after the other.
func TestABatchIsAnsweredInOrder(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		y := newTestbed(t, url, inventory.UnknownEnrol) // of three addresses
		var looks, takes []netboot.Ask
		for i := range 4 {
			looks = append(looks, netboot.Ask{MAC: mac(fmt.Sprintf("52:54:00:00:01:%02x", i)), For: time.Hour})
		}
		offered, err := y.Leases(t.Context(), "boot", looks)
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range offered {
			if g.Err != nil { // the fourth is offered what another is, too
				t.Fatalf("offer %d of 3: %+v", i, g)
			}
			take := looks[i]
			take.Commit, take.Want = true, offered[min(i, 2)].Lease.Address // the last wants what the third has
			takes = append(takes, take, take)                               // a client may repeat itself
		}
		given, err := y.Leases(t.Context(), "boot", takes)
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range given {
			if last := i >= 6; last != (g.Err != nil) || !last && g.Lease.Address != takes[i].Want {
				t.Errorf("request %d: %+v", i, g)
			}
		}
		var rows int
		err = y.DB.View(t.Context(), func(tx *core.Tx) error {
			leases, err := network.LeasesOf(context.Background(), tx, "boot",
				[]string{"52:54:00:00:01:00", "52:54:00:00:01:01", "52:54:00:00:01:02", "52:54:00:00:01:03"}, nil)
			rows = len(leases)
			return err
		})
		if err != nil || rows != 3 {
			t.Errorf("%d leases are written, %v", rows, err)
		}
	})
}
