// Package telemetry makes a controller observable: metrics for Prometheus, traces for OpenTelemetry, and the request number
// that a request's log lines, events and spans share.
//
// What enters: what other packages report of their work. What leaves: a registry to scrape, and spans, if they are wanted. It
// imports none of those packages, so any may report to it. Nothing depends on what is reported: every method of a nil
// *Telemetry does nothing.
package telemetry

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"
)

// Telemetry of one controller.
type Telemetry struct {
	registry         *prometheus.Registry
	meters           meters
	doors            doors
	connectionMeters connectionMeters
	tracer           trace.Tracer                // nil: no traces were asked for
	flush            func(context.Context) error // what is not sent yet
}

// New makes the telemetry of a controller of a version; without traces until OpenTraces.
func New(version string) *Telemetry {
	t := &Telemetry{registry: prometheus.NewRegistry(), meters: newMeters(), doors: newDoors(),
		connectionMeters: newConnectionMeters()}
	t.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	t.registry.MustRegister(t.meters.all()...)
	t.registry.MustRegister(t.doors.all()...)
	t.registry.MustRegister(t.connectionMeters.all()...)
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "muster_build_info", Help: "Always 1; the label says which version this controller is.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	t.registry.MustRegister(build)
	return t
}

// Register adds what is counted at the moment of a scrape.
func (t *Telemetry) Register(c prometheus.Collector) {
	if t != nil {
		t.registry.MustRegister(c)
	}
}

// Registry is what a scrape sees.
func (t *Telemetry) Registry() *prometheus.Registry { return t.registry }

// scrapeWithin bounds one scrape, and scrapes how many there may be at a time: each reads the database.
const (
	scrapeWithin = 10 * time.Second
	scrapes      = 3
)

// Handler serves the metrics. A part that cannot be counted is left out rather than hiding the rest.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: scrapes, Timeout: scrapeWithin,
	})
}
