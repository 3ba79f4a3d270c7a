package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/kinds/task"
	"muster/internal/protocol"
)

// TestATaskIsItsUsersAlone asks for one as a member, and looks at it as another, as the project's owner and as an operator.
func TestATaskIsItsUsersAlone(t *testing.T) {
	s, db := server(t, 8)
	tenants(t, db)
	as := func(who string) []string { return []string{"Authorization", "Bearer " + who} }
	got := call(t, s, "POST", "/v1/clusters/aero%2Fcfd/tasks",
		`{"command": ["./solver", "--key", "hidden"], "ranks": 1, "limit": "90s"}`, as("member")...)
	var one apiv1.Task
	if err := json.Unmarshal([]byte(got.text), &one); err != nil || got.status != 202 || one.Account != "member" ||
		one.Work == nil || one.Work.Limit != "1m30s" {
		t.Fatal(got)
	}
	err := db.Update(t.Context(), func(tx *core.Tx) error {
		return task.End(t.Context(), tx, task.Task{ID: one.ID, Cluster: "c-aero"},
			task.Said{Stage: protocol.TaskEnded, Outcome: protocol.TaskOK,
				Samples: []protocol.TaskSample{{Name: "hidden", Value: 1}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"member", "sam", "owner", "operator", "viewer"} {
		for _, path := range []string{"/v1/tasks/" + one.ID, "/v1/clusters/aero%2Fcfd/tasks"} {
			got := call(t, s, "GET", path, "", as(who)...)
			if shown := strings.Contains(got.text, "hidden"); got.status != 200 || shown != (who == "member") ||
				!strings.Contains(got.text, one.ID) {
				t.Errorf("%s of %s: %d %s", path, who, got.status, got.text)
			}
		}
		want := 403
		if who == "member" {
			want = 200
		}
		if got := call(t, s, "GET", "/v1/tasks/"+one.ID+"/output", "", as(who)...); got.status != want {
			t.Errorf("output to %s: %d %s", who, got.status, got.text)
		}
	}
}

// TestThePausesTaskIsForThoseWhoGovern: that there is one is seen by the project, what root has written by its owners.
func TestThePausesTaskIsForThoseWhoGovern(t *testing.T) {
	s, db := server(t, 8)
	tenants(t, db)
	hook := task.Task{ID: "t-hook", Cluster: "c-aero", Origin: task.Pause, Account: task.Root,
		Work: task.Work{Command: []string{"hidden"}}}
	if err := db.Update(t.Context(), func(tx *core.Tx) error { return task.Add(t.Context(), tx, hook) }); err != nil {
		t.Fatal(err)
	}
	for who, reads := range map[string]bool{"owner": true, "member": false, "sam": false, "viewer": false} {
		as := []string{"Authorization", "Bearer " + who}
		for _, path := range []string{"/v1/tasks/t-hook", "/v1/clusters/aero%2Fcfd/tasks"} {
			if got := call(t, s, "GET", path, "", as...); got.status != 200 || !strings.Contains(got.text, "t-hook") ||
				strings.Contains(got.text, "hidden") != reads {
				t.Errorf("%s of %s: %d %s", path, who, got.status, got.text)
			}
		}
		if got := call(t, s, "GET", "/v1/tasks/t-hook/output", "", as...); (got.status == 200) != reads {
			t.Errorf("output to %s: %d %s", who, got.status, got.text)
		}
		if got := call(t, s, "DELETE", "/v1/tasks/t-hook", "", as...); got.status != 409 && (reads || got.status != 403) {
			t.Errorf("%s cancels it: %d %s", who, got.status, got.text)
		}
	}
}

// TestTasksThatMakeNoSenseAreRefused spells them out, and what a cluster with too many of them says.
func TestTasksThatMakeNoSenseAreRefused(t *testing.T) {
	s, db := server(t, 8)
	tenants(t, db)
	as := []string{"Authorization", "Bearer member"}
	for body, want := range map[string]string{
		`{}`:                                    "a command or a script",
		`{"command": ["x"], "script": "y"}`:     "a command or a script",
		`{"command": [""]}`:                     "no name",
		`{"script": "a\u0000b"}`:                "zero byte",
		`{"script": "#!/bin/sh\nhostname\r\n"}`: "the script's line 2 ends with a carriage return",
		`{"script": "\ufeff#!/bin/sh\n"}`:       "byte order mark",
		`{"script": "#!/bin/sh\n\n#SBATCH --nodes=1 --output=x\n"}`: "the script's line 3: #SBATCH: --output cannot be honoured",
		`{"script": "#SBATCH --time=8-0\n"}`:                        "the script asks for 8d",
		`{"command": ["x"], "nodes": 2}`:                            "has 1 nodes at most",
		`{"command": ["x"], "nodes": 1, "on": ["n1"]}`:              "one of them",
		`{"command": ["x"], "on": ["n9"]}`:                          "no compute node",
		`{"command": ["x"], "queue": "gpu"}`:                        "no queue",
		`{"command": ["x"], "limit": "8d"}`:                         "from 1s to 7d",
		`{"command": ["x"], "limit": "soon"}`:                       "limit",
		`{"command": ["x"], "nodes": 2, "ranks": 1}`:                "too few",
		`{"command": ["` + strings.Repeat("x", 70000) + `"]}`:       "at most 65536",
	} {
		if got := call(t, s, "POST", "/v1/clusters/aero%2Fcfd/tasks", body, as...); got.status != 422 ||
			!strings.Contains(got.text, want) {
			t.Errorf("%.80s: %d %.300s", body, got.status, got.text)
		}
	}
	for body, want := range map[string]string{
		`{"script": "#SBATCH -t 30 -N 7\nx"}`:           `"limit":"30m0s"`,
		`{"script": "#SBATCH -t 30\nx", "limit": "5m"}`: `"limit":"5m0s"`,
		`{"script": "x"}`:                               `"limit":"1h0m0s"`,
	} {
		if got := call(t, s, "POST", "/v1/clusters/aero%2Fcfd/tasks", body, as...); got.status != 202 ||
			!strings.Contains(got.text, want) {
			t.Errorf("%s: %d %s; %s is wanted", body, got.status, got.text, want)
		}
	}
	err := db.Update(t.Context(), func(tx *core.Tx) error {
		for i := range 96 { // with sam's
			if err := task.Add(context.WithoutCancel(t.Context()), tx,
				task.Task{ID: fmt.Sprint("t", i), Cluster: "c-aero", Account: "sam", Work: task.Work{Script: "x"}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := call(t, s, "POST", "/v1/clusters/aero%2Fcfd/tasks", `{"command": ["x"]}`, as...); got.status != 409 ||
		!strings.Contains(got.text, "100 tasks") {
		t.Errorf("%d %s", got.status, got.text)
	}
}
