package limit_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"muster/internal/kit/limit"
)

// have has something for as long as it takes, and gives it back.
func have(t *testing.T, turns *limit.Turns, who string, took time.Duration, told chan<- string) {
	t.Helper()
	leave, err := turns.Take(t.Context(), who)
	if err != nil {
		t.Error(err)
		return
	}
	time.Sleep(took)
	told <- who
	leave()
}

func TestWhoHasHadLeastIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, told := &limit.Turns{Places: 1}, make(chan string, 100)
		for range 20 {
			go have(t, turns, "greedy", time.Second, told)
		}
		synctest.Wait()
		for range 3 {
			go have(t, turns, "modest", time.Millisecond, told)
		}
		time.Sleep(time.Minute)
		synctest.Wait() // until all have told
		close(told)
		var order []string
		for who := range told {
			order = append(order, who)
		}
		if want := []string{"greedy", "modest", "modest", "modest"}; len(order) != 23 || !slices.Equal(order[:4], want) {
			t.Error(order)
		}
	})
}

// What somebody has had is forgotten, also where that is longer ago than numbers count.
func TestTurnsAreForgotten(t *testing.T) {
	for _, later := range []time.Duration{time.Minute, time.Hour, 1000 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			turns, told := &limit.Turns{Places: 1}, make(chan string, 100)
			have(t, turns, "once", 10*time.Second, told)
			time.Sleep(later)
			have(t, turns, "now", time.Second, told)
			leave, err := turns.Take(t.Context(), "third")
			if err != nil {
				t.Fatal(err)
			}
			go have(t, turns, "now", time.Second, told)
			synctest.Wait()
			go have(t, turns, "once", time.Second, told)
			synctest.Wait()
			leave()
			time.Sleep(time.Minute)
			<-told
			<-told
			if first := <-told; first != "once" {
				t.Errorf("%s later, %s is next", later, first)
			}
		})
	}
}

func TestATurnThatNobodyWaitsForAnyMoreIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, told := &limit.Turns{Places: 1}, make(chan string, 100)
		leave, err := turns.Take(t.Context(), "first")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := turns.Take(ctx, "second")
			gone <- err
		}()
		synctest.Wait()
		go have(t, turns, "third", time.Second, told)
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		leave()
		if who := <-told; who != "third" {
			t.Error(who)
		}
		synctest.Wait()
		for range 2 { // nothing is lost
			have(t, turns, "again", time.Second, told)
		}
	})
}

// Who had all places at once kept everybody out until the first of them was free.
func TestNobodyHasMoreThanHalfOfThePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, told := &limit.Turns{Places: 4}, make(chan string, 100)
		for range 20 {
			go have(t, turns, "greedy", time.Minute, told)
		}
		synctest.Wait()
		if waiting := turns.Waiting(); waiting != 18 {
			t.Errorf("%d of 20 wait", waiting)
		}
		began := time.Now()
		for range 2 {
			have(t, turns, "modest", time.Second, told)
		}
		for range 2 { // for all
			go have(t, turns, "", time.Second, told)
		}
		synctest.Wait()
		if took := time.Since(began); took > 2*time.Second || turns.Waiting() != 18 {
			t.Errorf("others waited for %v, and %d wait now", took, turns.Waiting())
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if len(told) != 24 || turns.Waiting() > 0 {
			t.Errorf("%d turns have ended, and %d wait", len(told), turns.Waiting())
		}
	})
}
