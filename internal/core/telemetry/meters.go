package telemetry

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// meters are what is counted as it happens. Labels are words of the program or things that operators name (networks),
// never clusters, nodes or machines, whose number has no bound; docs/observe.md lists them all.
type meters struct {
	stays        *prometheus.HistogramVec // kind, phase
	failures     *prometheus.CounterVec   // kind, phase, cause
	steps        *prometheus.CounterVec   // kind, phase, result
	stepSeconds  *prometheus.HistogramVec // kind
	callSeconds  *prometheus.HistogramVec // driver, call
	callFailures *prometheus.CounterVec   // driver, call
	boots        *prometheus.HistogramVec // substrate, step

	requests       *prometheus.CounterVec   // operation, status
	requestSeconds *prometheus.HistogramVec // operation
	streams        *prometheus.GaugeVec     // operation

	jobs *prometheus.CounterVec // result

	agents       *prometheus.CounterVec   // call, status
	agentSeconds *prometheus.HistogramVec // call

	transactions *prometheus.HistogramVec // mode
	rows         *prometheus.CounterVec   // mode
	retries      *prometheus.CounterVec   // mode
	dbFailures   *prometheus.CounterVec   // mode

	leases    *prometheus.CounterVec // network, result
	sent      *prometheus.CounterVec // network, protocol
	transfers *prometheus.CounterVec // network, protocol, result
}

// Bounds of the histograms, in seconds. A phase lasts from milliseconds (a free machine is taken) to many minutes
// (firmware); a call of the API or of the database is quick, or something is wrong.
var (
	phaseBounds = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600, 1800}
	callBounds  = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}
	dbBounds    = []float64{0.0002, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5}
)

func newMeters() meters {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "muster_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, bounds []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "muster_" + name, Help: help, Buckets: bounds}, labels)
	}
	return meters{
		stays: histogram("phase_seconds", "How long those of a kind were in a phase, observed when they leave it.",
			phaseBounds, "kind", "phase"),
		failures: counter("failures_total",
			"Those of a kind that failed (what is degraded or in quarantine, too), by the phase they were in and the cause.",
			"kind", "phase", "cause"),
		steps: counter("engine_steps_total",
			"Handlers that have run, by what came of it: advanced, waits, retries, late (the phase's deadline had passed), "+
				"fenced (another controller had the row), lost (it could not be written).",
			"kind", "phase", "result"),
		stepSeconds: histogram("engine_step_seconds", "How long a handler ran, its commit included.", callBounds, "kind"),
		callSeconds: histogram("driver_call_seconds", "How long calls of the drivers took that make nodes and look at machines.",
			callBounds, "driver", "call"),
		callFailures: counter("driver_failures_total", "Calls of drivers that failed.", "driver", "call"),
		boots: histogram("boot_step_seconds", "How long what boots took to each step, since the step before.", phaseBounds,
			"substrate", "step"),

		requests: counter("api_requests_total", "Answered requests of the API, by operation and HTTP status.", "operation",
			"status"),
		requestSeconds: histogram("api_request_seconds",
			"How long the API took to answer; watches, tunnels and terminals are left out.", callBounds, "operation"),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "muster_api_streams",
			Help: "Watches, tunnels and terminals that are open."},
			[]string{"operation"}),

		jobs: counter("jobs_ended_total", "Jobs of clusters that have ended, by how.", "result"),

		agents: counter("agent_requests_total", "Answered calls of the nodes' agents, by HTTP status.", "call", "status"),
		agentSeconds: histogram("agent_request_seconds", "How long it took to answer an agent; for config this is a long poll.",
			callBounds, "call"),

		transactions: histogram("store_transaction_seconds",
			"How long transactions took, from their begin to the end of their commit.", dbBounds, "mode"),
		rows: counter("store_rows_total", "Rows that transactions have read.", "mode"),
		retries: counter("store_retries_total", "Transactions that lost against a concurrent one and were run again.",
			"mode"),
		dbFailures: counter("store_failures_total", "Transactions that the database failed.", "mode"),

		leases: counter("netboot_leases_total",
			"Answers to machines that ask for an address: offered, granted, unknown, taken, full, declined, kept, failed; "+
				"and packets that got none: forged, limited.", "network", "result"),
		sent: counter("netboot_sent_bytes_total", "Bytes of files sent to machines that boot.", "network", "protocol"),
		transfers: counter("netboot_transfers_total", "Files sent to machines that boot: done, or broken before their end.",
			"network", "protocol", "result"),
	}
}

func (m meters) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.stays, m.failures, m.steps, m.stepSeconds, m.callSeconds, m.callFailures, m.boots, m.requests, m.requestSeconds,
		m.streams,
		m.jobs, m.agents, m.agentSeconds, m.transactions, m.rows, m.retries, m.dbFailures, m.leases, m.sent, m.transfers,
	}
}

// Transaction tells of one that has ended: mode is read or write, rows how many it read, again how often it was repeated.
func (t *Telemetry) Transaction(mode string, began time.Time, rows, again int, failed bool) {
	if t == nil {
		return
	}
	t.meters.transactions.WithLabelValues(mode).Observe(time.Since(began).Seconds())
	t.meters.rows.WithLabelValues(mode).Add(float64(rows))
	if again > 0 {
		t.meters.retries.WithLabelValues(mode).Add(float64(again))
	}
	if failed {
		t.meters.dbFailures.WithLabelValues(mode).Inc()
	}
}

// Agent tells that an agent's call was answered.
func (t *Telemetry) Agent(call string, status int, began time.Time) {
	if t == nil {
		return
	}
	t.meters.agents.WithLabelValues(call, strconv.Itoa(status)).Inc()
	t.meters.agentSeconds.WithLabelValues(call).Observe(time.Since(began).Seconds())
}

// JobEnded tells that a cluster's job has ended, and how.
func (t *Telemetry) JobEnded(result string) {
	if t != nil {
		t.meters.jobs.WithLabelValues(result).Inc()
	}
}

// BootStep tells that a node or machine has reached a step of its boot, so long after the step before.
func (t *Telemetry) BootStep(substrate, step string, after time.Duration) {
	if t != nil {
		t.meters.boots.WithLabelValues(substrate, step).Observe(after.Seconds())
	}
}

// Lease tells how a machine that asked for an address was answered.
func (t *Telemetry) Lease(network, result string) {
	if t != nil {
		t.meters.leases.WithLabelValues(network, result).Inc()
	}
}

// Sent tells that a file, or a part of it, went to a machine; whole says that all of what was asked for did.
func (t *Telemetry) Sent(network, protocol string, bytes int64, whole bool) {
	if t == nil {
		return
	}
	result := "done"
	if !whole {
		result = "broken"
	}
	t.meters.transfers.WithLabelValues(network, protocol, result).Inc()
	t.meters.sent.WithLabelValues(network, protocol).Add(float64(bytes))
}
