package telemetry

import "github.com/prometheus/client_golang/prometheus"

// connectionMeters are the meters of what limits connections and requests.
type connectionMeters struct {
	open    *prometheus.GaugeVec   // door
	refused *prometheus.CounterVec // door, limit
}

func newConnectionMeters() connectionMeters {
	return connectionMeters{
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "muster_connections",
			Help: "Connections that are open, by door: api, control, metrics, agents, host, guests, web, ssh."},
			[]string{"door"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "muster_limited_total",
			Help: "Connections that had to go, or requests that were refused, by the limit that was reached: address, door, " +
				"doors (all of a kind together), person, all."}, []string{"door", "limit"}),
	}
}

func (g connectionMeters) all() []prometheus.Collector {
	return []prometheus.Collector{g.open, g.refused}
}

// Connections tells of a door's connections that came or went.
func (t *Telemetry) Connections(door string, change int) {
	if t != nil {
		t.connectionMeters.open.WithLabelValues(door).Add(float64(change))
	}
}

// Refused tells that a door's limit was reached.
func (t *Telemetry) Refused(door, limit string) {
	if t != nil {
		t.connectionMeters.refused.WithLabelValues(door, limit).Inc()
	}
}
