// Muster turns racks of machines into self-service HPC clusters.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"muster/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
