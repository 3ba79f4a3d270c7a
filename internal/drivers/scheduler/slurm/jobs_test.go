package slurm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/internal/drivers/scheduler"
	"muster/internal/noded/protocol"
)

func TestJobsOfARealSlurmAreRead(t *testing.T) {
	running, waiting, err := ParseJobs(read(t, "jobs.txt"), time.Unix(1795262300, 0))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]scheduler.Job{"n1": {{ID: 62}, {ID: 61, Ends: true}}, "n2": {{ID: 61, Ends: true}}},
		running); diff != "" {
		t.Error(diff)
	}
	job := func(id, tasks, nodes, cpus, nodeCPUs int, since int64, grows bool, reason string) protocol.WaitingJob {
		return protocol.WaitingJob{ID: id, Tasks: tasks, User: "admin", Queues: []string{"main"}, Nodes: nodes, CPUs: cpus,
			NodeCPUs: nodeCPUs,
			Since:    time.Unix(since, 0).UTC(), Grows: grows, Reason: reason}
	}
	whole := func(j protocol.WaitingJob) protocol.WaitingJob {
		j.Whole = true
		return j
	}
	either := job(55, 1, 1, 4, 4, 1795262152, true, "ReqNodeNotAvail, May be reserved for other job")
	either.Queues = []string{"main", "cpu"}
	want := protocol.Waiting{Total: 9, Jobs: []protocol.WaitingJob{
		job(53, 1, 2, 4, 1, 1795262151, true, "PartitionConfig"),
		whole(job(54, 2, 2, 4, 1, 1795262151, true, "PartitionConfig")),
		either,
		job(60, 1, 1, 1, 1, 1795262220, true, "Priority"),
		whole(job(54, 1, 2, 4, 1, 1795262151, false, "JobArrayTaskLimit")),
		job(56, 1, 2, 1, 1, 1795262152, false, "BeginTime"),
		job(58, 1, 1, 1, 1, 1795262173, false, "Dependency"),
		job(59, 1, 1024, 1024, 1, 1795262173, false, "JobHeldUser"),
	}}
	if diff := cmp.Diff(want, waiting); diff != "" {
		t.Error(diff)
	}
}

func TestThousandsOfWaitingJobsAreCountedAndFewAreTold(t *testing.T) {
	var text strings.Builder
	for id := range 1000 {
		fmt.Fprintf(&text, "%[1]d|PD||%[1]d|main|admin|1|1|1|OK|1795262151|N/A|(null)|JobHeldUser\n", id)
	}
	text.WriteString("1000|PD||1000|main|admin|1|1|1|OK|1795262151|N/A|(null)|Resources\n")
	_, waiting, err := ParseJobs(text.String(), time.Now())
	if err != nil || waiting.Total != 1001 || len(waiting.Jobs) != protocol.MostWaiting || waiting.Jobs[0].ID != 1000 {
		t.Errorf("%v: %d of %d, first %+v", err, len(waiting.Jobs), waiting.Total, waiting.Jobs[0])
	}
}

func TestWhatSqueueDoesNotPrintIsRefused(t *testing.T) {
	for _, text := range []string{"x", "1|PD", "1|PD||1|main|me|x|1|1|OK|1|N/A|(null)|None",
		"1|PD||1|main|me|1|1|1|OK|yesterday|N/A|(null)|None", "1|R|n[|1|main|me|1|1|1|OK|1|N/A|(null)|None"} {
		if _, _, err := ParseJobs(text, time.Now()); err == nil {
			t.Errorf("accepted %q", text)
		}
	}
}
