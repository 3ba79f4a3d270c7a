package serve

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	apiv1 "muster/api/v1"
	"muster/internal/api"
	"muster/internal/core"
	"muster/internal/core/telemetry"
	"muster/internal/monitor"
	"muster/internal/protocol"
)

// openTelemetry begins before anything else, so that nothing is missed.
func (k *controller) openTelemetry() (err error) {
	k.telemetry = telemetry.New(k.Version)
	k.Log = slog.New(telemetry.Lines(k.Log.Handler()))
	if k.Metrics != "" {
		if k.metrics, err = net.Listen("tcp", k.Metrics); err != nil {
			return fmt.Errorf("listen for whoever reads the metrics: %w", err)
		}
	}
	if k.Traces == "" {
		return nil
	}
	return k.telemetry.OpenTraces(k.Traces, k.owner, k.Version, func(err error) {
		k.Log.Warn("traces cannot be delivered", "error", err)
	})
}

// checkWithin bounds the checks of one scrape.
const checkWithin = 2 * time.Second

// flushWithin bounds how long the end of a controller waits for its last traces.
const flushWithin = 3 * time.Second

func (k *controller) closeTelemetry() {
	if k.metrics != nil {
		_ = k.metrics.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushWithin)
	defer cancel()
	if err := k.telemetry.Close(ctx); err != nil {
		k.Log.Warn("the last traces are lost", "error", err)
	}
}

// probes is what is read without a token, on an address of its own.
func (k *controller) probes(users *api.API) http.Handler {
	mux := http.NewServeMux()
	users.Probes(mux)
	mux.Handle("GET /metrics", k.telemetry.Handler())
	return mux
}

// about is what this controller says of itself.
func (k *controller) about(engine *core.Engine, y *networks) api.About {
	return api.About{
		Name:   k.owner,
		Since:  time.Now().UTC(),
		Alarms: func(ctx context.Context) []apiv1.Alarm { return append(y.alarms(), k.diskAlarms(ctx)...) },
		Checks: func(ctx context.Context) []protocol.Check {
			return []protocol.Check{k.databaseCheck(ctx), engineCheck(engine), k.agentsCheck(ctx)}
		},
	}
}

// localRoot says who root of a node on this host is for the host.
func (k *controller) localRoot(ctx context.Context) (string, error) {
	own, why, err := k.shared.OwnUsers(ctx)
	if own {
		return "nobody: nodes have user namespaces of their own, heads that serve /home excepted", err
	}
	return "the host's root: " + why, err
}

func (k *controller) databaseCheck(ctx context.Context) protocol.Check {
	began := time.Now()
	err := k.db.View(ctx, func(tx *core.Tx) error { _, err := tx.Now(ctx); return err })
	if err != nil {
		return protocol.Check{Name: "database", Text: "does not answer"}
	}
	return protocol.Check{Name: "database", OK: true,
		Text: fmt.Sprintf("answered in %s", time.Since(began).Round(10*time.Microsecond))}
}

// engineHangs is how long ago an engine that works may have looked for work last; it looks twice a second at least.
const engineHangs = 5 * time.Second

func engineCheck(e *core.Engine) protocol.Check {
	now, most := e.Running()
	ago := time.Since(e.Looked())
	if ago > engineHangs {
		return protocol.Check{Name: "engine", Text: "has not looked for work for more than " + engineHangs.String()}
	}
	return protocol.Check{Name: "engine", OK: true, Text: fmt.Sprintf("looked for work %s ago; %d of at most %d handlers run",
		ago.Round(time.Millisecond), now, most)}
}

// agentsCheck connects to the socket of the agents on this host.
func (k *controller) agentsCheck(ctx context.Context) protocol.Check {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", k.socket())
	if err != nil {
		return protocol.Check{Name: "agents", Text: "cannot reach the controller on this host"}
	}
	_ = conn.Close()
	return protocol.Check{Name: "agents", OK: true, Text: "their socket is open"}
}

// registerMetrics adds what is looked up at the moment of a scrape.
func (k *controller) registerMetrics(engine *core.Engine, y *networks, about api.About) {
	gauge := func(name, help string, value func() float64) {
		k.telemetry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	k.telemetry.Register(monitor.NewMetrics(k.db))
	gauge("muster_engine_handlers", "Handlers that this controller runs now.", func() float64 {
		now, _ := engine.Running()
		return float64(now)
	})
	gauge("muster_networks_unserved", "Networks whose machines this controller cannot serve.", func() float64 {
		return float64(len(y.alarms()))
	})
	gauge("muster_disk_left_bytes",
		"Bytes that clusters may still write to the data directory's disk before its reserve; below 0: they may not.",
		func() float64 {
			if k.shared == nil {
				return 0
			}
			ctx, cancel := context.WithTimeout(context.Background(), checkWithin)
			defer cancel()
			left, _, err := k.shared.Room(ctx)
			if err != nil {
				return 0
			}
			return float64(left)
		})
	gauge("muster_ready", "1 if this controller is of use, as /readyz says.", func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), checkWithin)
		defer cancel()
		for _, check := range about.Checks(ctx) {
			if !check.OK {
				return 0
			}
		}
		return 1
	})
}

// trouble notes why the machines of a network are not served; "" that they are.
func (y *networks) trouble(network, why string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if why == "" {
		delete(y.troubles, network)
	} else {
		y.troubles[network] = why
	}
}

// alarms are the networks whose machines this controller cannot serve.
func (y *networks) alarms() []apiv1.Alarm {
	y.mu.Lock()
	defer y.mu.Unlock()
	var all []apiv1.Alarm
	for _, network := range slices.Sorted(maps.Keys(y.troubles)) {
		all = append(all, apiv1.Alarm{Name: "network-down", Text: fmt.Sprintf("machines of network %s are not served: %s",
			network, y.troubles[network])})
	}
	return all
}
