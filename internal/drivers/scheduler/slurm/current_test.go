package slurm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/internal/protocol"
)

// currentRecord is a record of squeue with tabs for delimiters; words are those fields that are not as usual.
func currentRecord(words ...string) string {
	said := map[string]string{"jobid": "7", "arrayjobid": "7", "arraytaskid": "N/A", "hetjobid": "N/A",
		"hetjoboffset": "N/A", "state": "PENDING", "exit_code": "0", "username": "ada", "partition": "main", "qos": "normal",
		"numnodes": "2", "numcpus": "4", "submittime": "1795780000", "starttime": "N/A", "endtime": "N/A",
		"reason": "Resources", "name": "solve"}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		said[key] = value
	}
	var b strings.Builder
	for field := range strings.SplitSeq(currentFields, ",") {
		b.WriteString(said[field] + "\t")
	}
	return b.String() + "\n"
}

func TestCurrentJobsAreReadFromSqueue(t *testing.T) {
	text := currentRecord() + currentRecord("jobid=8", "state=RUNNING", "starttime=1795780003", "nodelist=n[1-2]", "reason=None",
		"name=a\nb|c") + currentRecord("jobid=9", "arrayjobid=9", "arraytaskid=0-18:2%3") + currentRecord("jobid=10",
		"arrayjobid=9", "arraytaskid=4", "state=SUSPENDED", "starttime=1795780003", "nodelist=n1", "reason=None") +
		currentRecord("jobid=12", "hetjobid=11", "hetjoboffset=1") + currentRecord("state=COMPLETING", "endtime=1795780009") +
		currentRecord("jobid=5", "state=TIMEOUT", "starttime=1795780003", "endtime=1795780063", "nodelist=n[1-2]",
			"tres-alloc=cpu=4,mem=1.50G,node=2,billing=4,gres/gpu=2", "exit_code=15") +
		currentRecord("jobid=6", "state=CANCELLED", "starttime=1795780007", "endtime=1795780007") +
		currentRecord("jobid=4", "state=FAILED", "starttime=1795780003", "endtime=1795780004", "nodelist=n1", "exit_code=3:0")
	seen, err := parseCurrent(delimited(text, "<>"), "<>")
	if err != nil || len(seen.completing) != 1 || seen.completing[0].Unix() != 1795780009 {
		t.Fatal(err, seen.completing)
	}
	at := func(seconds int64) time.Time { return time.Unix(1795780000+seconds, 0).UTC() }
	if n := len(seen.ended); n != 3 {
		t.Fatalf("%+v have ended", seen.ended)
	}
	late, never, failed := seen.ended[0], seen.ended[1], seen.ended[2]
	if late.Outcome != protocol.JobTimedOut || late.MemoryMiB != 1536 || late.GPUs != 2 || late.Signal != 15 || late.CPUs != 4 ||
		!late.Began.Equal(at(3)) || !late.Ended.Equal(at(63)) || late.Used != nil || late.Nodes != "n[1-2]" {
		t.Errorf("one that ran for too long: %+v", late)
	}
	if never.Outcome != protocol.JobCancelled || !never.Began.IsZero() || !never.Ended.Equal(at(7)) || never.CPUs != 0 {
		t.Errorf("one that never ran: %+v", never)
	}
	if failed.Outcome != protocol.JobFailed || failed.Exit != 3 || failed.Signal != 0 {
		t.Errorf("one that failed: %+v", failed)
	}
	job := func(number int64, id string, change func(*protocol.CurrentJob)) protocol.CurrentJob {
		j := protocol.CurrentJob{Job: protocol.Job{Number: number, ID: id, User: "ada", Queue: "main", QOS: "normal",
			Name: "solve", NodeCount: 2, CPUs: 4, Submitted: time.Unix(1795780000, 0).UTC()}, Tasks: 1, Reason: "Resources"}
		change(&j)
		return j
	}
	runs := func(nodes, name string) func(*protocol.CurrentJob) {
		return func(j *protocol.CurrentJob) {
			j.Began, j.Nodes, j.Name, j.Reason = time.Unix(1795780003, 0).UTC(), nodes, name, ""
		}
	}
	as := func(*protocol.CurrentJob) {}
	want := protocol.CurrentJobs{Running: 2, Waiting: 12, Jobs: []protocol.CurrentJob{
		job(8, "8", runs("n[1-2]", "a\nb|c")), job(10, "9_4", runs("n1", "solve")), job(7, "7", as),
		job(9, "9_[0-18:2%3]", func(j *protocol.CurrentJob) { j.Tasks = 10 }), job(12, "11+1", as),
	}}
	if diff := cmp.Diff(want, seen.current); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"numnodes=x", "numcpus=", "jobid=1_2", "arraytaskid=3-1"} {
		seen, err := parseCurrent(delimited(currentRecord(bad)+currentRecord("jobid=9"), "<>"), "<>")
		if err != nil || len(seen.unread) != 1 || len(seen.current.Jobs) != 1 || seen.current.Jobs[0].Number != 9 {
			t.Errorf("%s: %+v, %v", bad, seen, err)
		}
	}
	var many strings.Builder
	for n := range 2 * protocol.MostCurrent {
		many.WriteString(currentRecord(fmt.Sprintf("jobid=%d", n+1)))
	}
	many.WriteString(currentRecord("state=RUNNING", "starttime=1795780003"))
	seen, err = parseCurrent(delimited(many.String(), "<>"), "<>")
	got := seen.current
	if err != nil || len(got.Jobs) != protocol.MostCurrent || got.Jobs[0].Began.IsZero() ||
		got.Waiting != 2*protocol.MostCurrent {
		t.Errorf("%d of %d and %d, %v", len(got.Jobs), got.Running, got.Waiting, err)
	}
}

func TestADelimiterIsNoWidth(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		mark := newDelimiter()
		if seen[mark] || mark[0] < 'A' || mark[0] > 'Z' || strings.ContainsAny(mark, " ,:.") {
			t.Errorf("%q", mark)
		}
		seen[mark] = true
	}
}

func FuzzCurrent(f *testing.F) {
	f.Add(delimited(currentRecord("arraytaskid=0-18:2%3"), "<>"))
	f.Fuzz(func(t *testing.T, text string) {
		seen, err := parseCurrent(text, "<>")
		for _, j := range seen.current.Jobs {
			if err == nil && (len(j.ID) > mostID || len(j.Name) > mostName || j.Tasks < 1) {
				t.Errorf("%+v", j)
			}
		}
	})
}
