package monitor

import (
	"net/http"
	"sync"

	"muster/internal/core"
	"muster/internal/identity"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/job"
	"muster/internal/protocol"
)

// jobsLimit is how long what a head tells of jobs may be, in bytes: as many as it may tell of, if they are usual ones.
const jobsLimit = 8 << 20

// toldJobs keeps what a head tells of jobs, and answers from when on it wants to hear more of those that have ended: what comes
// twice, as an answer was lost, does no harm.
func (m *Monitor) toldJobs(w http.ResponseWriter, r *http.Request, who identity.Agent) {
	var told protocol.JobsTold
	if !m.read(w, r, jobsLimit, &told) {
		return
	}
	ctx := r.Context()
	var kept job.Kept
	err := m.db.Update(ctx, func(tx *core.Tx) error {
		head, err := headOf(ctx, tx, who)
		if err != nil {
			return err
		}
		c, err := cluster.Get(ctx, tx, head.Cluster)
		if err != nil {
			return err
		}
		kept, err = job.Keep(ctx, tx, job.Job{Cluster: c.Name, ClusterID: c.ID, Project: c.Project}, told)
		if err == nil && (kept.Other || len(kept.New) > 0) {
			err = cluster.MarkSeen(ctx, tx, c.ID)
		}
		if err == nil && m.added.many(c.Project, len(kept.New)) {
			err = job.Trim(ctx, tx, c.Project, m.MostJobs)
		}
		return err
	})
	if err == nil {
		for _, j := range kept.New {
			m.Telemetry.JobEnded(string(j.Outcome))
		}
	}
	m.answer(w, r, protocol.JobsKept{Since: kept.Since}, err)
}

// added counts jobs, by project, since some were forgotten. An hour later that is done for all projects.
type added struct {
	mu   sync.Mutex
	jobs map[string]int
}

// many says that it is time to forget some.
func (a *added) many(project string, jobs int) bool {
	const enough = 10_000
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.jobs == nil {
		a.jobs = map[string]int{}
	}
	if a.jobs[project] += jobs; a.jobs[project] < enough {
		return false
	}
	delete(a.jobs, project)
	return true
}
