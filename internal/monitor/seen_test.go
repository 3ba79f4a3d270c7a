package monitor

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/identity"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/protocol"
)

func TestWhatHasChangedWithoutAnEventIsMarkedOnce(t *testing.T) {
	db := smallCluster(t)
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		t.Fatal(err)
	}
	m := New(db, authority, "test", slog.New(slog.DiscardHandler))
	var last time.Time
	marked := func() (is bool) {
		t.Helper()
		kindstest.View(t, db, func(ctx context.Context, tx *core.Tx) error {
			seen, err := cluster.Seen(ctx, tx, time.Minute)
			for _, one := range seen {
				is, last = one.At.After(last), one.At
			}
			return err
		})
		return is
	}
	reports := func(r protocol.Report) func() error {
		return func() error {
			_, err := m.record(t.Context(), identity.Agent{Node: "head"}, r, 0)
			return err
		}
	}
	tells := func(told protocol.JobsTold) func() error {
		return func() error {
			body, err := json.Marshal(told)
			answer := httptest.NewRecorder()
			m.toldJobs(answer, httptest.NewRequest(http.MethodPost, protocol.JobsPath, bytes.NewReader(body)),
				identity.Agent{Node: "head"})
			if answer.Code != http.StatusOK {
				t.Fatal(answer.Body)
			}
			return err
		}
	}
	fails := protocol.Report{Checks: []protocol.Check{{Name: "munge", Text: "it does not answer"}}}
	waits := fails
	waits.Scheduler = &protocol.Scheduler{Waiting: protocol.Waiting{Total: 1}}
	seven := protocol.CurrentJob{Job: protocol.Job{Number: 7, ID: "7"}}
	runs := protocol.JobsTold{Current: &protocol.CurrentJobs{Jobs: []protocol.CurrentJob{seven}}}
	for _, step := range []struct {
		name string
		do   func() error
	}{{"a check fails", reports(fails)}, {"a job waits", reports(waits)}, {"a job runs", tells(runs)}} {
		for _, again := range []bool{false, true} {
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			if marked() == again {
				t.Errorf("%s, again %t: marked %t", step.name, again, again)
			}
		}
	}
}
