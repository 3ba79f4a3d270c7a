package telemetry

import "github.com/prometheus/client_golang/prometheus"

// doors are the meters of the SSH gateway.
type doors struct {
	handshakes *prometheus.CounterVec // result
	sessions   *prometheus.GaugeVec   // kind
	bytes      *prometheus.CounterVec // mode
}

func newDoors() doors {
	return doors{
		handshakes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "muster_gateway_handshakes_total",
			Help: "SSH connections that came to the gateway: let in, no key (nobody's), too slow, made room (while many " +
				"knocked), broken."}, []string{"result"}),
		sessions: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "muster_gateway_sessions",
			Help: "Sessions through the SSH gateway that are open, by the kind of place."}, []string{"kind"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "muster_gateway_bytes_total",
			Help: "Bytes of SSH connections through the gateway, counted when a session ends: received from people, sent " +
				"to them."}, []string{"mode"}),
	}
}

func (d doors) all() []prometheus.Collector {
	return []prometheus.Collector{d.handshakes, d.sessions, d.bytes}
}

// Handshake tells of an SSH connection that was let in or not.
func (t *Telemetry) Handshake(result string) {
	if t != nil {
		t.doors.handshakes.WithLabelValues(result).Inc()
	}
}

// SessionBegan tells of a session through the gateway.
func (t *Telemetry) SessionBegan(kind string) {
	if t != nil {
		t.doors.sessions.WithLabelValues(kind).Inc()
	}
}

// SessionEnded tells of its end, and of the bytes that it carried.
func (t *Telemetry) SessionEnded(kind string, received, sent int64) {
	if t != nil {
		t.doors.sessions.WithLabelValues(kind).Dec()
		t.doors.bytes.WithLabelValues("received").Add(float64(received))
		t.doors.bytes.WithLabelValues("sent").Add(float64(sent))
	}
}
