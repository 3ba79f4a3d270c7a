package job_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/internal/core"
	"muster/internal/kinds"
	"muster/internal/kinds/job"
	"muster/internal/kinds/kindstest"
	"muster/internal/protocol"
)

// site is a database with two clusters of two projects, which are an hour old.
type site struct {
	*testing.T
	db  *core.Store
	now time.Time // in whole seconds
}

func open(t *testing.T, url string) site {
	s := site{t, kindstest.Open(t, url), time.Time{}}
	kindstest.AddCluster(t, s.db, "c1", "cfd")
	kindstest.AddCluster(t, s.db, "c2", "bio")
	s.update(func(tx *core.Tx) error {
		now, err := tx.Now(t.Context())
		s.now = now.Truncate(time.Second)
		if err == nil {
			_, err = tx.Exec(t.Context(), `UPDATE cluster SET created_at = created_at - 3600000`)
		}
		return err
	})
	return s
}

func (s site) update(do func(*core.Tx) error) {
	s.Helper()
	if err := s.db.Update(s.Context(), do); err != nil {
		s.Fatal(err)
	}
}

// paidNode gives c1 the node n1 of four CPUs, which has been paid for since an hour.
func (s site) paidNode() {
	s.Helper()
	kindstest.AddMachines(s.T, s.db, 1)
	s.update(func(tx *core.Tx) error {
		if err := kindstest.AddNode(s.Context(), tx, "n1", "c1", "n1", 1, "m1"); err != nil {
			return err
		}
		_, err := tx.Exec(s.Context(), `UPDATE usage SET began = began - 3600000, follows = NULL, state = 'ready',
			charged = 1, charges = '["ready"]', rate = 3600000, currency = 'EUR', cpus = 4 WHERE subject = 'n1'`)
		return err
	})
}

// ago is a job that ended so long ago.
func (s site) ago(number int64, ago time.Duration) protocol.EndedJob {
	ended := s.now.Add(-ago)
	return protocol.EndedJob{Job: protocol.Job{Number: number, ID: fmt.Sprint(number), User: "ada", Queue: "main", Name: "x",
		Nodes: "n1", NodeCount: 1, CPUs: 2, MemoryMiB: 1000, Submitted: ended.Add(-3 * time.Minute),
		Began: ended.Add(-2 * time.Minute)}, Ended: ended, Outcome: protocol.JobCompleted,
		Used: &protocol.JobUse{CPUSeconds: 120, PeakMiB: 500}}
}

// tell is what the head of a cluster says, up to a time.
func (s site) tell(cluster string, until time.Duration, jobs ...protocol.EndedJob) (kept job.Kept) {
	s.Helper()
	of := map[string]job.Job{"c1": {Cluster: "cfd", ClusterID: "c1", Project: "aero"},
		"c2": {Cluster: "bio", ClusterID: "c2", Project: "life"}}[cluster]
	s.update(func(tx *core.Tx) (err error) {
		kept, err = job.Keep(s.Context(), tx, of, protocol.JobsTold{Ended: jobs, Until: s.now.Add(-until)})
		return err
	})
	return kept
}

// list is the numbers of jobs in the order of the list.
func (s site) list(of job.Of) string {
	s.Helper()
	var numbers []string
	s.update(func(tx *core.Tx) error {
		if of.Limit == 0 {
			of.Limit = 100
		}
		jobs, err := job.List(s.Context(), tx, of)
		for _, j := range jobs {
			numbers = append(numbers, fmt.Sprint(j.Number))
		}
		return err
	})
	return strings.Join(numbers, " ")
}

func TestWhatAHeadTellsIsKeptOnce(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := open(t, url)
		var first job.Kept
		s.update(func(tx *core.Tx) (err error) {
			first, err = job.Keep(t.Context(), tx, job.Job{ClusterID: "c1"}, protocol.JobsTold{})
			return err
		})
		if age := s.now.Sub(first.Since); age < 59*time.Minute || age > 61*time.Minute || len(first.New) > 0 {
			t.Errorf("a new cluster's jobs are wanted since %v, %v ago", first.Since, age)
		}
		one, two, three := s.ago(1, 30*time.Minute), s.ago(2, 20*time.Minute), s.ago(3, 20*time.Minute)
		of := func(kept job.Kept, fresh int, until time.Duration) {
			t.Helper()
			if len(kept.New) != fresh || !kept.Since.Equal(s.now.Add(-until)) {
				t.Errorf("%d are new, and those since %v are wanted next", len(kept.New), kept.Since.Sub(s.now))
			}
		}
		of(s.tell("c1", 20*time.Minute, one, two), 1, 20*time.Minute) // two ended at that moment: it comes again
		of(s.tell("c1", 20*time.Minute, one, two), 0, 20*time.Minute) // the answer was lost
		of(s.tell("c1", 30*time.Minute, one), 0, 20*time.Minute)      // and one that comes late
		of(s.tell("c1", 10*time.Minute, two, three, two), 2, 10*time.Minute)
		again := three // it was queued again, and ran
		again.Ended = s.now.Add(-5 * time.Minute)
		of(s.tell("c1", time.Minute, again), 1, time.Minute)
		of(s.tell("c2", time.Minute, one), 1, time.Minute) // the other cluster counts from 1, too
		if got := s.list(job.Of{Projects: []string{"aero"}}); got != "3 3 2 1" {
			t.Errorf("of a project: %s", got)
		}
		if kept := s.tell("c1", -time.Hour, s.ago(4, -30*time.Minute), s.ago(5, 0)); len(kept.New) > 1 ||
			kept.Since.After(time.Now().Add(time.Minute)) {
			t.Errorf("of a head whose clock is ahead: %+v", kept)
		}
	})
}

// TestWhatCannotBeIsNotKept has a head say anything: nothing of it makes a sum of a project's, or of all, fail.
func TestWhatCannotBeIsNotKept(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := open(t, url)
		before, endless := s.ago(1, 2*time.Hour), s.ago(2, time.Minute)
		unknown, huge := s.ago(3, time.Minute), s.ago(4, time.Minute)
		endless.Began = time.Unix(0, 0)
		unknown.Outcome = "won"
		huge.CPUs, huge.NodeCount, huge.GPUs, huge.Exit = math.MaxInt, math.MaxInt, math.MinInt, -1
		huge.MemoryMiB, huge.Used = math.MaxInt64, &protocol.JobUse{CPUSeconds: math.MaxFloat64, PeakMiB: math.MinInt64}
		huge.Began, huge.Name = huge.Ended.Add(-9*365*24*time.Hour), strings.Repeat("é", 500)
		backwards := s.ago(5, time.Minute)
		backwards.Began = backwards.Ended.Add(time.Second)
		var jobs []protocol.EndedJob
		for n := range int64(300) {
			huge.Number = 100 + n
			jobs = append(jobs, huge)
		}
		kept := s.tell("c1", 0, append(jobs, before, endless, unknown, backwards)...)
		if len(kept.New) != 300 {
			t.Errorf("%d are kept", len(kept.New))
		}
		s.update(func(tx *core.Tx) error {
			sums, err := job.Sums(t.Context(), tx, job.Of{}, true)
			if err == nil && (len(sums) != 1 || sums[0].Jobs != 300 || sums[0].GPUHours != 0 || !(sums[0].CPUHours > 1e14)) {
				t.Errorf("%+v", sums)
			}
			return err
		})
		s.update(func(tx *core.Tx) error {
			one, err := job.List(t.Context(), tx, job.Of{Limit: 1})
			if err == nil && one[0].Name != strings.Repeat("é", 128) {
				t.Errorf("its name has %d bytes", len(one[0].Name))
			}
			return err
		})
	})
}

func TestJobsAreFoundByWhatTheyAre(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := open(t, url)
		var jobs []protocol.EndedJob
		for n := range int64(6) {
			j := s.ago(n+1, 30*time.Minute-time.Duration(n/2)*time.Minute) // two at a time
			switch n {
			case 1:
				j.ID, j.User = "12", "bob"
			case 2:
				j.ID = "12_7"
			case 3:
				j.ID = "127"
			case 4:
				j.Outcome = protocol.JobFailed
			case 5:
				j.Used = nil
			}
			jobs = append(jobs, j)
		}
		s.tell("c1", time.Minute, jobs...)
		s.tell("c2", time.Minute, s.ago(9, 10*time.Minute), s.ago(8, 28*time.Minute)) // which ended with two of c1
		for want, of := range map[string]job.Of{
			"9 8 6 5 4 3 2 1": {},
			"6 5 4 3 2 1":     {Projects: []string{"aero"}},
			"9 8":             {Projects: []string{"life"}},
			"9 8 6 5":         {Projects: []string{"aero", "life"}, Limit: 4},
			"6 5 4": {Projects: []string{"aero", "life"}, Limit: 3,
				After: job.Place{Ended: s.now.Add(-28 * time.Minute), Cluster: "c2", Number: 8}},
			"":        {Projects: []string{}},
			"6 5 4 3": {Cluster: "cfd", User: "ada", From: s.now.Add(-29 * time.Minute)},
			"3 2":     {ID: "12"},
			"3":       {ID: "12_7"},
			"5":       {Outcome: protocol.JobFailed, Cluster: "c1"},
			"4 3":     {From: s.now.Add(-29 * time.Minute), To: s.now.Add(-28 * time.Minute)},
			"9 8 6":   {Limit: 3},
			"5 4 3":   {Limit: 3, After: job.Place{Ended: s.now.Add(-28 * time.Minute), Cluster: "c1", Number: 6}},
		} {
			if got := s.list(of); got != want {
				t.Errorf("%+v: %q, want %q", of, got, want)
			}
		}
		s.update(func(tx *core.Tx) error {
			sums, err := job.Sums(t.Context(), tx, job.Of{Cluster: "cfd"}, true)
			if err != nil || len(sums) != 2 {
				t.Errorf("%+v, %v", sums, err)
				return err
			}
			ada := sums[0]
			if ada.User != "ada" || ada.Jobs != 5 || ada.Failed != 1 || !near(ada.CPUHours, 5.0*2*2/60) ||
				!near(ada.CPUHoursUsed, 4.0*2/60) || !near(ada.KnownCPUHours, 4.0*2*2/60) ||
				!near(ada.MemoryHoursUsed, ada.MemoryHours/2) {
				t.Errorf("%+v", ada)
			}
			if sums, err = job.Sums(t.Context(), tx, job.Of{}, false); err == nil && (len(sums) != 2 || sums[0].Jobs != 6) {
				t.Errorf("by project: %+v", sums)
			}
			return err
		})
	})
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestASiteKeepsSomeJobsForSomeTime(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := open(t, url)
		var jobs []protocol.EndedJob
		for n := range int64(6) {
			jobs = append(jobs, s.ago(n+1, time.Duration(50-5*n)*time.Minute))
		}
		s.tell("c1", time.Minute, jobs...)
		s.tell("c2", time.Minute, s.ago(9, 55*time.Minute))
		for _, step := range []struct {
			age  time.Duration
			most int
			left string
		}{{time.Hour, 6, "6 5 4 3 2 1 9"}, {52 * time.Minute, 6, "6 5 4 3 2 1"}, {time.Hour, 4, "6 5 4 3"},
			{33 * time.Minute, 4, "6 5"}} {
			s.update(func(tx *core.Tx) error { return job.Forget(t.Context(), tx, step.age, step.most) })
			if got := s.list(job.Of{}); got != step.left {
				t.Errorf("of %d, not older than %v: %q, want %q", step.most, step.age, got, step.left)
			}
		}
		if kept := s.tell("c1", time.Minute, jobs...); len(kept.New) > 0 { // what was forgotten is not told again
			t.Errorf("%d come back", len(kept.New))
		}
		s.update(func(tx *core.Tx) error { return job.Trim(t.Context(), tx, "aero", 1) })
		if got := s.list(job.Of{}); got != "6" {
			t.Errorf("of one: %q", got)
		}
	})
}

// TestJobsOfAClusterThatGoesEndWithIt tells of jobs that run and wait, pauses their cluster, and deletes it.
func TestJobsOfAClusterThatGoesEndWithIt(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := open(t, url)
		runs, waits := s.ago(1, time.Minute).Job, s.ago(2, time.Minute).Job
		waits.ID, waits.Began, waits.Nodes = "2_[1-7]", time.Time{}, ""
		now := protocol.CurrentJobs{Jobs: []protocol.CurrentJob{{Job: runs, Tasks: 1},
			{Job: waits, Tasks: 7, Reason: "Resources"}}, Running: 1, Waiting: 7}
		of := job.Job{Cluster: "cfd", ClusterID: "c1", Project: "default"}
		tell := func(told protocol.JobsTold) (kept job.Kept) {
			t.Helper()
			s.update(func(tx *core.Tx) (err error) {
				kept, err = job.Keep(t.Context(), tx, of, told)
				return err
			})
			return kept
		}
		current := func(of job.Of) (all []job.Told) {
			t.Helper()
			s.update(func(tx *core.Tx) (err error) {
				all, err = job.Current(t.Context(), tx, of)
				return err
			})
			return all
		}
		since := tell(protocol.JobsTold{}).Since
		if all := current(job.Of{}); len(all) > 0 {
			t.Errorf("before anything was told: %+v", all)
		}
		if kept := tell(protocol.JobsTold{Current: &now}); !kept.Since.Equal(since) { // it is not known what has ended
			t.Errorf("since %v, it was %v", kept.Since, since)
		}
		tell(protocol.JobsTold{Until: s.now.Add(-time.Minute)}) // they are as they were
		counted := func(running, pending int) {
			t.Helper()
			s.update(func(tx *core.Tx) error {
				c, err := kinds.Count(t.Context(), tx)
				if want := (kinds.Jobs{Running: running, Pending: pending}); c.Jobs != want {
					t.Errorf("%+v are counted, want %+v", c.Jobs, want)
				}
				return err
			})
		}
		counted(1, 7)
		for _, c := range []struct {
			of    job.Of
			found int
		}{{job.Of{}, 1}, {job.Of{Cluster: "cfd"}, 1}, {job.Of{Cluster: "c1", Projects: []string{"default", "x"}}, 1},
			{job.Of{Cluster: "bio"}, 0}, {job.Of{Projects: []string{}}, 0}} {
			all := current(c.of)
			if len(all) != c.found {
				t.Errorf("%+v: %+v", c.of, all)
			}
			for _, told := range all {
				if diff := cmp.Diff(now, told.CurrentJobs); diff != "" || told.Cluster != "cfd" {
					t.Errorf("%+v %s", told, diff)
				}
			}
		}
		s.update(func(tx *core.Tx) error { return job.Pause(t.Context(), tx, "c1", true) })
		counted(0, 8)
		if all := current(job.Of{}); len(all) != 1 || all[0].Jobs[0].Began.IsZero() ||
			all[0].Jobs[1].Reason != "its cluster is paused" {
			t.Errorf("of a cluster that sleeps: %+v", all)
		}
		s.update(func(tx *core.Tx) error { return job.Pause(t.Context(), tx, "c2", false) })
		for range 2 {
			s.update(func(tx *core.Tx) error { return job.End(t.Context(), tx, "c1") })
		}
		counted(0, 0)
		s.update(func(tx *core.Tx) error {
			jobs, err := job.List(t.Context(), tx, job.Of{Limit: 9})
			if err == nil && (len(jobs) != 2 || jobs[1].Ran() < time.Minute || jobs[1].Outcome != protocol.JobCancelled ||
				jobs[0].Ran() != 0 || jobs[0].ID != "2_[1-7]" || jobs[0].Project != "default" || jobs[0].Cluster != "cfd") {
				t.Errorf("%+v", jobs)
			}
			return err
		})
		if all := current(job.Of{}); len(all) > 0 {
			t.Errorf("of a cluster that is gone: %+v", all)
		}

		now.Jobs[0].Number, now.Jobs[0].ID = 11, "11"
		tell(protocol.JobsTold{Current: &now}) // once more
		s.update(func(tx *core.Tx) error { return job.Pause(t.Context(), tx, "c1", false) })
		s.update(func(tx *core.Tx) error { return job.End(t.Context(), tx, "c1") })
		s.update(func(tx *core.Tx) error {
			jobs, err := job.List(t.Context(), tx, job.Of{Limit: 1, ID: "11"})
			if err == nil && (len(jobs) != 1 || jobs[0].Ran() != 0 || jobs[0].Nodes != "") {
				t.Errorf("deleted while it was paused: %+v", jobs)
			}
			return err
		})
	})
}

// TestAJobCostsItsPart has a job run on a node that is paid for.
func TestAJobCostsItsPart(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := open(t, url)
		s.paidNode()
		elsewhere, everywhere := s.ago(2, 10*time.Minute), s.ago(3, 10*time.Minute)
		elsewhere.Nodes, everywhere.Nodes = "x1", "n[1-9]"
		s.tell("c1", time.Minute, s.ago(1, 10*time.Minute), elsewhere, everywhere)
		s.update(func(tx *core.Tx) error {
			jobs, err := job.List(t.Context(), tx, job.Of{Limit: 9})
			if err != nil || len(jobs) != 3 {
				t.Fatal(jobs, err)
			}
			if got := jobs[2].Cost.String(); got != "0.06 EUR" { // two minutes of half a node
				t.Errorf("it cost %q", got)
			}
			if jobs[0].Cost.Micros+jobs[1].Cost.Micros > 0 {
				t.Errorf("on nodes of others: %v, %v", jobs[0].Cost, jobs[1].Cost)
			}
			sums, err := job.Sums(t.Context(), tx, job.Of{}, true)
			if err == nil && (len(sums) != 1 || sums[0].Jobs != 3 || sums[0].Cost.String() != "0.06 EUR") {
				t.Errorf("%+v", sums)
			}
			return err
		})
	})
}

// TestWhatJobsSinceEverCostIsNotLookedFor: a head says when its jobs began, and no other transaction can write while that is
// looked up.
func TestWhatJobsSinceEverCostIsNotLookedFor(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := open(t, url)
		s.paidNode()
		s.update(func(tx *core.Tx) error {
			_, err := tx.Exec(t.Context(), `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 33000)
				INSERT INTO usage (subject, kind, project, cluster_id, cluster, node, queue, class, machine, state, quantity, rate,
					currency, charges, charged, cores, gpus, began)
				SELECT 'gone' || CAST(n.i AS TEXT), kind, project, cluster_id, cluster, 'gone', queue, class, machine, state,
					quantity, rate, currency, charges, charged, cores, gpus, began FROM n JOIN usage ON subject = 'n1'`)
			return err
		})
		s.tell("c1", time.Minute, s.ago(1, 10*time.Minute))
		s.update(func(tx *core.Tx) error {
			jobs, err := job.List(t.Context(), tx, job.Of{Limit: 9})
			if err == nil && (len(jobs) != 1 || jobs[0].Cost.Micros > 0) {
				t.Errorf("%+v", jobs)
			}
			return err
		})
	})
}
