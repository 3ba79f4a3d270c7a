package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
	"muster/internal/price"
	"muster/internal/protocol"
)

// Of says which jobs are meant. Empty fields mean any.
type Of struct {
	Projects []string // nil: any
	Cluster  string   // its ID, or a name that it has or had
	ID       string   // as users write it; that of an array means all of its tasks
	User     string
	Outcome  protocol.JobState
	From, To time.Time // when it ended
	After    Place     // those after it in the list
	Limit    int       // of List
}

// Place is a job's in the list.
type Place struct {
	Ended   time.Time
	Cluster string // its ID
	Number  int64
}

// where is the condition on job j.
func (o Of) where() core.Where {
	var which core.Where
	which.Among("project", o.Projects)
	which.When(o.Cluster != "", `(cluster_id = $? OR cluster = $?)`, o.Cluster, o.Cluster)
	which.When(o.ID != "", `(id = $? OR SUBSTR(id, 1, CAST($? AS INTEGER)) = $?)`, o.ID, len(o.ID)+1, o.ID+"_")
	which.When(o.User != "", `account = $?`, o.User)
	which.When(o.Outcome != "", `outcome = $?`, string(o.Outcome))
	which.When(!o.From.IsZero(), `ended >= $?`, o.From.UnixMilli())
	which.When(!o.To.IsZero(), `ended < $?`, o.To.UnixMilli())
	if at := o.After; !at.Ended.IsZero() {
		which.And(`(ended, cluster_id, number) < ($?, $?, $?)`, at.Ended.UnixMilli(), at.Cluster, at.Number)
	}
	return which
}

// List lists jobs, the last ended first.
func List(ctx context.Context, tx *core.Tx, of Of) ([]Job, error) {
	if len(of.Projects) > 1 {
		one := of
		return core.First(of.Projects, of.Limit, func(project string) ([]Job, error) {
			one.Projects = []string{project}
			return List(ctx, tx, one)
		}, func(a, b Job) int {
			return cmp.Or(b.Ended.Compare(a.Ended), cmp.Compare(b.ClusterID, a.ClusterID), cmp.Compare(b.Number, a.Number))
		})
	}
	which := of.where()
	which.Rest(` ORDER BY ended DESC, cluster_id DESC, number DESC LIMIT $?`, of.Limit)
	jobs, err := core.List(ctx, tx, scan, `SELECT `+columns+` FROM job`+which.Text, which.Args...)
	return jobs, wrap.Errorf(err, "list jobs")
}

// Sum is what jobs of one user in one project, or of a project, had and what they used of it. Jobs that never ran only count.
type Sum struct {
	Project, User string // User: "" of all together
	Jobs, Failed  int64  // Failed: of those, ended otherwise than completed, and not by somebody's wish
	CPUHours      float64
	GPUHours      float64
	Cost          price.Sum
	// Of jobs whose use is known: CPU-hours that they had and used; MiB times hours that they had, and those of
	// their peaks.
	KnownCPUHours, CPUHoursUsed, MemoryHours, MemoryHoursUsed float64
}

// MostSums is how many Sums adds up.
const MostSums = 10_000

// ErrManySums says that there are more sums than MostSums.
var ErrManySums = errors.New("too many sums")

// Sums adds up jobs by project, and by user where that is asked for.
func Sums(ctx context.Context, tx *core.Tx, of Of, byUser bool) ([]Sum, error) {
	scan := func(r core.Scanner) (s Sum, err error) {
		var cost float64
		var currency string
		err = r.Scan(&s.Project, &s.User, &s.Jobs, &s.Failed, &s.CPUHours, &s.GPUHours, &s.KnownCPUHours, &s.CPUHoursUsed,
			&s.MemoryHours, &s.MemoryHoursUsed, &cost, &currency)
		s.Cost = price.Sum{}
		s.Cost.Add(price.Amount{Micros: int64(min(cost, 1<<60)), Currency: currency})
		return s, err
	}
	user := `''`
	if byUser {
		user = `account`
	}
	hours := func(what string) string { // in floating point: sums of what heads say have no bound
		return `COALESCE(SUM(CAST(` + what + ` AS DOUBLE PRECISION) * (ended - COALESCE(began, ended)) / 3600000.0), 0.0)`
	}
	which := of.where()
	which.Rest(` GROUP BY project, who, currency ORDER BY project, who, currency LIMIT $?`, MostSums+1)
	sums, err := core.List(ctx, tx, scan, `SELECT project, `+user+` AS who, COUNT(*),
			CAST(SUM(CASE WHEN outcome IN ('failed', 'timed-out', 'out-of-memory', 'node-failed') THEN 1 ELSE 0 END) AS BIGINT),
			`+hours(`cpus`)+`, `+hours(`gpus`)+`, `+hours(`CASE WHEN cpu_ms IS NULL THEN 0 ELSE cpus END`)+`,
			COALESCE(SUM(CAST(cpu_ms AS DOUBLE PRECISION) / 3600000.0), 0.0),
			`+hours(`CASE WHEN peak > 0 THEN memory ELSE 0 END`)+`, `+hours(`CASE WHEN memory > 0 THEN peak ELSE 0 END`)+`,
			SUM(CAST(cost AS DOUBLE PRECISION)), currency
		FROM job`+which.Text, which.Args...)
	if err == nil && len(sums) > MostSums {
		err = ErrManySums
	}
	return merged(sums), wrap.Errorf(err, "add up jobs")
}

// merged puts those together that differ in their currency only: jobs that cost nothing have none.
func merged(sums []Sum) (all []Sum) {
	for _, s := range sums {
		n := len(all)
		if n == 0 || all[n-1].Project != s.Project || all[n-1].User != s.User {
			all = append(all, s)
			continue
		}
		into := &all[n-1]
		into.Jobs, into.Failed = into.Jobs+s.Jobs, into.Failed+s.Failed
		into.CPUHours, into.GPUHours = into.CPUHours+s.CPUHours, into.GPUHours+s.GPUHours
		into.KnownCPUHours, into.CPUHoursUsed = into.KnownCPUHours+s.KnownCPUHours, into.CPUHoursUsed+s.CPUHoursUsed
		into.MemoryHours, into.MemoryHoursUsed = into.MemoryHours+s.MemoryHours, into.MemoryHoursUsed+s.MemoryHoursUsed
		for currency, micros := range s.Cost {
			into.Cost[currency] += micros
		}
	}
	return all
}

// Forget drops what a site does not keep: jobs that ended longer ago than age, and of each project all but so many.
func Forget(ctx context.Context, tx *core.Tx, age time.Duration, most int) error {
	if _, err := tx.Exec(ctx, `DELETE FROM job WHERE ended < now_ms() - $1`, age.Milliseconds()); err != nil {
		return fmt.Errorf("forget old jobs: %w", err)
	}
	projects, err := core.List(ctx, tx, core.Value[string], `SELECT project FROM job GROUP BY project HAVING COUNT(*) > $1`, most)
	if err != nil {
		return fmt.Errorf("count jobs: %w", err)
	}
	for _, project := range projects {
		if err := Trim(ctx, tx, project, most); err != nil {
			return err
		}
	}
	return nil
}

// Trim drops all jobs of a project but so many: those that ended last.
func Trim(ctx context.Context, tx *core.Tx, project string, most int) error {
	_, err := tx.Exec(ctx, `DELETE FROM job WHERE project = $1 AND ended <= (SELECT ended FROM job WHERE project = $1
		ORDER BY ended DESC LIMIT 1 OFFSET $2)`, project, most)
	return wrap.Errorf(err, "forget old jobs of project %s", project)
}
