package slurm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"muster/internal/kit/printable"
	"muster/internal/protocol"
)

// What squeue is asked for to tell people of jobs. Users have written some of it.
const currentFields = "jobid,arrayjobid,arraytaskid,hetjobid,hetjoboffset,state,username,partition,qos,numnodes,numcpus," +
	"tres-alloc,submittime,starttime,endtime,exit_code,nodelist,reason,name"

// What is kept of what users write, in bytes.
const (
	mostID    = 60
	mostName  = 128
	mostNodes = 512
)

// Tell asks squeue for the jobs that there are. Those that have ended slurmdbd knows; where there is none, slurmctld does for
// MinJobAge, but not what they have used.
func (d *driver) Tell(ctx context.Context, since time.Time) (told protocol.JobsTold, err error) {
	if !d.Listening(Port) {
		return told, nil
	}
	now, delimiter, states := time.Now(), newDelimiter(), jobStates
	light := !d.keeps && d.light.Load()
	if light {
		states = "all"
	}
	text, err := d.run(ctx, "list jobs", "SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0", "squeue", "-h", "-t", states,
		"-S", "-p,i", "-O", strings.ReplaceAll(currentFields, ",", ":"+delimiter+",")+":"+delimiter)
	if err != nil {
		return told, err
	}
	seen, err := parseCurrent(text, delimiter)
	if err != nil {
		return told, fmt.Errorf("slurm: list jobs: %w", err)
	}
	if unread := strings.Join(seen.unread, "; "); unread != d.unread { // which is said once
		if d.unread = unread; unread != "" {
			d.Printf("not told to the site: %s", unread)
		}
	}
	until := recordedUntil(now, seen.completing)
	switch {
	case light:
		told.Ended, told.Until = firstEnded(seen.ended, since, until)
	case d.keeps && d.Running(slurmdbd):
		// What of jobs that are not completing any more is on its way to slurmdbd is counted now, or has arrived.
		text, err := d.run(ctx, "ask for what is not recorded", "sdiag")
		if err == nil && recordsIn(text) == 0 {
			told, err = d.history(ctx, since, until)
		}
		if err != nil {
			return told, err
		}
	}
	told.Current = &seen.current
	return told, nil
}

// newDelimiter is a mark that no user can have written before. It begins with a letter: to squeue, a number after the name of a
// field is its width.
func newDelimiter() string { return "X" + rand.Text()[:8] }

// readRecords reads what squeue and sacct print when each field ends with the delimiter, and each record with a new line.
func readRecords(text, fields, delimiter string) (all []map[string]string, err error) {
	names := strings.Split(fields, ",")
	for text = strings.TrimLeft(text, "\n"); text != ""; text = strings.TrimPrefix(text, "\n") {
		record := make(map[string]string, len(names))
		for _, name := range names {
			value, rest, found := strings.Cut(text, delimiter)
			if !found {
				return nil, fmt.Errorf("not a record: %.80q", text)
			}
			record[name], text = value, rest
		}
		all = append(all, record)
	}
	return all, nil
}

// seenJobs are jobs as squeue tells of them.
type seenJobs struct {
	current    protocol.CurrentJobs
	completing []time.Time // when those have ended that are completing
	ended      []protocol.EndedJob
	unread     []string // why others are left out
}

// parseCurrent reads what squeue prints.
func parseCurrent(text, delimiter string) (seen seenJobs, err error) {
	all, err := readRecords(text, currentFields, delimiter)
	if err != nil {
		return seen, err
	}
	var waiting []protocol.CurrentJob
	for _, record := range all {
		state, ends := record["state"], outcomes()
		if state == "COMPLETING" {
			seen.completing = append(seen.completing, instant(record["endtime"]))
			continue
		}
		job, err := currentJob(record)
		if err != nil {
			seen.unread = append(seen.unread, err.Error())
			continue
		}
		switch outcome, ended := ends[state]; {
		case ended:
			seen.ended = append(seen.ended, endedNow(job.Job, record, outcome))
		case state == "PENDING":
			seen.current.Waiting += job.Tasks
			waiting = append(waiting, job)
		default:
			job.Began, job.Reason = instant(record["starttime"]), ""
			seen.current.Running++
			seen.current.Jobs = append(seen.current.Jobs, job)
		}
	}
	first := append(seen.current.Jobs, waiting...)
	seen.current.Jobs = first[:min(len(first), protocol.MostCurrent)]
	return seen, nil
}

// currentJob reads a record.
func currentJob(record map[string]string) (protocol.CurrentJob, error) {
	number, err1 := strconv.ParseInt(record["jobid"], 10, 64)
	tasks, _, err2 := arrayTasks(record["arraytaskid"])
	nodes, err3 := count(record["numnodes"])
	cpus, err4 := count(record["numcpus"])
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return protocol.CurrentJob{}, fmt.Errorf("job %.20q: %w", record["jobid"], err)
	}
	return protocol.CurrentJob{Job: protocol.Job{
		Number: number, ID: printable.Cut(idOf(record), mostID), User: record["username"], Queue: record["partition"],
		QOS: record["qos"], Name: nameOf(record["name"]), Nodes: printable.Cut(record["nodelist"], mostNodes), NodeCount: nodes,
		CPUs: cpus, Submitted: instant(record["submittime"]),
	}, Tasks: tasks, Reason: record["reason"]}, nil
}

// endedNow is a job that has ended, as slurmctld knows it for a while.
func endedNow(job protocol.Job, record map[string]string, outcome protocol.JobState) protocol.EndedJob {
	ended := protocol.EndedJob{Job: job, Ended: instant(record["endtime"]), Outcome: outcome}
	if job.Nodes == "" { // it never had any
		ended.NodeCount, ended.CPUs = 0, 0
		return ended
	}
	ended.Began = instant(record["starttime"])
	_ = allot(&ended.Job, record["tres-alloc"]) // what cannot be read is not known
	ended.Exit, ended.Signal = exitOf(record["exit_code"])
	return ended
}

// exitOf reads 3:0, or in earlier versions the number as wait(2) has it.
func exitOf(text string) (exit, signal int) {
	status, err := strconv.Atoi(text)
	if err == nil {
		return status >> 8 & 0xff, status & 0x7f
	}
	first, second, _ := strings.Cut(text, ":")
	exit, _ = strconv.Atoi(first)
	signal, _ = strconv.Atoi(second)
	return exit, signal
}

// idOf is how users write the job: 12, 12_3, 12_[4-9], 12+1.
func idOf(record map[string]string) string {
	tasks, het := record["arraytaskid"], record["hetjobid"]
	if _, err := strconv.Atoi(tasks); err == nil {
		return record["arrayjobid"] + "_" + tasks
	}
	if tasks != "" && tasks != "N/A" {
		return record["arrayjobid"] + "_[" + tasks + "]"
	}
	if _, err := strconv.Atoi(het); err == nil && het != "0" {
		return het + "+" + record["hetjoboffset"]
	}
	return record["jobid"]
}

// nameOf is what is kept of a name that a user has given.
func nameOf(text string) string { return printable.Cut(strings.ToValidUTF8(text, "?"), mostName) }
