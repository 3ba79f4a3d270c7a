package api

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
)

// probe keeps what everybody may ask for a moment, so that many who ask cost no more than few.
type probe struct {
	mu    sync.Mutex
	at    time.Time
	ready apiv1.Readiness
}

const probeLife = 250 * time.Millisecond

func (a *API) ready(ctx context.Context) apiv1.Readiness {
	a.probe.mu.Lock()
	defer a.probe.mu.Unlock()
	if time.Since(a.probe.at) > probeLife {
		a.probe.ready = a.About.Ready(context.WithoutCancel(ctx), a.DB) // bounded by itself; others wait for it
		a.probe.at = time.Now()
	}
	return a.probe.ready
}

// Probes adds what tools ask that watch over a controller. It needs no token, and nothing in it is secret.
func (a *API) Probes(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ready := a.ready(r.Context())
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if !ready.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(ready)
	})
}

// metrics serves them to operators, as they name all projects; a token that only reads is enough.
func (a *API) metrics(w http.ResponseWriter, r *http.Request) {
	caller, p := a.bearer(r.Context(), r.Header.Get("Authorization"))
	if p == nil && !caller.May(access.Survey, "") {
		p = denied(caller, &asked{action: access.Survey, summary: "Read the metrics"})
	}
	if p != nil {
		if p.Status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", challenge)
		}
		writeProblem(w, p)
		return
	}
	a.Telemetry.Handler().ServeHTTP(w, r)
}

func (a *API) status(ctx context.Context, _ *apiv1.Nothing) (*output[apiv1.Status], error) {
	s := apiv1.Status{
		Readiness: a.About.Ready(ctx, a.DB), Site: a.Admission.Catalogue.Site, Version: a.Version, Controller: a.About.Name,
		Since:     a.About.Since,
		LocalRoot: a.About.LocalRoot,
		Alarms:    []apiv1.Alarm{},
	}
	alarms, c, err := a.alarms(ctx)
	if err != nil {
		return nil, err
	}
	s.Clusters, s.Nodes, s.Machines = inPhases(c.Phases)
	for _, q := range c.Queues {
		s.Due += q.Due
		s.Lag = max(s.Lag, q.Lag.Seconds())
	}
	s.Alarms = append(s.Alarms, alarms...)
	return &output[apiv1.Status]{Body: s}, nil
}

// inPhases is how many clusters, nodes and machines are in each phase.
func inPhases(all map[core.Kind]map[core.Phase]int) (clusters, nodes, machines map[string]int) {
	of := func(kind core.Kind) map[string]int {
		counts := map[string]int{}
		for phase, n := range all[kind] {
			counts[string(phase)] = n
		}
		return counts
	}
	return of(cluster.Kind), of(node.Kind), of(machine.Kind)
}

func (a *API) listMoments(ctx context.Context, in *apiv1.ListMomentsInput) (*output[apiv1.List[apiv1.Moment]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Moment]) error {
		day, err := kinds.Day(ctx, tx, time.Duration(in.Step)*time.Minute)
		out.Items = some(each(day, func(m kinds.Moment) apiv1.Moment {
			v := apiv1.Moment{At: m.At, Running: m.Jobs.Running, Pending: m.Jobs.Pending, Due: m.Due,
				Lag: float64(m.LagMS) / 1000}
			v.Clusters, v.Nodes, v.Machines = inPhases(m.Phases)
			return v
		}))
		return err
	})
}
