package monitor

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muster/internal/core"
	"muster/internal/kinds"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/netboot/control"
	"muster/internal/protocol"
)

// countWithin bounds the look at the database for one scrape.
const countWithin = 5 * time.Second

// metrics are what is counted in the database at the moment of a scrape. Every replica sees the same.
type metrics struct {
	db *core.Store

	up, entities, oldest, due, lag, held, projectClusters, projectNodes, heard, silent, unknown, worse,
	jobs *prometheus.Desc
}

// NewMetrics makes the collector of what the database knows.
func NewMetrics(db *core.Store) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("muster_"+name, help, labels, nil)
	}
	return metrics{
		db:       db,
		up:       desc("database_up", "1 if the database answered this scrape; if not, what is counted in it is missing."),
		entities: desc("entities", "How many of a kind are in a phase.", "kind", "phase"),
		oldest: desc("phase_oldest_seconds",
			"How long the one has been in a phase that has been there the longest; 0 if there is none.", "kind", "phase"),
		due:             desc("engine_due_rows", "Rows whose time has come and that no controller works on yet.", "kind"),
		lag:             desc("engine_lag_seconds", "How long the oldest of the due rows has waited.", "kind"),
		held:            desc("engine_held_rows", "Rows that some controller works on.", "kind"),
		projectClusters: desc("project_clusters", "Clusters of a project.", "project"),
		projectNodes:    desc("project_nodes", "Nodes of a project's clusters, heads included.", "project"),
		heard: desc("heartbeat_age_max_seconds",
			"How long the ready node has said nothing that has been silent the longest."),
		jobs:    desc("jobs", "Jobs that are running or pending, as the heads of clusters told last.", "state"),
		silent:  desc("nodes_silent", "Ready nodes that have said nothing for 20 s or longer."),
		unknown: desc("machines_unknown", "Machines that asked to boot and that nobody has enrolled."),
		worse: desc("benchmarks_worse",
			"Quantities of clusters, machines and classes that runs find worse than they were, and that nobody has accepted."),
	}
}

func (m metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.up, m.entities, m.oldest, m.due, m.lag, m.held, m.projectClusters, m.projectNodes,
		m.heard, m.silent, m.unknown, m.worse, m.jobs} {
		to <- d
	}
}

func (m metrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), countWithin)
	defer cancel()
	c, err := core.Look(ctx, m.db, func(tx *core.Tx) (kinds.Census, error) { return kinds.Count(ctx, tx) })
	if err != nil { // the log of those who need the database says why
		gauge(m.up, 0)
		return
	}
	gauge(m.up, 1)
	for _, d := range m.db.Living() {
		kind := string(d.Kind)
		for _, phase := range d.Phases {
			gauge(m.entities, float64(c.Phases[d.Kind][phase]), kind, string(phase))
			gauge(m.oldest, c.Oldest[d.Kind][phase].Seconds(), kind, string(phase))
		}
		gauge(m.due, float64(c.Queues[d.Kind].Due), kind)
		gauge(m.lag, c.Queues[d.Kind].Lag.Seconds(), kind)
		gauge(m.held, float64(c.Queues[d.Kind].Held), kind)
	}
	for project, has := range c.Projects {
		gauge(m.projectClusters, float64(has.Clusters), project)
		gauge(m.projectNodes, float64(has.Nodes), project)
	}
	gauge(m.heard, c.Heard.Oldest.Seconds())
	gauge(m.silent, float64(c.Heard.Silent.N))
	gauge(m.unknown, float64(c.Unknown.N))
	gauge(m.worse, float64(c.Worse.N))
	gauge(m.jobs, float64(c.Jobs.Running), "running")
	gauge(m.jobs, float64(c.Jobs.Pending), "pending")
}

// counted tells of every call of an agent and how it was answered.
func (m *Monitor) counted(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, answer := time.Now(), &answered{w, http.StatusOK}
		mux.ServeHTTP(answer, r)
		if r.Context().Err() != nil {
			return // the agent has gone, and got none
		}
		call := "none"
		if r.Pattern != "" { // the last word of the path: join, config, report …
			call = r.Pattern[strings.LastIndex(r.Pattern, "/")+1:]
		}
		m.Telemetry.Agent(call, answer.status, began)
	})
}

// answered remembers the status of an answer.
type answered struct {
	http.ResponseWriter
	status int
}

func (a *answered) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// progressOf measures how long it took until the agent of a node's boot came.
func (m *Monitor) progressOf(ctx context.Context, tx *core.Tx, node node.Node, renewal bool) (control.Progress, error) {
	if renewal || node.JoinedBoot == node.Boot {
		return control.Progress{}, nil
	}
	boot, err := machine.BootOf(ctx, tx, node.ID)
	if err == nil {
		return control.ProgressTo(ctx, tx, boot, protocol.StepAgent)
	}
	if !errors.Is(err, core.ErrNotFound) {
		return control.Progress{}, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return control.Progress{}, err
	}
	machine, err := machine.Get(ctx, tx, node.MachineID)
	return control.Progress{Substrate: machine.Substrate, Step: protocol.StepAgent, Took: now.Sub(node.PhaseAt)}, err
}
