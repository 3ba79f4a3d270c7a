package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/drivers/scheduler"
	"muster/internal/kinds/job"
	"muster/internal/kinds/node"
	"muster/internal/kit/pattern"
	"muster/internal/protocol"
)

// jobsOf says which jobs a caller means, of those that they may see.
func jobsOf(ctx context.Context, whose apiv1.JobsOf, in apiv1.JobsIn) (job.Of, error) {
	of := job.Of{Projects: visible(ctx), User: whose.User, Cluster: in.Cluster, ID: in.Job}
	if project, name, found := strings.Cut(in.Cluster, "/"); found {
		whose.Project, of.Cluster = project, name
	}
	if whose.Project != "" {
		if !sees(ctx, whose.Project) {
			return of, fmt.Errorf("project %s: %w", whose.Project, core.ErrNotFound)
		}
		of.Projects = []string{whose.Project}
	}
	return of, nil
}

func (a *API) listJobs(ctx context.Context, in *apiv1.ListJobsInput) (*output[apiv1.List[apiv1.Job]], error) {
	of, err := jobsOf(ctx, in.JobsOf, in.JobsIn)
	if err != nil {
		return nil, err
	}
	of.Outcome, of.From, of.To, of.Limit = protocol.JobState(in.State), in.Since, in.Until, in.Limit
	if in.Cursor != "" {
		if of.After, err = placeOf(in.Cursor); err != nil {
			return nil, err
		}
	}
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Job]) error {
		jobs, err := job.List(ctx, tx, of)
		if err != nil {
			return err
		}
		if len(jobs) == 0 && in.Cluster != "" && in.Cursor == "" {
			_, err = a.find(ctx, tx, in.Cluster) // is there one of that name?
		}
		out.Items = some(each(jobs, endedView))
		if n := len(jobs); n == in.Limit {
			last := jobs[n-1]
			out.Next = fmt.Sprintf("%d-%d-%s", last.Ended.UnixMilli(), last.Number, last.ClusterID)
		}
		return err
	})
}

func (a *API) listCurrentJobs(ctx context.Context, in *apiv1.ListCurrentJobsInput) (*output[apiv1.List[apiv1.Job]], error) {
	of, err := jobsOf(ctx, in.JobsOf, in.JobsIn)
	if err != nil {
		return nil, err
	}
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Job]) error {
		told, err := job.Current(ctx, tx, of)
		if err != nil {
			return err
		}
		var all []apiv1.Job
		for _, t := range told {
			for _, j := range t.Jobs {
				v := currentView(t, j)
				if (of.User == "" || v.User == of.User) && (in.State == "" || v.State == in.State) &&
					(of.ID == "" || v.ID == of.ID || strings.HasPrefix(v.ID, of.ID+"_")) {
					all = append(all, v)
				}
			}
		}
		key := func(j apiv1.Job) string { return fmt.Sprintf("%s %020d", j.ClusterID, j.Number) }
		slices.SortFunc(all, func(a, b apiv1.Job) int { return strings.Compare(key(a), key(b)) })
		*out = pageOf(in.Page, all, key)
		return nil
	})
}

// placeOf reads a cursor.
func placeOf(cursor string) (job.Place, error) {
	words := strings.SplitN(cursor, "-", 3)
	if len(words) == 3 {
		ended, err1 := strconv.ParseInt(words[0], 10, 64)
		number, err2 := strconv.ParseInt(words[1], 10, 64)
		if err1 == nil && err2 == nil {
			return job.Place{Ended: time.UnixMilli(ended), Cluster: words[2], Number: number}, nil
		}
	}
	return job.Place{}, badCursor()
}

// jobView shows what is said of any job.
func jobView(j protocol.Job) apiv1.Job {
	v := apiv1.Job{ID: j.ID, Number: j.Number, User: j.User, Name: j.Name, Queue: j.Queue, QOS: j.QOS, Submitted: j.Submitted,
		Nodes: j.Nodes, NodeCount: j.NodeCount, CPUs: j.CPUs, GPUs: j.GPUs, MemoryMiB: j.MemoryMiB}
	if !j.Began.IsZero() {
		v.Began = &j.Began
	}
	return v
}

func currentView(of job.Told, j protocol.CurrentJob) apiv1.Job {
	v := jobView(j.Job)
	v.Cluster, v.ClusterID, v.Project, v.Reason, v.State = of.Cluster, of.ClusterID, of.Project, j.Reason, apiv1.JobRunning
	if v.Began == nil {
		v.State = apiv1.JobPending
	}
	if j.Tasks > 1 {
		v.Tasks = j.Tasks
	}
	return v
}

func endedView(j job.Job) apiv1.Job {
	v := jobView(j.Job)
	v.Cluster, v.ClusterID, v.Project, v.State = j.Cluster, j.ClusterID, j.Project, apiv1.JobState(j.Outcome)
	v.Signal, v.Ended = j.Signal, &j.Ended
	if j.Cost.Currency != "" {
		v.Cost = j.Cost.String()
	}
	if v.Began != nil {
		v.Exit, v.Seconds = &j.Exit, j.Ran().Seconds()
	}
	if used := j.Used; used != nil && v.Began != nil {
		v.CPUSeconds, v.PeakMiB = used.CPUSeconds, used.PeakMiB
		v.CPUEfficiency = ratio(used.CPUSeconds, float64(j.CPUs)*v.Seconds)
		if used.PeakMiB > 0 {
			v.MemoryEfficiency = ratio(float64(used.PeakMiB), float64(j.MemoryMiB))
		}
	}
	return v
}

// ratio is part / whole; nil of nothing.
func ratio(part, whole float64) *float64 {
	if whole <= 0 {
		return nil
	}
	return new(part / whole)
}

func (a *API) cancelJob(ctx context.Context, in *apiv1.JobRef) (*output[apiv1.Task], error) {
	return a.onJob(ctx, in, scheduler.Cancel)
}

func (a *API) changeJob(ctx context.Context, in *apiv1.ChangeJobInput) (*output[apiv1.Task], error) {
	return a.onJob(ctx, &in.JobRef, scheduler.Act(in.Body.Act))
}

func (a *API) jobOutput(ctx context.Context, in *apiv1.JobRef) (*output[apiv1.Task], error) {
	return a.onJob(ctx, in, scheduler.Output)
}

// jobForm is how jobs are written: 12, 12_3 and 12_[4-9] of an array, 12+1 of a heterogeneous one.
var jobForm = pattern.New(`^[0-9]+([_+][0-9]+|_\[[0-9,:%-]+\])?$`)

// onJob runs what the scheduler has for something that users do with their jobs: as the caller, on the head. So the scheduler
// decides whether the caller may.
func (a *API) onJob(ctx context.Context, in *apiv1.JobRef, act scheduler.Act) (*output[apiv1.Task], error) {
	if !jobForm.MatchString(in.Job) {
		return nil, invalid(fmt.Sprintf("job: %.60q is none", in.Job),
			"write for example 12, or 12_3 for a task of an array")
	}
	run := apiv1.RunTaskInput{ClusterRef: in.ClusterRef, Body: apiv1.TaskBody{Limit: "10m"}}
	err := a.DB.View(ctx, func(tx *core.Tx) error {
		c, err := a.find(ctx, tx, in.Cluster)
		if err != nil {
			return err
		}
		by := a.Admission.Schedulers.Of(c.Spec.Scheduler())
		command := by.Acts[act]
		if command == nil {
			text := fmt.Sprintf("cluster %s has %s, which knows no jobs", c.Name, by.Title)
			return conflict(text, "")
		}
		run.Body.Command = command(in.Job)
		nodes, err := node.Of(ctx, tx, c.ID)
		for _, n := range nodes {
			if n.Role == protocol.Head {
				run.Body.On = []string{n.Name}
			}
		}
		if err == nil && run.Body.On == nil {
			text := fmt.Sprintf("cluster %s has no head now: it is %s", c.Name, c.Phase)
			err = conflict(text, "")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return a.runTask(ctx, &run)
}

func (a *API) efficiency(ctx context.Context, in *apiv1.GetEfficiencyInput) (*output[apiv1.Efficiencies], error) {
	of, err := jobsOf(ctx, in.JobsOf, apiv1.JobsIn{})
	if err != nil {
		return nil, err
	}
	of.From, of.To = in.Since, in.Until
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.Efficiencies) error {
		sums, err := job.Sums(ctx, tx, of, in.By == "user")
		if errors.Is(err, job.ErrManySums) {
			text := fmt.Sprintf("it would have more than %d lines", job.MostSums)
			return invalid(text, "name a project or a user, or a shorter time")
		}
		out.Items = some(each(sums, func(s job.Sum) apiv1.Efficiency {
			e := apiv1.Efficiency{Project: s.Project, User: s.User, Jobs: s.Jobs, Failed: s.Failed, CPUHours: s.CPUHours,
				CPUHoursUsed: s.CPUHoursUsed, GPUHours: s.GPUHours, Cost: s.Cost.String()}
			if r := ratio(s.CPUHoursUsed, s.KnownCPUHours); r != nil {
				e.CPUEfficiency = *r
			}
			if r := ratio(s.MemoryHoursUsed, s.MemoryHours); r != nil {
				e.MemoryEfficiency = *r
			}
			return e
		}))
		return err
	})
}
