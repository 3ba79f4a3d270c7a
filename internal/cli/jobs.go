package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/lists"
	"muster/internal/kit/words"
)

// whichJobs are the flags that say which jobs are meant.
type whichJobs struct{ project, user, since, until string }

func (w *whichJobs) flags(a *app, c *cobra.Command, since string) {
	c.Flags().StringVar(&w.project, "project", "", "only jobs of this `PROJECT`")
	c.Flags().StringVar(&w.user, "user", "", "only jobs of this `USER`")
	c.Flags().StringVar(&w.since, "since", since,
		"of jobs that have ended, those at this `TIME` or later: 2h or 3d ago, a day, or RFC 3339")
	c.Flags().StringVar(&w.until, "until", "", "only jobs that ended before this `TIME`")
	_ = c.RegisterFlagCompletionFunc("project", a.completeAll(a.projectNames))
	_ = c.RegisterFlagCompletionFunc("user", a.completeAll(a.personNames))
}

func (w *whichJobs) whose() apiv1.JobsOf { return apiv1.JobsOf{Project: w.project, User: w.user} }

// ended is when.
func (w *whichJobs) ended(now time.Time) (since, until time.Time, err error) {
	for _, end := range []struct {
		flag, text string
		at         *time.Time
	}{{"--since", w.since, &since}, {"--until", w.until, &until}} {
		if end.text == "" {
			continue
		}
		if *end.at, err = past(end.flag, end.text, now); err != nil {
			return since, until, err
		}
	}
	return since, until, nil
}

func (a *app) jobs() *cobra.Command {
	c := &cobra.Command{
		Use:   "jobs [CLUSTER] [JOB]",
		Short: "Show jobs, also those of deleted clusters",
		Long: `Show the jobs of your projects' clusters: those that have ended, the last one last, with how they ended, how long
they took and how much of their CPUs and memory they used; and then those that run or are pending. The site remembers jobs when
their cluster is paused or deleted, too, for as long as its operator has set. What is shown was so some seconds ago.

CLUSTER is the name that a cluster has or had, or its ID; JOB is a job as the cluster writes it: 12, or 12_3 for a task of an
array, all of whose tasks are 12. A single job is shown with all that is known of it.`,
		Example: `  muster jobs cfd
  muster jobs cfd 12_3
  muster jobs --user ada --state out-of-memory --since 30d
  muster jobs --project aero --since 2026-11-01 -o json`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	var which whichJobs
	which.flags(a, c, "7d")
	state := c.Flags().String("state", "", "only jobs in this `STATE`: pending, running, or one of those that jobs end with")
	current := []string{string(apiv1.JobPending), string(apiv1.JobRunning)}
	ends := lists.Map(apiv1.JobEnds(), func(s apiv1.JobState) string { return string(s) })
	states := slices.Concat(current, ends)
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		if *state != "" && !slices.Contains(states, *state) {
			return usage("--state: %q is none; there are %s", *state, strings.Join(states, ", "))
		}
		in, err := jobArguments(args)
		if err != nil {
			return err
		}
		if in.Job != "" && !c.Flags().Changed("since") {
			which.since = ""
		}
		since, until, err := which.ended(time.Now())
		if err != nil {
			return err
		}
		var jobs apiv1.List[apiv1.Job]
		if !slices.Contains(current, *state) {
			ended, err := apiv1.All(ctx, a, apiv1.ListJobs, apiv1.ListJobsInput{JobsOf: which.whose(), JobsIn: in,
				State: apiv1.JobState(*state), Since: since, Until: until})
			if err != nil {
				return err
			}
			slices.Reverse(ended)
			jobs.Items = ended
		}
		if !slices.Contains(ends, *state) && until.IsZero() {
			now, err := apiv1.All(ctx, a, apiv1.ListCurrentJobs, apiv1.ListCurrentJobsInput{JobsOf: which.whose(), JobsIn: in,
				State: apiv1.JobState(*state)})
			if err != nil {
				return err
			}
			jobs.Items = append(jobs.Items, now...)
		}
		jobs.Items = append([]apiv1.Job{}, jobs.Items...)
		return output.print(a.out, must(json.Marshal(jobs)), func() { a.printJobs(jobs.Items, in.Job != "") })
	})
	c.AddCommand(
		a.onJob("cancel", asksFor(apiv1.CancelJob), "Cancel a job of yours", `Cancel a job of yours, or with the number of an
array all of its tasks, as the cluster's own command for that does, with its exit status.`),
		a.onJob("hold", changes(apiv1.HoldJob), "Keep a job of yours from starting", `Keep a job of yours that is pending from
starting, until it is released.`),
		a.onJob("release", changes(apiv1.ReleaseJob), "Let a job of yours start that is held", `Let a job of yours start that
is held.`),
		a.onJob("requeue", changes(apiv1.RequeueJob), "Have a job of yours start again", `End a job of yours that runs, and have
it start again some minutes later, as the cluster's own command for that does.`),
		a.onJob("output", asksFor(apiv1.GetJobOutput), "Show what a job of yours has written", `Print the file that the standard
output of a job of yours goes to, or went to: its first 8 MiB.`))
	return c
}

// jobAsk asks for a task that does something with a job.
type jobAsk func(context.Context, apiv1.Client, apiv1.JobRef) (apiv1.Task, error)

func asksFor(op apiv1.Op[apiv1.JobRef, apiv1.Task]) jobAsk {
	return func(ctx context.Context, c apiv1.Client, job apiv1.JobRef) (apiv1.Task, error) {
		task, _, err := op.Call(ctx, c, job)
		return task, err
	}
}

func changes(act apiv1.JobAct) jobAsk {
	return func(ctx context.Context, c apiv1.Client, job apiv1.JobRef) (apiv1.Task, error) {
		in := apiv1.ChangeJobInput{JobRef: job}
		in.Body.Act = act
		task, _, err := apiv1.ChangeJob.Call(ctx, c, in)
		return task, err
	}
}

// onJob is a command that has a task do something with a job, and shows what that says.
func (a *app) onJob(verb string, ask jobAsk, short, long string) *cobra.Command {
	c := &cobra.Command{
		Use:               verb + " CLUSTER JOB",
		Short:             short,
		Long:              long,
		Example:           "  muster jobs " + verb + " cfd 12",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	return a.verb(c, func(ctx context.Context, args []string) error {
		task, err := ask(ctx, a, apiv1.JobRef{ClusterRef: apiv1.ClusterRef{Cluster: args[0]}, Job: args[1]})
		if err != nil {
			return err
		}
		return a.follow(ctx, task.ID, asTable)
	})
}

// jobArguments are a cluster, a job, or a cluster and one of its jobs.
func jobArguments(args []string) (in apiv1.JobsIn, err error) {
	for i, arg := range args {
		switch isJob := arg != "" && arg[0] >= '0' && arg[0] <= '9'; {
		case isJob && i == len(args)-1:
			in.Job = arg
		case !isJob && i == 0:
			in.Cluster = arg
		default:
			return in, usage("give a cluster, and then a job, which begins with a digit")
		}
	}
	return in, nil
}

func (a *app) printJobs(jobs []apiv1.Job, one bool) {
	switch {
	case len(jobs) == 0 && one:
		a.say("there is no such job in a cluster that you may see")
		return
	case len(jobs) == 0:
		a.say("no jobs that you may see; `--since 30d` looks further back")
		return
	case len(jobs) == 1 && one:
		a.printJob(jobs[0])
		return
	}
	t := newTable("JOB", "CLUSTER", "USER", "NAME", "QUEUE", "NODES", "CPUS", "GPUS", "STATE", "EXIT", "ENDED", "TOOK", "CPU",
		"MEMORY", "COST", "REASON")
	for _, j := range jobs {
		state := cell(string(j.State))
		switch j.State {
		case apiv1.JobPending, apiv1.JobRunning, apiv1.JobCompleted, apiv1.JobCancelled:
		default:
			state = a.paint(a.out, red, string(j.State))
		}
		t.row(j.ID, j.Cluster, j.User, j.Name, j.Queue, j.Nodes, number(j.CPUs), number(j.GPUs), state, endText(j),
			textOf(j.Ended, stamp), ranText(j), percent(j.CPUEfficiency), percent(j.MemoryEfficiency), coins(j.Cost), j.Reason)
	}
	t.print(a.out)
}

func (a *app) printJob(j apiv1.Job) {
	a.out.line("job %s of %s on cluster %s: %s", j.ID, j.User, j.Cluster, j.State)
	t := newTable()
	for _, fact := range [][2]string{
		{"name", j.Name}, {"project", j.Project}, {"cluster ID", j.ClusterID}, {"queue", j.Queue}, {"QOS", j.QOS},
		{"waits for", j.Reason}, {"exit status", endText(j)}, {"submitted", stamp(j.Submitted)},
		{"began", textOf(j.Began, stamp)}, {"ended", textOf(j.Ended, stamp)}, {"took", ranText(j)}, {"nodes", j.Nodes},
		{"CPUs", ofWhole(number(j.CPUs), j.CPUEfficiency)}, {"GPUs", number(j.GPUs)},
		{"memory", ofWhole(memoryText(j.MemoryMiB), j.MemoryEfficiency)}, {"most memory used", memoryText(j.PeakMiB)},
		{"cost", coins(j.Cost)},
	} {
		t.fact("  "+fact[0], fact[1])
	}
	t.print(a.out)
}

// endText is the exit status, or the signal.
func endText(j apiv1.Job) string {
	if j.Signal > 0 {
		return fmt.Sprintf("signal %d", j.Signal)
	}
	return textOf(j.Exit, strconv.Itoa)
}

// ranText is how long it ran, or has run until now.
func ranText(j apiv1.Job) string {
	if j.Began == nil || j.Ended == nil {
		return textOf(j.Began, age)
	}
	return short(j.Ended.Sub(*j.Began))
}

// ofWhole is "8, 97 % used".
func ofWhole(what string, used *float64) string {
	if what == "" || used == nil {
		return what
	}
	return what + ", " + percent(used) + " used"
}

func percent(part *float64) string {
	return textOf(part, func(p float64) string { return fmt.Sprintf("%.0f %%", 100*p) })
}

// number is "" of 0.
func number(n int) string { return textIf(n != 0, strconv.Itoa(n)) }

func memoryText(mib int64) string { return textIf(mib != 0, words.Size(mib<<20)) }

func (a *app) efficiency() *cobra.Command {
	c := &cobra.Command{
		Use:   "efficiency",
		Short: "Show how much of what jobs had they used, by user or project",
		Long: `Show, for each user or project, the CPU-hours that their jobs had and how much of them they used: CPU time of
their programs, and the most memory that a step of each job used, each job weighed by its memory and time. Jobs that ended in
the last 30 days count, also those of deleted clusters; FAILED are those that failed, ran out of time or memory, or lost a node.`,
		Example: `  muster efficiency
  muster efficiency --project aero --since 2026-11-01
  muster efficiency --by project --since 90d -o json`,
		Args: cobra.NoArgs,
	}
	var which whichJobs
	which.flags(a, c, "30d")
	by := c.Flags().String("by", "user", "one line for each `WHAT`: user, project")
	_ = c.RegisterFlagCompletionFunc("by",
		cobra.FixedCompletions([]string{"user", "project"}, cobra.ShellCompDirectiveNoFileComp))
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, _ []string) error {
		since, until, err := which.ended(time.Now())
		if err != nil {
			return err
		}
		in := apiv1.GetEfficiencyInput{JobsOf: which.whose(), Since: since, Until: until, By: *by}
		return show(ctx, a, apiv1.GetEfficiency, in, *output, a.printEfficiency)
	})
}

func (a *app) printEfficiency(e apiv1.Efficiencies) {
	if len(e.Items) == 0 {
		a.say("no jobs that you may see; `--since 90d` looks further back")
		return
	}
	t := newTable("PROJECT", "USER", "JOBS", "FAILED", "CPU-HOURS", "USED", "CPU", "MEMORY", "GPU-HOURS", "COST")
	hours := func(h float64) string { return textIf(h != 0, fmt.Sprintf("%.2f", h)) }
	for _, i := range e.Items {
		t.row(i.Project, i.User, strconv.FormatInt(i.Jobs, 10), number(int(i.Failed)), hours(i.CPUHours), hours(i.CPUHoursUsed),
			percent(&i.CPUEfficiency), percent(&i.MemoryEfficiency), hours(i.GPUHours), coins(i.Cost))
	}
	t.print(a.out)
}
