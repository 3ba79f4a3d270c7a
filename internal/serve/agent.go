package serve

import (
	"context"

	"muster/internal/drivers/substrate"
	"muster/internal/hostd"
	"muster/internal/hostd/beside"
	"muster/internal/hostd/calls"
)

// startAgent starts the agent of this host, which opens the substrates that are its own, and returns it as one calls it. It ends
// with the controller, whatever becomes of that; nodes go on running.
func (k *controller) startAgent(ctx context.Context, env substrate.Env) (*calls.Agent, error) {
	site := env.Site
	settings := hostd.Settings{
		Dir:      k.Data,
		Images:   k.dir.Images(),
		Binary:   env.Binary,
		Sockets:  env.Sockets,
		Host:     env.Host,
		Home:     site.HomeBytes,
		Layers:   site.Layers,
		Reserve:  site.Reserve,
		Nodes:    site.Nodes,
		LogLevel: hostd.LevelOf(ctx, k.Log),
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
	agent := calls.NewAgent(k.host, program.Connect)
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
	k.agents.Go(func() { agent.Hear(living, env.Notices, k.Log) })
	return agent, nil
}
