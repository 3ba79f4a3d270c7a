package rackd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"muster/internal/rack"
)

// asRack makes this test program a rack's process, as cmd/muster-rack is.
const asRack = "be-the-rack-in"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == asRack {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err := Run(ctx, rack.Folder(os.Args[2]), slog.New(slog.NewTextHandler(os.Stderr, nil)))
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
