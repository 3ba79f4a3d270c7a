package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
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

// Probes adds what tools ask that watch over a controller. Nobody needs a token for it, and nothing in it is secret.
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
		Clusters:  map[string]int{}, Nodes: map[string]int{}, Machines: map[string]int{}, Alarms: []apiv1.Alarm{},
	}
	var c kinds.Census
	err := a.DB.View(ctx, func(tx *core.Tx) (err error) {
		standing, err := host.Alarms(ctx, tx)
		if err != nil {
			return err
		}
		for _, alarm := range standing {
			s.Alarms = append(s.Alarms, apiv1.Alarm{Name: "nodes-lost", Text: alarm.Text})
		}
		c, err = kinds.Count(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	for kind, counts := range map[core.Kind]map[string]int{cluster.Kind: s.Clusters, node.Kind: s.Nodes,
		machine.Kind: s.Machines} {
		for phase, n := range c.Phases[kind] {
			counts[string(phase)] = n
		}
	}
	for _, q := range c.Queues {
		s.Due += q.Due
		s.Lag = max(s.Lag, q.Lag.Seconds())
	}
	s.Alarms = append(s.Alarms, alarms(c, a.DB.Living())...)
	if a.About.Alarms != nil {
		s.Alarms = append(s.Alarms, a.About.Alarms(ctx)...)
	}
	return &output[apiv1.Status]{Body: s}, nil
}

// lagAlarm is how long due work may wait before it is told: the controllers are too few, or hang.
const lagAlarm = 5 * time.Second

// alarms are what can be seen from the numbers.
func alarms(c kinds.Census, of []core.Definition) []apiv1.Alarm {
	var all []apiv1.Alarm
	add := func(name string, n int, one, more, look string) {
		switch {
		case n == 1:
			all = append(all, apiv1.Alarm{Name: name, Text: "1 " + one + "; " + look})
		case n > 1:
			all = append(all, apiv1.Alarm{Name: name, Text: fmt.Sprintf("%d %s; %s", n, more, look)})
		}
	}
	for _, k := range of {
		for _, p := range k.Failures {
			if a := k.Alarm; a != nil {
				add(fmt.Sprintf("%ss-%s", k.Kind, p), c.Phases[k.Kind][p], a.One, a.More, a.Look)
			}
		}
	}
	add("nodes-silent", c.Heard.Silent, "ready node says nothing", "ready nodes say nothing",
		"`muster describe CLUSTER` shows when each was last seen")
	add("machines-unknown", c.Unknown, "unknown machine asked to boot", "unknown machines asked to boot",
		"`muster machines unknown` shows them")
	add("benchmarks-worse", c.Worse, "quantity is worse than it was", "quantities are worse than they were",
		"`muster bench changes` shows them")
	for kind, q := range c.Queues {
		if q.Lag > lagAlarm {
			all = append(all, apiv1.Alarm{Name: "engine-lag",
				Text: fmt.Sprintf("work on %ss is %.0f s late; the controllers are busy, or hang", kind, q.Lag.Seconds())})
		}
	}
	return all
}
