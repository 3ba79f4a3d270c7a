package serve

import (
	"context"
	"log/slog"
	"os"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/hostd"
	"muster/internal/hostd/beside"
	"muster/internal/hostd/calls"
	"muster/internal/kit/clock"
)

// startAgent starts the agent of this host, which opens the substrates that are its own, and returns it as one calls it. It ends
// with the controller, whatever becomes of that; nodes go on running.
func (k *controller) startAgent(ctx context.Context, env substrate.Env) (*calls.Agent, error) {
	name, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	site := env.Site
	settings := hostd.Settings{
		Dir:      k.Data,
		Images:   k.dir.images(),
		Binary:   env.Binary,
		Sockets:  env.Sockets,
		Host:     env.Host,
		Home:     site.HomeBytes,
		Layers:   site.Layers,
		Reserve:  site.Reserve,
		Nodes:    site.Nodes,
		LogLevel: levelOf(ctx, k.Log),
		LogJSON:  k.LogFormat == "json",
	}
	for _, f := range k.admission.Substrates {
		if f.ByAgent {
			settings.Substrates = append(settings.Substrates, f.Name)
		}
	}
	program, err := beside.New([]string{k.Binary, hostd.Verb}, settings, k.Log)
	if err != nil {
		return nil, err
	}
	agent := calls.NewAgent(name, program.Connect)
	living, end := context.WithCancel(context.Background()) // after all that calls it
	k.endAgents = append(k.endAgents, end)
	started := make(chan error, 1)
	k.agents.Go(func() { program.Run(living, func(err error) { started <- err }) })
	select {
	case err = <-started:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	k.agents.Go(func() { k.hear(living, agent, env.Notices) })
	return agent, nil
}

// hearAgain is how long it is until an agent that was not heard is asked again for what it says.
const hearAgain = time.Second

// hear writes down what the drivers of a host say.
func (k *controller) hear(ctx context.Context, agent *calls.Agent, notices substrate.Notices) {
	for ctx.Err() == nil {
		if err := agent.Hear(ctx, notices); ctx.Err() == nil {
			k.Log.Debug("the agent of a host is asked again for what it says", "error", err)
		}
		_ = clock.Sleep(ctx, hearAgain)
	}
}

// levelOf is from where on a log is written.
func levelOf(ctx context.Context, log *slog.Logger) slog.Level {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		if log.Enabled(ctx, level) {
			return level
		}
	}
	return slog.LevelError
}
