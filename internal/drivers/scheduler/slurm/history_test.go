package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/internal/protocol"
)

// delimited is what sacct prints with this delimiter of records that are written with tabs here.
func delimited(text, delimiter string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\t", delimiter), `\n`, "\n")
}

func TestJobsThatHaveEndedAreReadFromSacct(t *testing.T) {
	text, err := os.ReadFile("testdata/sacct.txt")
	if err != nil {
		t.Fatal(err)
	}
	got, unread, err := parseHistory(delimited(string(text), "<>"), "<>")
	if err != nil || unread != nil {
		t.Fatal(err, unread)
	}
	at := func(seconds int64) time.Time { return time.Unix(1795780000+seconds, 0).UTC() }
	job := protocol.Job{User: "admin", Queue: "main", QOS: "normal"}
	of := func(number int64, id, name string, submitted int64, change func(*protocol.EndedJob)) protocol.EndedJob {
		j := protocol.EndedJob{Job: job, Ended: at(submitted + 2)}
		j.Number, j.ID, j.Name, j.Submitted, j.Began = number, id, name, at(submitted), at(submitted+1)
		j.Nodes, j.NodeCount, j.CPUs, j.Used = "n1", 1, 1, &protocol.JobUse{}
		change(&j)
		return j
	}
	want := []protocol.EndedJob{
		of(1, "1", "hog", 0, func(j *protocol.EndedJob) {
			j.Nodes, j.NodeCount, j.CPUs, j.MemoryMiB = "n[1-2]", 2, 4, 1600
			j.Ended, j.Outcome, *j.Used = at(41), protocol.JobCompleted, protocol.JobUse{CPUSeconds: 18.25, PeakMiB: 300}
		}),
		of(3, "2_1", "evil|<\n4", 2, func(j *protocol.EndedJob) {
			j.GPUs, j.MemoryMiB, j.Outcome, j.Exit, j.Used.CPUSeconds = 2, 1536, protocol.JobFailed, 1, 93784.5
		}),
		of(4, "4", "never", 5, func(j *protocol.EndedJob) {
			j.Nodes, j.NodeCount, j.CPUs, j.Began, j.Ended, j.Outcome = "", 0, 0, time.Time{}, at(6), protocol.JobCancelled
		}),
		of(5, "5", "big", 5, func(j *protocol.EndedJob) {
			j.User, j.Outcome, j.Signal = "root", protocol.JobOutOfMemory, 9
		}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	const good = "9\t9\tu\tq\tnormal\tx\tn1\t1\t1\t\t0\t0\t5\tFAILED\t1:0\t00:00\t\t\n"
	for _, bad := range []string{"x\t1\t\t\t\t\t\t1\t1\t\t0\t0\t5\tFAILED\t0:0\t00:00\t\t\n",
		"1\t1\t\t\t\t\t\t1\t1\t\t0\t0\t5\tNEWSTATE\t0:0\t00:00\t\t\n",
		"1\t1\t\t\t\t\t\t1\t1\t\t0\t0\tUnknown\tFAILED\t0:0\t00:00\t\t\n",
		"1\t1\t\t\t\t\t\t1\t1\tmem=x\t0\t0\t5\tFAILED\t0:0\t00:00\t\t\n",
		"1\t1\t\t\t\t\t\t1\t1\t\t0\t0\t5\tFAILED\t0:0\tsoon\t\t\n"} {
		got, unread, err := parseHistory(delimited(good+bad+"1.0"+strings.Repeat("\t", 17)+"\n"+good, "<>"), "<>")
		if err != nil || len(got) != 2 || len(unread) != 1 {
			t.Errorf("%q: %+v, %v, %v", bad, got, unread, err)
		}
	}
	if got, _, err := parseHistory("1<>2<>", "<>"); err == nil {
		t.Errorf("what is no record is %+v", got)
	}
}

func TestJobsAreToldByWholeSeconds(t *testing.T) {
	second := func(n int) time.Time { return time.Unix(int64(1000+n), 0) }
	ended := func(each ...int) (jobs []protocol.EndedJob) { // so many in each second, the last first
		for n := len(each) - 1; n >= 0; n-- {
			for range each[n] {
				jobs = append(jobs, protocol.EndedJob{Ended: second(n)})
			}
		}
		return jobs
	}
	for _, c := range []struct {
		name  string
		jobs  []protocol.EndedJob
		told  int
		until time.Time
	}{
		{"none", nil, 0, second(9)},
		{"few", ended(3, 4), 7, second(9)},
		{"as many as at once", ended(250, 250), 500, second(9)},
		{"more", ended(250, 250, 1), 500, second(2)},
		{"a second is not divided", ended(499, 40, 7), 539, second(2)},
		{"one second", ended(0, 4000), 4000, second(9)},
	} {
		if got, until := firstEnded(c.jobs, second(0), second(9)); len(got) != c.told || !until.Equal(c.until) {
			t.Errorf("%s: %d until %v, want %d until %v", c.name, len(got), until, c.told, c.until)
		}
	}
}

// TestNoJobIsToldBeforeAllOfItIsKnown asks while records are on their way, and while a job is completing.
func TestNoJobIsToldBeforeAllOfItIsKnown(t *testing.T) {
	d, config := accountingHead(t, true)
	waits, records, runs := "0", "", map[string]bool{}
	var completes []time.Time
	var asked []string
	var fails error
	d.Running = func(daemon string) bool { return runs[daemon] }
	d.Listening = func(int) bool { return true }
	d.Control = Control{func(_ context.Context, argv ...string) ([]byte, error) {
		line := strings.Join(argv, " ")
		switch {
		case argv[0] == "sdiag":
			return []byte("DBD Agent queue size: " + waits + "\n"), nil
		case strings.Contains(line, "squeue"):
			_, rest, _ := strings.Cut(line, "jobid:")
			delimiter, _, _ := strings.Cut(rest, ",")
			var text string
			for _, at := range completes {
				text += currentRecord("state=COMPLETING", fmt.Sprintf("endtime=%d", at.Unix()))
			}
			return []byte(delimited(text, delimiter)), nil
		case !strings.Contains(line, " sacct "):
			return nil, errors.New("not there")
		}
		asked = argv
		_, rest, _ := strings.Cut(line, "--delimiter=")
		delimiter, _, _ := strings.Cut(rest, " ")
		return []byte(delimited(records, delimiter)), fails
	}}
	now := time.Now().Truncate(time.Second)
	since := now.Add(-time.Hour)
	ask := func(jobs int, until time.Time) {
		t.Helper()
		asked = nil
		got, err := d.Tell(t.Context(), since)
		if (err != nil) != (fails != nil) || len(got.Ended) != jobs || got.Until.Sub(until).Abs() > 20*time.Second ||
			(got.Current == nil) != (err != nil) {
			t.Errorf("%d jobs until %v, want %d until %v; %v", len(got.Ended), got.Until, jobs, until, err)
		}
	}
	ask(0, time.Time{}) // the cluster file is not known yet
	begin(t, d, config)
	ask(0, time.Time{}) // slurmdbd does not run
	runs[slurmdbd] = true
	for n, at := range []time.Time{since.Add(-time.Second), since, now.Add(-10 * time.Minute), now.Add(-20 * time.Second)} {
		records += fmt.Sprintf("%d\t%[1]d\tu\tq\tnormal\tx\tn1\t1\t1\t\t%[2]d\t%[2]d\t%[2]d\tCOMPLETED\t0:0\t00:01\t\t\\n",
			n+1, at.Unix())
	}
	ask(3, now)
	waits = "2"
	ask(0, time.Time{})
	waits, completes = "0", []time.Time{now.Add(-30 * time.Second), now.Add(-time.Hour)}
	ask(2, now.Add(-30*time.Second)) // one that has been completing for an hour is not waited for
	completes = nil

	fails = errors.New("too slow")
	ask(0, time.Time{})
	fails = nil
	ask(1, since.Add(15*time.Minute)) // a part
	end, err := time.Parse("2006-01-02T15:04:05", asked[slices.Index(asked, "-E")+1])
	if err != nil || end.Sub(since.Add(15*time.Minute)).Abs() > 20*time.Second {
		t.Errorf("it asked %s", asked)
	}
	ask(1, since.Add(30*time.Minute))
	ask(3, now)
	ask(3, now)
	if d.longestLook != 0 {
		t.Errorf("it looks at %v at a time", d.longestLook)
	}
}

func TestTimesOfProcessorsAreRead(t *testing.T) {
	for text, want := range map[string]float64{"00:00.012": 0.012, "01:02.5": 62.5, "02:00:01": 7201, "1-02:03:04": 93784} {
		if got, err := cpuSeconds(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func FuzzHistory(f *testing.F) {
	text, err := os.ReadFile("testdata/sacct.txt")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(delimited(string(text), "<>"))
	f.Fuzz(func(t *testing.T, text string) {
		jobs, _, err := parseHistory(text, "<>")
		for _, j := range jobs {
			if err == nil && (j.Ended.IsZero() || j.Outcome == "" || len(j.Name) > mostName || len(j.Nodes) > mostNodes ||
				j.CPUs < 0 || j.Used.PeakMiB < 0 || !(j.Used.CPUSeconds >= 0)) {
				t.Errorf("%+v", j)
			}
		}
	})
}

// TestWithoutAccountsSlurmctldTellsWhatHasEnded: for as long as it knows.
func TestWithoutAccountsSlurmctldTellsWhatHasEnded(t *testing.T) {
	now := time.Now()
	for says, told := range map[string]bool{"": true, "light": true, "none": false} {
		d, config := accountingHead(t, says == "light")
		config.Accounting, config.Self.MemoryMiB = says, 4096
		d.Listening = func(int) bool { return true }
		begin(t, d, config)
		d.Control = Control{func(_ context.Context, argv ...string) ([]byte, error) {
			line := strings.Join(argv, " ")
			_, rest, asked := strings.Cut(line, "jobid:")
			delimiter, _, _ := strings.Cut(rest, ",")
			if !asked || strings.Contains(line, " -t all ") != told {
				return nil, fmt.Errorf("it asked %s", line)
			}
			text := currentRecord("state=RUNNING", fmt.Sprint("starttime=", now.Unix()-9), "nodelist=n1")
			if told {
				for i, ago := range []int64{4000, 60, -60} {
					text += currentRecord(fmt.Sprint("jobid=", i+1), "state=COMPLETED",
						fmt.Sprint("starttime=", now.Unix()-ago), fmt.Sprint("endtime=", now.Unix()-ago), "nodelist=n1")
				}
			}
			return []byte(delimited(text, delimiter)), nil
		}}
		got, err := d.Tell(t.Context(), now.Add(-time.Hour))
		if err != nil || got.Current == nil || got.Current.Running != 1 || told == got.Until.IsZero() ||
			told != (len(got.Ended) == 1 && got.Ended[0].Number == 2) {
			t.Errorf("%q: %+v, %v", says, got, err)
		}
	}
}
