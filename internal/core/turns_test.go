package core_test

import (
	"sync"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/kindstest"
)

// TestWhoHasWrittenLeastIsNext: somebody's many or long transactions make no other caller wait for all of them.
func TestWhoHasWrittenLeastIsNext(t *testing.T) {
	s := kindstest.Open(t, t.TempDir()+"/db")
	write := func(who string, f func()) {
		if err := s.Update(core.For(t.Context(), who), func(*core.Tx) error {
			f()
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	var all sync.WaitGroup
	order, begun, release := make(chan string, 100), make(chan struct{}), make(chan struct{})
	write("greedy", func() { time.Sleep(100 * time.Millisecond) })
	all.Go(func() {
		write("greedy", func() {
			close(begun)
			<-release
		})
	})
	<-begun
	for range 20 {
		all.Go(func() { write("greedy", func() { order <- "greedy" }) })
	}
	for s.Waiting() < 20 {
		time.Sleep(time.Millisecond)
	}
	all.Go(func() { write("modest", func() { order <- "modest" }) })
	for s.Waiting() < 21 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	all.Wait()
	if first := <-order; first != "modest" {
		t.Errorf("%s came first", first)
	}
}
