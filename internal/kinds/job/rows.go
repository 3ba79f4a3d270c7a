// Package job keeps the jobs of all clusters: those that have ended, also when their clusters are gone, and those that have not,
// as heads told last.
//
// What enters: what heads tell. What leaves: rows, and sums of them.
package job

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
	"muster/internal/price"
	"muster/internal/protocol"
)

// Job is a job that has ended, and whose it was.
type Job struct {
	protocol.EndedJob
	Cluster   string
	ClusterID string
	Project   string
	Cost      price.Amount // of its part of its nodes; see price.Part
}

// Ran is how long it ran; 0: it never did.
func (j Job) Ran() time.Duration {
	if j.Began.IsZero() {
		return 0
	}
	return j.Ended.Sub(j.Began)
}

const columns = `number, id, account, queue, qos, name, nodes, node_count, cpus, gpus, memory, submitted,
	COALESCE(began, 0), ended, outcome, exit_code, signal, COALESCE(cpu_ms, -1), COALESCE(peak, 0), cost, currency,
	cluster, cluster_id, project`

func scan(r core.Scanner) (j Job, err error) {
	var cpu, peak int64
	err = r.Scan(&j.Number, &j.ID, &j.User, &j.Queue, &j.QOS, &j.Name, &j.Nodes, &j.NodeCount, &j.CPUs, &j.GPUs, &j.MemoryMiB,
		core.Time(&j.Submitted), core.Time(&j.Began), core.Time(&j.Ended), &j.Outcome, &j.Exit, &j.Signal, &cpu, &peak,
		&j.Cost.Micros, &j.Cost.Currency, &j.Cluster, &j.ClusterID, &j.Project)
	if cpu >= 0 {
		j.Used = &protocol.JobUse{CPUSeconds: float64(cpu) / 1000, PeakMiB: peak}
	}
	return j, err
}

// Kept is what came of what a head told.
type Kept struct {
	Since time.Time // from when on it is to tell of jobs that have ended
	New   []protocol.EndedJob
	Other bool // those that have not ended are not the same as before
}

// Keep adds what the head of a cluster tells. Jobs that were told before change nothing. Nothing is believed that cannot be: of a
// time to come, or before the cluster was there, as the jobs of another are, from whose snapshot it was made.
func Keep(ctx context.Context, tx *core.Tx, of Job, told protocol.JobsTold) (kept Kept, err error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return kept, err
	}
	var before string
	err = tx.Row(ctx, `SELECT COALESCE(t.until, c.created_at), COALESCE(t.current, '') FROM cluster c
		LEFT JOIN cluster_jobs t ON t.cluster_id = c.id WHERE c.id = $1`, of.ClusterID).Scan(core.Time(&kept.Since), &before)
	if err != nil {
		return kept, fmt.Errorf("jobs of cluster %s: %w", of.ClusterID, err)
	}
	if until := earlier(told.Until, now); until.After(kept.Since) {
		prices, err := pricesOf(ctx, tx, of.ClusterID, told.Ended)
		if err != nil {
			return kept, err
		}
		for _, j := range told.Ended {
			if j.Ended.Before(kept.Since.Truncate(time.Second)) || !j.Ended.Before(until) || !bound(&j) {
				continue
			}
			of.EndedJob, of.Cost = j, prices.of(j)
			fresh, err := of.add(ctx, tx)
			if err != nil {
				return kept, err
			}
			if fresh {
				kept.New = append(kept.New, j)
			}
		}
		kept.Since = core.Instant(until.UnixMilli())
	} else if told.Current == nil {
		return kept, nil
	}
	current, counts := "", protocol.CurrentJobs{}
	if told.Current != nil {
		text, err := json.Marshal(told.Current)
		if err != nil {
			return kept, err
		}
		current, counts = string(text), *told.Current
		kept.Other = current != before
	}
	return kept, saveTold(ctx, tx, of.ClusterID, kept.Since, current, counts)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// saveTold notes what was told last. "" tells nothing of jobs that have not ended.
func saveTold(ctx context.Context, tx *core.Tx, cluster string, until time.Time, current string, of protocol.CurrentJobs) error {
	_, err := tx.Exec(ctx, `INSERT INTO cluster_jobs (cluster_id, until, current, running, pending) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (cluster_id) DO UPDATE SET until = excluded.until,
			current = CASE WHEN excluded.current = '' THEN cluster_jobs.current ELSE excluded.current END,
			running = CASE WHEN excluded.current = '' THEN cluster_jobs.running ELSE excluded.running END,
			pending = CASE WHEN excluded.current = '' THEN cluster_jobs.pending ELSE excluded.pending END`,
		cluster, until.UnixMilli(), current, believed(of.Running), believed(of.Waiting))
	return wrap.Errorf(err, "jobs of cluster %s", cluster)
}

// believed is a number of jobs that there can be.
func believed(n int) int { return min(max(n, 0), 1<<17) }

// Bounds of what is believed of one job.
const (
	longest        = 10 * 366 * 24 * time.Hour
	mostNodes      = 1 << 17
	mostCPUs       = 1 << 24
	mostMemory     = 1 << 40 // MiB
	mostCPUSeconds = 1e15
)

// bound makes a job one that can be, and says whether it could.
func bound(j *protocol.EndedJob) bool {
	for text, most := range map[*string]int{&j.ID: 64, &j.User: 64, &j.Queue: 64, &j.QOS: 64, &j.Name: 256, &j.Nodes: 512} {
		*text = strings.ToValidUTF8((*text)[:min(len(*text), most)], "")
	}
	limit(&j.NodeCount, mostNodes)
	limit(&j.CPUs, mostCPUs)
	limit(&j.GPUs, mostCPUs)
	limit(&j.Exit, 255)
	limit(&j.Signal, 255)
	limit(&j.MemoryMiB, mostMemory)
	if j.Used != nil {
		limit(&j.Used.PeakMiB, mostMemory)
		limit(&j.Used.CPUSeconds, mostCPUSeconds)
	}
	if j.Submitted.After(j.Ended) || j.Ended.Sub(j.Submitted) > longest {
		j.Submitted = j.Ended
	}
	ran := j.Ended.Sub(j.Began)
	return slices.Contains(protocol.JobEnds(), j.Outcome) && (j.Began.IsZero() || ran >= 0 && ran <= longest)
}

func limit[N int | int64 | float64](n *N, most N) { *n = min(max(*n, 0), most) }

// add says whether the job was not there.
func (j Job) add(ctx context.Context, tx *core.Tx) (fresh bool, err error) {
	var began, cpu, peak any
	if j.Used != nil {
		cpu, peak = int64(j.Used.CPUSeconds*1000), j.Used.PeakMiB
	}
	if !j.Began.IsZero() {
		began = j.Began.UnixMilli()
	}
	n, err := tx.Exec(ctx, `INSERT INTO job (number, id, account, queue, qos, name, nodes, node_count, cpus, gpus, memory,
			submitted, began, ended, outcome, exit_code, signal, cpu_ms, peak, cost, currency, cluster, cluster_id, project)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24)
		ON CONFLICT (cluster_id, number, ended) DO NOTHING`,
		j.Number, j.ID, j.User, j.Queue, j.QOS, j.Name, j.Nodes, j.NodeCount, j.CPUs, j.GPUs, j.MemoryMiB,
		j.Submitted.UnixMilli(), began, j.Ended.UnixMilli(), string(j.Outcome), j.Exit, j.Signal, cpu, peak,
		j.Cost.Micros, j.Cost.Currency, j.Cluster, j.ClusterID, j.Project)
	return n == 1, wrap.Errorf(err, "job %s of cluster %s", j.ID, j.ClusterID)
}
