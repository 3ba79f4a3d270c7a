package hostd

import (
	"context"
	"io"
	"log/slog"

	"muster/internal/drivers/substrate"
	"muster/internal/hostd/beside"
)

// Verb is the word after a program's name with which a controller starts it as the agent of its host.
const Verb = "host"

// Beside is the agent of a host whose controller has started this program. It returns when that has gone.
func Beside(ctx context.Context, all substrate.Registry, lines io.Writer) error {
	var s Settings
	controllers, err := beside.Listen(&s)
	if err != nil {
		return err
	}
	defer controllers.Close()
	options := &slog.HandlerOptions{Level: s.LogLevel}
	log := slog.New(slog.NewTextHandler(lines, options))
	if s.LogJSON {
		log = slog.New(slog.NewJSONHandler(lines, options))
	}
	agent, err := OpenAgent(ctx, s, all, log)
	if told := controllers.Ready(err); err != nil || told != nil {
		return told // the controller says why
	}
	return agent.Serve(ctx, controllers)
}
