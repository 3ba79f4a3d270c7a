package serve

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"muster/internal/kinds/kindstest"
)

// TestAControllerWithNothingToDoRests: what it costs to wait is what its queries cost. This is a bound from above, which a
// busy machine can only keep the better.
func TestAControllerWithNothingToDoRests(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a controller needs root")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready := make(chan struct{})
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	k, err := assemble(ctx, Config{
		Data: t.TempDir(), Listen: "127.0.0.1:0", Binary: binary, Version: "test",
		Log: slog.New(slog.DiscardHandler), Ready: func(string) { close(ready) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	ended := make(chan error, 1)
	go func() { ended <- k.run(ctx) }()
	<-ready
	since := kindstest.Costs(t, k.db)
	began := time.Now()
	time.Sleep(5 * time.Second)
	cost, seconds := since(), time.Since(began).Seconds()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if reads := float64(cost.Reads) / seconds; reads > 10 {
		t.Errorf("%.1f looks at the database a second", reads)
	}
	if writes := float64(cost.Writes) / seconds; writes > 4 {
		t.Errorf("%.1f transactions that write a second", writes)
	}
	t.Logf("in %.1f s: %+v", seconds, cost)
}
