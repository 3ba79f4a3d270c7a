package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/job"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

// ended has jobs of a cluster end, a minute ago, after 10 s. The cluster is an hour older than it was.
func ended(ctx context.Context, tx *core.Tx, of job.Job, jobs ...protocol.EndedJob) error {
	now, err := tx.Now(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE cluster SET created_at = created_at - 3600000 WHERE id = $1`, of.ClusterID)
	}
	if err != nil {
		return err
	}
	at := now.Truncate(time.Second).Add(-time.Minute)
	for i := range jobs {
		j := &jobs[i]
		if j.Submitted, j.Ended, j.CPUs = at.Add(-20*time.Second), at, 4; j.Outcome == "" {
			j.Outcome = protocol.JobCompleted
		}
		if j.Outcome != protocol.JobCancelled {
			j.Began = at.Add(-10 * time.Second)
		}
	}
	kept, err := job.Keep(ctx, tx, of, protocol.JobsTold{Ended: jobs, Until: now})
	if err == nil && len(kept.New) != len(jobs) {
		err = fmt.Errorf("%d of %d jobs are kept", len(kept.New), len(jobs))
	}
	return err
}

func TestJobsOfAProjectAreListedAndAddedUp(t *testing.T) {
	s, db := server(t, 8)
	tenants(t, db)
	err := db.Update(t.Context(), func(tx *core.Tx) error {
		return ended(t.Context(), tx, job.Job{Cluster: "cfd", ClusterID: "c-aero", Project: "aero"},
			protocol.EndedJob{Job: protocol.Job{Number: 1, ID: "1", User: "member", MemoryMiB: 1000},
				Used: &protocol.JobUse{PeakMiB: 250, CPUSeconds: 30}},
			protocol.EndedJob{Job: protocol.Job{Number: 2, ID: "2_1", User: "sam"}, Outcome: protocol.JobFailed, Exit: 3},
			protocol.EndedJob{Job: protocol.Job{Number: 3, ID: "2_2", User: "sam"}, Outcome: protocol.JobCancelled})
	})
	if err != nil {
		t.Fatal(err)
	}
	list := func(who, query string) (jobs []apiv1.Job, next string) {
		t.Helper()
		got := call(t, s, "GET", "/v1/jobs"+query, "", "Authorization", "Bearer "+who)
		var page apiv1.List[apiv1.Job]
		if err := json.Unmarshal([]byte(got.text), &page); err != nil || got.status != 200 {
			t.Fatalf("%s: %v", query, got)
		}
		return page.Items, page.Next
	}
	for query, want := range map[string]string{
		"": "2_2 2_1 1", "?cluster=cfd": "2_2 2_1 1", "?cluster=aero/cfd": "2_2 2_1 1", "?cluster=c-aero&user=sam": "2_2 2_1",
		"?state=failed": "2_1", "?job=2": "2_2 2_1", "?project=aero&job=1": "1", "?until=2020-01-01T00:00:00Z": "",
		"?since=" + url.QueryEscape(time.Now().Add(-2*time.Minute).Format(time.RFC3339)): "2_2 2_1 1",
	} {
		jobs, next := list("viewer", query)
		var ids []string
		for _, j := range jobs {
			ids = append(ids, j.ID)
		}
		if got := strings.Join(ids, " "); got != want || next != "" {
			t.Errorf("%s: %q, and then %q; want %q", query, got, next, want)
		}
	}
	all, _ := list("member", "")
	if never, failed, good := all[0], all[1], all[2]; never.Began != nil || never.CPUEfficiency != nil || never.Exit != nil ||
		*failed.Exit != 3 ||
		failed.MemoryEfficiency != nil || good.Seconds != 10 || *good.CPUEfficiency != 0.75 || *good.MemoryEfficiency != 0.25 {
		t.Errorf("%+v", all)
	}
	var paged []string
	for cursor := ""; ; {
		jobs, next := list("owner", "?limit=1&cursor="+cursor)
		for _, j := range jobs {
			paged = append(paged, j.ID)
		}
		if cursor = next; next == "" {
			break
		}
	}
	if got := strings.Join(paged, " "); got != "2_2 2_1 1" {
		t.Errorf("in pages of one: %s", got)
	}
	for query, status := range map[string]int{"?cluster=absent": 404, "?project=absent": 404, "?cursor=x": 422, "?state=won": 422,
		"?cursor=1-x-c": 422, "?since=now": 422} {
		if got := call(t, s, "GET", "/v1/jobs"+query, "", "Authorization", "Bearer member"); got.status != status {
			t.Errorf("%s: %v", query, got)
		}
	}
	if jobs, _ := list("nobody", ""); len(jobs) > 0 {
		t.Errorf("nobody sees %+v", jobs)
	}

	err = db.Update(t.Context(), func(tx *core.Tx) error {
		now := protocol.CurrentJobs{Jobs: []protocol.CurrentJob{
			{Job: protocol.Job{Number: 9, ID: "9", User: "sam", Began: time.Now()}, Tasks: 1},
			{Job: protocol.Job{Number: 4, ID: "4_[1-5]", User: "member"}, Tasks: 5, Reason: "Resources"}}}
		_, err := job.Keep(t.Context(), tx, job.Job{ClusterID: "c-aero"}, protocol.JobsTold{Current: &now})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{"": "4_[1-5] pending 5, 9 running 0", "?state=running&cluster=cfd": "9 running 0",
		"?user=member": "4_[1-5] pending 5", "?job=4": "4_[1-5] pending 5", "?job=3": "",
		"?project=aero&state=pending": "4_[1-5] pending 5",
		"?cluster=gone":               ""} {
		jobs, _ := list("viewer", "/current"+query)
		var lines []string
		for _, j := range jobs {
			lines = append(lines, fmt.Sprint(j.ID, " ", j.State, " ", j.Tasks))
		}
		if got := strings.Join(lines, ", "); got != want {
			t.Errorf("now %s: %q, want %q", query, got, want)
		}
	}
	if jobs, _ := list("nobody", "/current"); len(jobs) > 0 {
		t.Errorf("nobody sees %+v", jobs)
	}

	sums := func(who, query string) string {
		t.Helper()
		got := call(t, s, "GET", "/v1/efficiency"+query, "", "Authorization", "Bearer "+who)
		var e apiv1.Efficiencies
		if err := json.Unmarshal([]byte(got.text), &e); err != nil || got.status != 200 {
			t.Fatalf("%s: %v", query, got)
		}
		var lines []string
		for _, i := range e.Items {
			lines = append(lines, fmt.Sprintf("%s/%s: %d, %d failed, %.2f CPU, %.2f memory", i.Project, i.User, i.Jobs, i.Failed,
				i.CPUEfficiency, i.MemoryEfficiency))
		}
		return strings.Join(lines, "; ")
	}
	for query, want := range map[string]string{
		"": "aero/member: 1, 0 failed, 0.75 CPU, 0.25 memory; " +
			"aero/sam: 2, 1 failed, 0.00 CPU, 0.00 memory",
		"?by=project&project=aero":    "aero/: 3, 1 failed, 0.75 CPU, 0.25 memory",
		"?user=sam":                   "aero/sam: 2, 1 failed, 0.00 CPU, 0.00 memory",
		"?until=2020-01-01T00:00:00Z": "",
	} {
		if got := sums("operator", query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	err = db.Update(t.Context(), func(tx *core.Tx) error { // a head may name as many users as it likes
		_, err := tx.Exec(t.Context(), `INSERT INTO job (number, id, account, queue, qos, name, nodes, node_count, cpus, gpus, memory,
				submitted, began, ended, outcome, exit_code, signal, cpu_ms, peak, cost, currency, cluster, cluster_id, project)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
			SELECT 1000 + i, id, 'user' || i, queue, qos, name, nodes, node_count, cpus, gpus, memory, submitted, began, ended,
				outcome, exit_code, signal, cpu_ms, peak, cost, currency, cluster, cluster_id, project
			FROM n JOIN (SELECT * FROM job LIMIT 1) AS one`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	got := call(t, s, "GET", "/v1/efficiency", "", "Authorization", "Bearer operator")
	if got.status != 422 || !strings.Contains(got.text, "more than 10000 lines") {
		t.Errorf("of ten thousand users: %d, %.200s", got.status, got.text)
	}
	if got := sums("nobody", ""); got != "" {
		t.Errorf("nobody sees %s", got)
	}
}

// TestAJobIsEndedByItsOwnUser: what a caller does with a job is a task of theirs on the head, so that the scheduler decides.
func TestAJobIsEndedByItsOwnUser(t *testing.T) {
	s, db := server(t, 8)
	tenants(t, db)
	as := []string{"Authorization", "Bearer member"}
	if got := call(t, s, "DELETE", "/v1/clusters/aero%2Fcfd/jobs/12_3", "", as...); got.status != 409 ||
		!strings.Contains(got.text, "has no head now") {
		t.Errorf("without a head: %v", got)
	}
	if err := db.Update(t.Context(), func(tx *core.Tx) error {
		machines, err := machine.List(t.Context(), tx)
		if err != nil {
			return err
		}
		head := node.Node{ID: "h-aero", Cluster: "c-aero", Name: "head", Role: protocol.Head, Class: "local",
			MachineID: machines[0].ID, Machine: machines[0].Name}
		return errors.Join(cluster.AddSeat(t.Context(), tx, "c-aero", cluster.Seat{Name: "head", Slot: 9}),
			node.Add(t.Context(), tx, head))
	}); err != nil {
		t.Fatal(err)
	}
	for ask, want := range map[string][]string{"DELETE /v1/clusters/aero%2Fcfd/jobs/12_3": {"-v", "12_3"},
		"POST /v1/clusters/aero%2Fcfd/jobs/7/output": {"muster-job-output", "7"}} {
		method, path, _ := strings.Cut(ask, " ")
		got := call(t, s, method, path, "", as...)
		var task apiv1.Task
		if err := json.Unmarshal([]byte(got.text), &task); err != nil || got.status != 202 || task.Account != "member" ||
			task.Work == nil || !slices.Equal(task.Work.On, []string{"head"}) ||
			!slices.Equal(task.Work.Command[max(0, len(task.Work.Command)-2):], want) {
			t.Errorf("%s: %v", ask, got)
		}
	}
	for path, status := range map[string]int{"/v1/clusters/aero%2Fcfd/jobs/x": 422, "/v1/clusters/aero%2Fcfd/jobs/1;reboot": 422,
		"/v1/clusters/aero%2Fcfd/jobs/--all": 422, "/v1/clusters/aero%2Fgone/jobs/1": 404,
		"/v1/clusters/aero%2Fcfd/jobs/12_%5B1-9%255%5D": 202} {
		if got := call(t, s, "DELETE", path, "", as...); got.status != status {
			t.Errorf("%s: %v", path, got)
		}
	}
	for body, want := range map[string]string{`{"command": ["x"], "on": ["head"], "whole": true}`: "head is the head",
		`{"command": ["x"], "on": ["head"], "ranks": 2}`: "head is the head",
		`{"command": ["x"], "on": ["head", "n1"]}`:       "no compute node"} {
		if got := call(t, s, "POST", "/v1/clusters/aero%2Fcfd/tasks", body, as...); got.status != 422 ||
			!strings.Contains(got.text, want) {
			t.Errorf("%s: %v", body, got)
		}
	}
}
