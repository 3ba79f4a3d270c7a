package slurm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
)

func TestJobsOfARealSlurmAreRead(t *testing.T) {
	q, err := parseJobs(read(t, "jobs.txt"), time.Unix(1795262300, 0))
	if err != nil {
		t.Fatal(err)
	}
	running := map[string][]scheduler.Job{"n1": {{ID: 62}, {ID: 61, Ends: true}}, "n2": {{ID: 61, Ends: true}, {ID: 63}}}
	if diff := cmp.Diff(running, q.running); diff != "" {
		t.Error(diff)
	}
	job := func(id, tasks, nodes, cpus, nodeCPUs int, since int64, grows bool, reason string) protocol.WaitingJob {
		return protocol.WaitingJob{ID: id, Tasks: tasks, User: "admin", Queues: []string{"main"},
			Request: protocol.Request{Nodes: nodes, CPUs: cpus, NodeCPUs: nodeCPUs},
			Since:   time.Unix(since, 0).UTC(), Grows: grows, Reason: reason}
	}
	array := job(54, 4, 2, 4, 1, 1795262151, true, "PartitionConfig") // two of its tasks may run at once, and one does
	array.Whole, array.AtOnce = true, 1
	either := job(55, 1, 1, 4, 4, 1795262152, true, "ReqNodeNotAvail, May be reserved for other job")
	either.Queues = []string{"main", "cpu"}
	want := []protocol.WaitingJob{
		job(53, 1, 2, 4, 1, 1795262151, true, "PartitionConfig"),
		array,
		either,
		job(60, 1, 1, 1, 1, 1795262220, true, "Priority"),
		job(56, 1, 2, 1, 1, 1795262152, false, "BeginTime"),
		job(58, 1, 1, 1, 1, 1795262173, false, "Dependency"),
		job(59, 1, 1024, 1024, 1, 1795262173, false, "JobHeldUser"),
	}
	first, total := bounded(q.waiting)
	var got []protocol.WaitingJob
	for _, line := range first {
		got = append(got, line.WaitingJob)
	}
	if diff := cmp.Diff(want, got); diff != "" || total != 10 {
		t.Errorf("%d\n%s", total, diff)
	}
}

// pending is a line of squeue; words are those fields that are not as usual.
func pending(id int, words ...string) string {
	said := map[string]string{"jobid": fmt.Sprint(id), "statecompact": "PD", "arraytaskid": "N/A", "starttime": "N/A",
		"dependency": "(null)", "arrayjobid": fmt.Sprint(id), "partition": "main", "username": "admin", "numnodes": "1",
		"numcpus": "1", "mincpus": "1", "oversubscribe": "OK", "submittime": "1795262151", "reason": "Resources"}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		said[key] = value
	}
	var b strings.Builder
	for _, field := range strings.Fields(jobFields) {
		b.WriteString(said[field] + "\t")
	}
	return b.String() + "\n"
}

func TestThousandsOfWaitingJobsAreCountedAndFewAreTold(t *testing.T) {
	var text strings.Builder
	for id := range 1000 {
		text.WriteString(pending(id, "reason=JobHeldUser"))
	}
	text.WriteString(pending(1000))
	q, err := parseJobs(text.String(), time.Now())
	first, total := bounded(q.waiting)
	if err != nil || total != 1001 || len(first) != protocol.MostWaiting || first[0].ID != 1000 {
		t.Errorf("%v: %d of %d, first %+v", err, len(first), total, first[0])
	}
}

func TestWhatSqueueDoesNotPrintIsRefused(t *testing.T) {
	for _, text := range []string{"x", "1\tPD", pending(1, "numnodes=x"), pending(1, "submittime=yesterday"),
		pending(1, "arrayjobid="), pending(1, "arraytaskid=3-1"), pending(1, "arraytaskid=1-9:0"), pending(1, "arraytaskid=1%x"),
		pending(1, "statecompact=R", "nodelist=n[")} {
		if _, err := parseJobs(text, time.Now()); err == nil {
			t.Errorf("accepted %q", text)
		}
	}
}

// request77 is what a real Slurm 22.05 says of a job, with a name that says something else.
const request77 = `JobId=77 JobName=x NumNodes=9 UserId=alice(1000) GroupId=alice(1000) MCS_label=N/A Priority=4294901752 Nice=0 ` +
	`Account=(null) QOS=(null) JobState=PENDING Reason=PartitionConfig Dependency=(null) TimeLimit=UNLIMITED Partition=cpu,main ` +
	`AllocNode:Sid=head:2705 ReqNodeList=(null) ExcNodeList=(null) NodeList= %s Socks/Node=* NtasksPerN:B:S:C=2:0:*:* ` +
	`CoreSpec=* MinCPUsNode=4 MinMemoryCPU=1.50G MinTmpDiskNode=2G Features=(null) DelayBoot=00:00:00 OverSubscribe=OK ` +
	`Contiguous=0 Licenses=(null) Network=(null) Command=(null) WorkDir=/tmp Power= %s` + "\n"

func TestWhatAJobAsksForIsRead(t *testing.T) {
	const shape = "NumNodes=2-3 NumCPUs=8 NumTasks=4 CPUs/Task=2 ReqB:S:C:T=0:0:*:* TRES=cpu=8,mem=16G,node=1,billing=8"
	base := protocol.Request{Nodes: 1, MostNodes: 3, CPUs: 8, NodeCPUs: 4, Ranks: 4, NodeRanks: 2, RankCPUs: 2, CPUMemory: 1536,
		NodeTmp: 2048}
	line := strings.Replace(fmt.Sprintf(request77, shape, "TresPerNode=gres:gpu:a40:1,gres:gpu:1"), "x NumNodes=9", "x", 1)
	for name, c := range map[string]struct {
		from, to string
		change   func(*request)
	}{
		"as it is": {"", "", func(*request) {}},
		"newer":    {"TRES=", "ReqTRES=", func(*request) {}},
		"all of a node's memory": {"MinMemoryCPU=1.50G", "MinMemoryNode=0", func(r *request) {
			r.CPUMemory, r.Whole = 0, true
		}},
		"whole nodes": {"OverSubscribe=OK", "OverSubscribe=NO", func(r *request) { r.Whole = true }},
		"GPUs of tasks": {"TresPerNode=gres:gpu:a40:1,gres:gpu:1", "TresPerTask=gres:gpu:2", func(r *request) {
			r.NodeGPUs, r.RankGPUs = 0, 2
		}},
		"memory by GPUs": {"TresPerNode=", "MemPerTres=gres:gpu:1024 TresPerNode=", func(r *request) {
			r.CPUMemory, r.GPUMemory = 0, 1024
		}},
		"a node by its name": {"ReqNodeList=(null)", "ReqNodeList=cpu2", func(r *request) {
			r.fixed = "it asks for cpu2 by name"
		}},
		"notes of the submit script": {"Power=", "AdminComment=max_nodes=1,tasks=9 Power=", func(r *request) {
			r.MostNodes, r.Ranks = 1, 9
		}},
		"notes of what it does not ask for": {"Power=", "AdminComment=max_nodes=0,tasks=0,held Power=", func(r *request) {
			r.MostNodes, r.Ranks = 0, 0
		}},
		"more CPUs than its tasks have": {"MinCPUsNode=4", "MinCPUsNode=5", func(r *request) {
			r.NodeCPUs, r.fixed = 5, "it asks for 5 CPUs on nodes where its tasks have 4"
		}},
		"one CPU of a core's two threads": {"CPUs/Task=2", "CPUs/Task=1 NtasksPerN:B:S:C=1:0:*:* MinCPUsNode=1", func(r *request) {
			r.RankCPUs, r.NodeRanks, r.NodeCPUs, r.CPUMemory, r.NodeMemory = 1, 1, 1, 0, 1536
		}},
		"another comment":     {"Power=", "AdminComment=of-ours Power=", func(*request) {}},
		"its queue's feature": {"Features=(null)", "Features=main", func(*request) {}},
		"another feature": {"Features=(null)", "Features=fast", func(r *request) {
			r.fixed = "it asks for the feature fast"
		}},
	} {
		want := request{Request: base}
		want.NodeGPUs = 2
		c.change(&want)
		got, found, err := parseRequest(strings.Replace(line, c.from, c.to, 1), version{24, 11, 5})
		if err != nil || !found || got != want {
			t.Errorf("%s: %+v, %v, %v, not %+v", name, got, found, err, want)
		}
	}
	earlier := strings.Replace(line, "MinCPUsNode=4", "MinCPUsNode=5 AdminComment=max_nodes=1,tasks=9", 1)
	if got, _, err := parseRequest(earlier, version{22, 5, 8}); err != nil || got.fixed != "" || got.NodeCPUs != 5 ||
		got.MostNodes != 3 || got.Ranks != 4 {
		t.Errorf("22.05: %+v, %v", got, err)
	}
	for _, broken := range []string{"NumCPUs=eight", "MinMemoryCPU=inf", "MinMemoryCPU=9999999999999P",
		"TresPerNode=gres:gpu:x:y"} {
		key, _, _ := strings.Cut(broken, "=")
		i := strings.Index(line, " "+key+"=")
		if _, _, err := parseRequest(line[:i+1]+broken+" "+line[i+1:], nil); err == nil {
			t.Errorf("accepted %s", broken)
		}
	}
	if _, found, err := parseRequest(strings.Replace(line, "PENDING", "RUNNING", 1), nil); found || err != nil {
		t.Errorf("a job that runs: %v, %v", found, err)
	}
}

// TestFewJobsAreAskedAboutAtOnceAndNoneTwice: a user may submit thousands.
func TestFewJobsAreAskedAboutAtOnceAndNoneTwice(t *testing.T) {
	var commands []string
	c := Control{func(_ context.Context, argv ...string) ([]byte, error) {
		commands = append(commands, strings.Join(argv, " "))
		switch id := argv[len(argv)-1]; id {
		case "7":
			return nil, errors.New("slurm_load_jobs error: Invalid job id specified")
		case "9":
			return fmt.Appendf(nil, request77, "NumCPUs=eight", ""), nil
		default:
			return fmt.Appendf(nil, request77, "NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 TRES=cpu=1,node=1", ""), nil
		}
	}}
	var text strings.Builder
	for id := range 120 {
		text.WriteString(pending(id))
	}
	q, err := parseJobs(text.String(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var known requests
	for look, want := range []struct{ asked, grow int }{{50, 48}, {50, 97}, {22, 118}, {1, 118}} {
		commands = nil
		jobs, err := known.of(t.Context(), c, nil, q.waiting)
		grow := 0
		for _, j := range jobs {
			if j.Grows && j.CPUMemory == 1536 {
				grow++
			}
			if (j.ID == 9) != strings.Contains(j.Fixed, "cannot be read") {
				t.Errorf("job %d: %q", j.ID, j.Fixed)
			}
		}
		if err != nil || len(commands) != want.asked || grow != want.grow || commands[0] == "" {
			t.Errorf("look %d: %v, %d commands, %d jobs that grow", look, err, len(commands), grow)
		}
	}
}
