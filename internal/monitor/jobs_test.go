package monitor

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/identity"
	"muster/internal/kinds/job"
	"muster/internal/kinds/kindstest"
	"muster/internal/protocol"
)

func TestOnlyAHeadTellsOfJobs(t *testing.T) {
	db := smallCluster(t)
	var now time.Time
	kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) (err error) {
		if _, err = tx.Exec(ctx, `UPDATE cluster SET created_at = created_at - 3600000`); err == nil {
			now, err = tx.Now(ctx)
		}
		return err
	})
	m := New(db, nil, "test", slog.New(slog.DiscardHandler))
	tell := func(who identity.Agent, body []byte) (int, time.Time) {
		t.Helper()
		answer := httptest.NewRecorder()
		m.toldJobs(answer, httptest.NewRequest(http.MethodPost, protocol.JobsPath, bytes.NewReader(body)), who)
		var kept protocol.JobsKept
		if answer.Code == http.StatusOK {
			if err := json.Unmarshal(answer.Body.Bytes(), &kept); err != nil {
				t.Fatal(err)
			}
		}
		return answer.Code, kept.Since
	}
	until := now.Truncate(time.Second).Add(-time.Minute)
	told, err := json.Marshal(protocol.JobsTold{Until: until, Ended: []protocol.EndedJob{{
		Job: protocol.Job{Number: 7, ID: "7", User: "ada"}, Ended: until.Add(-time.Second), Outcome: protocol.JobCompleted}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		who    identity.Agent
		body   string
		status int
	}{
		{"a compute node", identity.Agent{Node: "n1"}, string(told), http.StatusGone},
		{"an earlier boot", identity.Agent{Node: "head", Boot: 4}, string(told), http.StatusGone},
		{"nobody's", identity.Agent{Node: "other"}, string(told), http.StatusGone},
		{"no jobs", identity.Agent{Node: "head"}, `{"ended": 3}`, http.StatusBadRequest},
		{"too much", identity.Agent{Node: "head"}, `{"ended": [{"name": "` + strings.Repeat("x", jobsLimit) + `"}]}`,
			http.StatusBadRequest},
		{"the head", identity.Agent{Node: "head"}, string(told), http.StatusOK},
	} {
		if status, since := tell(c.who, []byte(c.body)); status != c.status || status == http.StatusOK && !since.Equal(until) {
			t.Errorf("%s: status %d, and those since %v are wanted", c.name, status, since)
		}
	}
	kindstest.View(t, db, func(ctx context.Context, tx *core.Tx) error {
		jobs, err := job.List(ctx, tx, job.Of{Limit: 9})
		if err == nil && (len(jobs) != 1 || jobs[0].Number != 7 || jobs[0].Cluster != "cfd" || jobs[0].Project != "default") {
			t.Errorf("%+v", jobs)
		}
		return err
	})
}

func TestAProjectsJobsAreCountedUntilSomeAreForgotten(t *testing.T) {
	var a added
	for _, step := range []struct {
		project string
		jobs    int
		many    bool
	}{{"aero", 5000, false}, {"life", 9999, false}, {"aero", 4999, false}, {"aero", 1, true}, {"aero", 1, false},
		{"life", 1, true}} {
		if got := a.many(step.project, step.jobs); got != step.many {
			t.Errorf("%d of %s: %v", step.jobs, step.project, got)
		}
	}
}
