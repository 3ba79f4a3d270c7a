package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/kit/hostlist"
	"muster/internal/protocol"
)

// What squeue is asked for: a line of every job that has not ended; tasks of an array that wait for the same have one together.
// The reason is last, since it may contain anything. Fields that are not read here change whenever what the job asks for does.
const (
	jobStates = "pending,running,completing,suspended,configuring"
	jobFields = "jobid statecompact nodelist arraytaskid starttime dependency admin_comment" + jobAsks + " reason"
	jobAsks   = " arrayjobid partition username numnodes numcpus mincpus oversubscribe submittime numtasks maxnodes minmemory" +
		" mintmpdisk feature reqnodes tres-per-job tres-per-node tres-per-task"
)

// jobFormat has squeue end each field with a tab and cut none.
func jobFormat() string { return strings.ReplaceAll(jobFields, " ", ":\t,") + ":\t" }

// queue is what squeue tells: jobs on nodes, by node; jobs that wait; and those that the submit script has held.
type queue struct {
	running map[string][]scheduler.Job
	waiting []waitingLine
	held    []heldJob
}

// waitingLine is a job that waits, as one line of squeue has it.
type waitingLine struct {
	protocol.WaitingJob
	number int    // what scontrol calls it; the ID of a task of an array is that of the array
	asks   string // all of the line that what it asks for depends on
}

// parseJobs reads what squeue prints in jobFormat.
func parseJobs(text string, now time.Time) (queue, error) {
	q := queue{running: map[string][]scheduler.Job{}}
	fields, asks := strings.Fields(jobFields), len(strings.Fields(jobAsks))
	tasks := map[int]int{} // of each array, those on nodes
	limits := map[int]int{}
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); line == "" {
			continue
		}
		words := strings.SplitN(line, "\t", len(fields))
		id, err := strconv.Atoi(words[0])
		if err != nil || len(words) < len(fields) {
			return queue{}, fmt.Errorf("not a line of squeue: %.60q", line)
		}
		said := map[string]string{}
		for i, field := range fields {
			said[field] = strings.TrimSuffix(words[i], "\t")
		}
		array, err := count(said["arrayjobid"])
		if err != nil {
			return queue{}, fmt.Errorf("%w in %.80q", err, line)
		}
		if note, marked := strings.CutSuffix(said["admin_comment"], heldMark); marked {
			job := heldJob{said["arrayjobid"], note, said["reason"] == "JobHeldUser"}
			if !slices.Contains(q.held, job) {
				q.held = append(q.held, job)
			}
		}
		if said["statecompact"] == "PD" {
			job, most, err := waitingJob(said, now)
			if err != nil {
				return queue{}, fmt.Errorf("%w in %.80q", err, line)
			}
			job.ID, job.number, job.asks = array, id, strings.Join(words[len(words)-1-asks:len(words)-1], "\t")
			limits[array] = most
			q.waiting = append(q.waiting, job)
			continue
		}
		tasks[array]++
		names, err := hostlist.Expand(said["nodelist"], hostlist.Most)
		if err != nil {
			return queue{}, err
		}
		for _, name := range names {
			q.running[name] = append(q.running[name], scheduler.Job{ID: id, Ends: said["statecompact"] == "CG"})
		}
	}
	for i, job := range q.waiting {
		if most := limits[job.ID]; most > 0 {
			q.waiting[i].AtOnce = max(most-tasks[job.ID], 0)
			q.waiting[i].Grows = job.Grows && most > tasks[job.ID]
		}
	}
	return q, nil
}

// waitingJob reads the fields of a job that is pending, and how many tasks of its array may run at once; 0: all.
func waitingJob(said map[string]string, now time.Time) (waitingLine, int, error) {
	job := waitingLine{WaitingJob: protocol.WaitingJob{Queues: strings.Split(said["partition"], ","), User: said["username"],
		Reason: said["reason"]}}
	job.Whole = said["oversubscribe"] == "NO"
	for field, into := range map[string]*int{"numnodes": &job.Nodes, "numcpus": &job.CPUs, "mincpus": &job.NodeCPUs} {
		var err error
		if *into, err = count(said[field]); err != nil {
			return job, 0, err
		}
	}
	tasks, most, err := arrayTasks(said["arraytaskid"])
	if err != nil {
		return job, 0, err
	}
	job.Tasks = tasks
	since, err := strconv.ParseInt(said["submittime"], 10, 64)
	if err != nil {
		return job, 0, fmt.Errorf("%q is no time", said["submittime"])
	}
	job.Since = time.Unix(since, 0).UTC()
	if lacksNodes(job.Reason) {
		// What Slurm says first of a job is about nodes even where it waits for something else, which it says a moment later.
		start, err := strconv.ParseInt(said["starttime"], 10, 64)
		switch {
		case said["dependency"] != "" && said["dependency"] != "(null)":
			job.Reason = "Dependency"
		case err == nil && strings.HasPrefix(job.Reason, "Partition") && time.Unix(start, 0).After(now):
			job.Reason = "BeginTime"
		default:
			job.Grows = true
		}
	}
	return job, most, nil
}

// arrayTasks counts the tasks of "0-18:2,77%3", and says how many of them may run at once; 0: all. One job is one task.
func arrayTasks(text string) (tasks, most int, err error) {
	if text == "" || text == "N/A" {
		return 1, 0, nil
	}
	list, limit, limited := strings.Cut(text, "%")
	if limited {
		if most, err = count(limit); err != nil {
			return 0, 0, err
		}
	}
	for _, entry := range strings.Split(list, ",") {
		entry, step, stepped := strings.Cut(entry, ":")
		first, last, isRange := strings.Cut(entry, "-")
		if !isRange {
			last = first
		}
		from, err1 := count(first)
		to, err2 := count(last)
		by := 1
		var err3 error
		if stepped {
			by, err3 = count(step)
		}
		if err := errors.Join(err1, err2, err3); err != nil || to < from || by < 1 {
			return 0, 0, fmt.Errorf("%.60q is no list of array tasks", text)
		}
		tasks += (to-from)/by + 1
	}
	return tasks, most, nil
}

// lacksNodes says that a job with this reason would run if its queue had enough free nodes. PartitionConfig,
// PartitionNodeLimit and BadConstraints are what Slurm says of a job that wants more than its queue has now. None is no such
// reason: Slurm has not looked at the job yet, and may find room for it.
func lacksNodes(reason string) bool {
	switch reason {
	case "Resources", "Priority", "PartitionConfig", "PartitionNodeLimit", "BadConstraints", "NodeDown":
		return true
	}
	return strings.HasPrefix(reason, "ReqNodeNotAvail") || strings.HasPrefix(reason, "Nodes required for job are DOWN") ||
		strings.HasPrefix(reason, "Nodes_required_for_job_are_DOWN")
}

// count reads a number as squeue prints it: multiples of 1024 have a suffix.
func count(text string) (int, error) {
	scale := 1
	switch {
	case strings.HasSuffix(text, "K"):
		scale = 1 << 10
	case strings.HasSuffix(text, "M"):
		scale = 1 << 20
	}
	n, err := strconv.Atoi(strings.TrimRight(text, "KM"))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return n * scale, nil
}

// bounded puts the tasks of an array together that wait for the same, those jobs first that more nodes would help, and
// cuts the list. Within that the order, which is that of priority, stays.
func bounded(jobs []waitingLine) (first []waitingLine, total int) {
	type alike struct {
		id     int
		reason string
	}
	seen := map[alike]int{}
	for _, job := range jobs {
		total += job.Tasks
		key := alike{job.ID, job.Reason}
		if at, found := seen[key]; found {
			first[at].Tasks += job.Tasks
			continue
		}
		seen[key] = len(first)
		first = append(first, job)
	}
	slices.SortStableFunc(first, func(a, b waitingLine) int { return cmp.Compare(rank(a), rank(b)) })
	return first[:min(len(first), protocol.MostWaiting)], total
}

func rank(j waitingLine) int {
	if j.Grows {
		return 0
	}
	return 1
}

// mostAsked bounds the jobs that one look asks about; a command costs about 5 ms.
const mostAsked = 50

// requests are what jobs ask for, as scontrol told it, by what squeue tells of each.
type requests map[string]request

// of are the jobs that wait, those that more nodes would help with all that they ask for. A job that was not asked about yet
// makes no queue grow; the next look asks.
func (r *requests) of(ctx context.Context, c Control, v version, jobs []waitingLine) ([]protocol.WaitingJob, error) {
	known, asked := requests{}, 0
	var all []protocol.WaitingJob
	for _, job := range jobs {
		if !job.Grows {
			all = append(all, job.WaitingJob)
			continue
		}
		asks, found := (*r)[job.asks]
		if !found && asked < mostAsked {
			asked++
			id := strconv.Itoa(job.number)
			text, err := c.run(ctx, "show job "+id, "scontrol", "show", "job", "-o", id)
			if errors.Is(err, ErrUnknown) {
				continue // it has ended since
			}
			if err != nil {
				return nil, err
			}
			if asks, found, err = parseRequest(text, v); err != nil { // its user may have written that: no other is to suffer
				asks, found = request{fixed: fmt.Sprintf("its line of scontrol cannot be read (%v)", err)}, true
			}
		}
		if found {
			known[job.asks] = asks
			job.Request, job.Fixed = asks.Request, asks.fixed
		}
		job.Grows = found
		all = append(all, job.WaitingJob)
	}
	*r = known
	return all, nil
}
