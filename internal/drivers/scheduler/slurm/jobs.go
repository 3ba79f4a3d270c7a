package slurm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/noded/protocol"
)

// What squeue is asked for: of every job, or task of an array, that has not ended, one line. The reason is last, since
// it may contain anything.
const (
	jobStates = "pending,running,completing,suspended,configuring"
	jobFormat = "%A|%t|%N|%F|%P|%u|%D|%C|%c|%h|%V|%S|%E|%r"
)

// ParseJobs reads what squeue prints in jobFormat: those on nodes, by node, and those that wait.
func ParseJobs(text string, now time.Time) (map[string][]scheduler.Job, protocol.Waiting, error) {
	jobs, waiting := map[string][]scheduler.Job{}, []protocol.WaitingJob{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		words := strings.SplitN(line, "|", strings.Count(jobFormat, "|")+1)
		id, err := strconv.Atoi(words[0])
		if err != nil || len(words) <= strings.Count(jobFormat, "|") {
			return nil, protocol.Waiting{}, fmt.Errorf("not a line of squeue: %.60q", line)
		}
		if words[1] == "PD" {
			job, err := waitingJob(words, now)
			if err != nil {
				return nil, protocol.Waiting{}, fmt.Errorf("%w in %.80q", err, line)
			}
			waiting = append(waiting, job)
			continue
		}
		names, err := ExpandHosts(words[2])
		if err != nil {
			return nil, protocol.Waiting{}, err
		}
		for _, name := range names {
			jobs[name] = append(jobs[name], scheduler.Job{ID: id, Ends: words[1] == "CG"})
		}
	}
	return jobs, bounded(waiting), nil
}

// waitingJob reads the words of a job that is pending.
func waitingJob(words []string, now time.Time) (protocol.WaitingJob, error) {
	job := protocol.WaitingJob{Tasks: 1, Queues: strings.Split(words[4], ","), User: words[5], Whole: words[9] == "NO",
		Reason: words[13]}
	var since int64
	for _, field := range []struct {
		text string
		into *int
	}{{words[3], &job.ID}, {words[6], &job.Nodes}, {words[7], &job.CPUs}, {words[8], &job.NodeCPUs}} {
		n, err := count(field.text)
		if err != nil {
			return job, err
		}
		*field.into = n
	}
	since, err := strconv.ParseInt(words[10], 10, 64)
	if err != nil {
		return job, fmt.Errorf("%q is no time", words[10])
	}
	job.Since = time.Unix(since, 0).UTC()
	if lacksNodes(job.Reason) {
		// What Slurm says first of a job is about nodes even where it waits for something else, which it says a moment later.
		start, err := strconv.ParseInt(words[11], 10, 64)
		switch {
		case words[12] != "" && words[12] != "(null)":
			job.Reason = "Dependency"
		case err == nil && strings.HasPrefix(job.Reason, "Partition") && time.Unix(start, 0).After(now):
			job.Reason = "BeginTime"
		default:
			job.Grows = true
		}
	}
	return job, nil
}

// lacksNodes says that a job with this reason would run if its queue had enough free nodes. PartitionConfig and
// PartitionNodeLimit are what Slurm says of a job that wants more nodes than its queue has now. None is no such reason:
// Slurm has not looked at the job yet, and may find room for it.
func lacksNodes(reason string) bool {
	switch reason {
	case "Resources", "Priority", "PartitionConfig", "PartitionNodeLimit", "NodeDown":
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
func bounded(jobs []protocol.WaitingJob) protocol.Waiting {
	type alike struct {
		id     int
		reason string
	}
	w := protocol.Waiting{Total: len(jobs)}
	seen := map[alike]int{}
	for _, job := range jobs {
		key := alike{job.ID, job.Reason}
		if at, found := seen[key]; found {
			w.Jobs[at].Tasks++
			continue
		}
		seen[key] = len(w.Jobs)
		w.Jobs = append(w.Jobs, job)
	}
	slices.SortStableFunc(w.Jobs, func(a, b protocol.WaitingJob) int { return cmp.Compare(rank(a), rank(b)) })
	w.Jobs = w.Jobs[:min(len(w.Jobs), protocol.MostWaiting)]
	return w
}

func rank(j protocol.WaitingJob) int {
	if j.Grows {
		return 0
	}
	return 1
}
