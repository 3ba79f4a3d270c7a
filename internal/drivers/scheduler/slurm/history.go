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

	"muster/internal/kit/printable"
	"muster/internal/protocol"
)

// What sacct is asked for: a record of each end of a job, and after it one of each of its steps. Users have written some of it.
const historyFields = "jobidraw,jobid,user,partition,qos,jobname,nodelist,nnodes,alloccpus,alloctres,submit,start,end,state," +
	"exitcode,totalcpu,tresusageintot"

// endStates are those of jobs that have ended.
const endStates = "BF,CA,CD,DL,F,NF,OOM,PR,RQ,RV,TO"

// outcomes are what Slurm's words for them mean.
func outcomes() map[string]protocol.JobState {
	return map[string]protocol.JobState{
		"COMPLETED": protocol.JobCompleted, "FAILED": protocol.JobFailed, "TIMEOUT": protocol.JobTimedOut,
		"DEADLINE": protocol.JobTimedOut, "OUT_OF_MEMORY": protocol.JobOutOfMemory, "CANCELLED": protocol.JobCancelled,
		"REVOKED": protocol.JobCancelled, "NODE_FAIL": protocol.JobNodeFailed, "BOOT_FAIL": protocol.JobNodeFailed,
		"PREEMPTED": protocol.JobPreempted, "REQUEUED": protocol.JobRequeued,
	}
}

const (
	historyPatience = 30 * time.Second // sacct reads from a disk
	shortestLook    = time.Minute      // of the past, at a time
	jobsAtOnce      = 500              // in one answer, and as many more as ended in the same second
	// settles is how long what a job's end says is on its way to slurmdbd, and completes how long a job that is completing is
	// waited for: the use of its steps comes last.
	settles   = 2 * time.Second
	completes = 5 * time.Minute
	// gathers is the pause between two looks of Slurm's at the memory of a step. The first look is at its start, so the memory of
	// shorter jobs is not known. See slurm.conf.
	gathers = 5 * time.Second
)

// history asks slurmdbd for jobs that ended between two times, or in a first part of that.
func (d *driver) history(ctx context.Context, since, until time.Time) (told protocol.JobsTold, err error) {
	if !until.After(since) {
		return told, nil
	}
	whole := d.longestLook == 0 || until.Sub(since) <= d.longestLook
	if !whole {
		until = since.Add(d.longestLook)
	}
	const stamp = "2006-01-02T15:04:05"
	delimiter := newDelimiter()
	text, err := d.within(ctx, historyPatience, "list jobs that have ended", "TZ=UTC", "SLURM_TIME_FORMAT=%s", "sacct", "-aDnp",
		"--delimiter="+delimiter, "-S", since.UTC().Format(stamp), "-E", until.UTC().Format(stamp), "-s", endStates,
		"-o", historyFields)
	if err != nil {
		if ctx.Err() == nil {
			d.longestLook = max(until.Sub(since)/4, shortestLook)
		}
		return told, err
	}
	all, unread, err := parseHistory(text, delimiter)
	if err != nil {
		return told, fmt.Errorf("slurm: list jobs that have ended: %w", err)
	}
	for _, err := range unread {
		d.Printf("not told to the site: %v", err)
	}
	told.Ended, told.Until = firstEnded(all, since, until)
	switch {
	case told.Until.Before(until), !whole:
		d.longestLook = max(2*told.Until.Sub(since), shortestLook)
	default:
		d.longestLook = 0
	}
	return told, nil
}

// recordedUntil is until when slurmdbd knows all that has ended, by jobs that are completing and have ended then.
func recordedUntil(now time.Time, completing []time.Time) time.Time {
	until := now.Add(-settles).Truncate(time.Second)
	for _, at := range completing {
		if at.Before(until) && now.Sub(at) < completes {
			until = at
		}
	}
	return until
}

// firstEnded are the first of those that ended between two times, and until when these are all.
func firstEnded(jobs []protocol.EndedJob, since, until time.Time) ([]protocol.EndedJob, time.Time) {
	if !until.After(since) {
		return nil, time.Time{}
	}
	jobs = slices.DeleteFunc(jobs, func(j protocol.EndedJob) bool { return j.Ended.Before(since) || !j.Ended.Before(until) })
	slices.SortStableFunc(jobs, func(a, b protocol.EndedJob) int { return a.Ended.Compare(b.Ended) })
	n := min(len(jobs), jobsAtOnce)
	for n > 0 && n < len(jobs) && jobs[n].Ended.Equal(jobs[n-1].Ended) {
		n++
	}
	if n < len(jobs) {
		until = jobs[n].Ended
	}
	return jobs[:min(n, protocol.MostEnded)], until
}

// parseHistory reads what sacct prints. unread is why some jobs are left out.
func parseHistory(text, delimiter string) (jobs []protocol.EndedJob, unread []error, err error) {
	all, err := readRecords(text, historyFields, delimiter)
	var job *protocol.EndedJob // whose steps come
	for _, record := range all {
		if !strings.Contains(record["jobidraw"], ".") {
			read, err := endedJob(record)
			if job = nil; err != nil {
				unread = append(unread, err)
				continue
			}
			jobs = append(jobs, read)
			job = &jobs[len(jobs)-1]
			continue
		}
		used := resources(record["tresusageintot"])["mem"]
		if peak, err := mebibytes(used); job != nil && err == nil && strings.TrimRight(used, "KMGTP") != used && // else in bytes
			job.Ended.Sub(job.Began) > gathers {
			job.Used.PeakMiB = max(job.Used.PeakMiB, int64(peak))
		}
	}
	return jobs, unread, err
}

// endedJob reads the record of a job.
func endedJob(record map[string]string) (protocol.EndedJob, error) {
	number, err := strconv.ParseInt(record["jobidraw"], 10, 64)
	job := protocol.EndedJob{Job: protocol.Job{
		Number: number, ID: printable.Cut(record["jobid"], mostID), User: record["user"], Queue: record["partition"],
		QOS: record["qos"], Name: nameOf(record["jobname"]), Submitted: instant(record["submit"]),
		Began: instant(record["start"]),
	}, Ended: instant(record["end"])}
	state, _, _ := strings.Cut(record["state"], " ") // CANCELLED by 5000
	job.Outcome = outcomes()[state]
	if err != nil || job.Ended.IsZero() || job.Outcome == "" {
		return job, fmt.Errorf("job %.20q is %.40q and has ended at %.40q", record["jobidraw"], record["state"], record["end"])
	}
	failed := allot(&job.Job, record["alloctres"])
	for field, into := range map[string]*int{"nnodes": &job.NodeCount, "alloccpus": &job.CPUs} {
		n, err := count(record[field])
		failed = errors.Join(failed, err)
		*into = n
	}
	job.Exit, job.Signal = exitOf(record["exitcode"])
	if job.CPUs == 0 { // it never had any
		job.Began, job.NodeCount = time.Time{}, 0
	} else {
		job.Nodes = printable.Cut(record["nodelist"], mostNodes)
	}
	seconds, err := cpuSeconds(record["totalcpu"])
	job.Used = &protocol.JobUse{CPUSeconds: seconds}
	if failed = errors.Join(failed, err); failed != nil {
		return job, fmt.Errorf("job %d: %w", number, failed)
	}
	return job, nil
}

// instant reads a time in seconds; zero: there is none.
func instant(text string) time.Time {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// allot notes the memory and GPUs that a job was given.
func allot(job *protocol.Job, text string) error {
	has := resources(text)
	memory, err1 := mebibytes(has["mem"])
	gpus, err2 := count(cmp.Or(has["gres/gpu"], "0"))
	job.MemoryMiB, job.GPUs = int64(memory), gpus
	return errors.Join(err1, err2)
}

// resources reads a list of them, as cpu=2,mem=800M,gres/gpu=1.
func resources(text string) map[string]string {
	has := map[string]string{}
	for item := range strings.SplitSeq(text, ",") {
		name, amount, _ := strings.Cut(item, "=")
		has[name] = amount
	}
	return has
}

// cpuSeconds reads [days-][hours:]minutes:seconds[.fraction].
func cpuSeconds(text string) (float64, error) {
	days, clock, found := strings.Cut(text, "-")
	if !found {
		days, clock = "0", text
	}
	total, failed := 0.0, error(nil)
	read := func(number string, unit float64) float64 {
		n, err := strconv.ParseFloat(number, 64)
		failed = errors.Join(failed, err)
		return n * unit
	}
	for part := range strings.SplitSeq(clock, ":") {
		total = 60*total + read(part, 1)
	}
	if total += read(days, 24*60*60); failed != nil || !(total >= 0 && total < 1e15) {
		return 0, fmt.Errorf("%.40q is no time", text)
	}
	return total, nil
}
