package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	apiv1 "muster/api/v1"
	"muster/internal/api"
	"muster/internal/core"
	"muster/internal/core/telemetry"
	"muster/internal/door/agents"
	"muster/internal/monitor"
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
func (k *controller) about(engine *core.Engine, doors *agents.Doors) api.About {
	return api.About{
		Name:  k.owner,
		Since: time.Now().UTC(),
		Alarms: func(ctx context.Context) []apiv1.Alarm {
			all := k.diskAlarms(ctx)
			for network, trouble := range doors.Unserved() {
				all = append(all, apiv1.Alarm{ID: k.host + ":" + network, Name: "network-down", Since: &trouble.Since,
					Text: fmt.Sprintf("machines of network %s are not served: %s", network, trouble.Why)})
			}
			return all
		},
		Engine: engine,
		Agents: k.socket(),
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

// registerMetrics adds what is looked up at the moment of a scrape.
func (k *controller) registerMetrics(engine *core.Engine, doors *agents.Doors, about api.About) {
	gauge := func(name, help string, value func() float64) {
		k.telemetry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	k.telemetry.Register(monitor.NewMetrics(k.db))
	gauge("muster_engine_handlers", "Handlers that this controller runs now.", func() float64 {
		now, _ := engine.Running()
		return float64(now)
	})
	gauge("muster_networks_unserved", "Networks whose machines this controller cannot serve.", func() float64 {
		return float64(len(doors.Unserved()))
	})
	gauge("muster_disk_left_bytes",
		"Bytes that clusters may still write to the data directory's disk before its reserve; below 0: they may not.",
		func() float64 {
			if k.shared == nil {
				return 0
			}
			left, _, _ := k.shared.Room(context.Background()) // 0 of a disk that cannot be looked at
			return float64(left)
		})
	gauge("muster_ready", "1 if this controller is of use, as /readyz says.", func() float64 {
		if about.Ready(context.Background(), k.db).Ready {
			return 1
		}
		return 0
	})
}
