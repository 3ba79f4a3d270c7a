// Command muster-rack is the process of a virtual rack: `muster rack up` starts it with the path of the rack's folder.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"muster/internal/rack"
	"muster/internal/rack/rackd"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: muster-rack DIR\nmuster rack up makes the folder, and starts this program")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := rackd.Run(ctx, rack.Folder(os.Args[1]), slog.New(slog.NewTextHandler(os.Stderr, nil)))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
