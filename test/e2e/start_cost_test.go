package e2e_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// TestWhatTheStartOfAClusterTakes holds the work of a whole start, 1 + 3, in counts: programs, calls of agents, steps of the
// engine, transactions and rows. What is looked at again and again meanwhile has an allowance that grows with the time that the
// start takes, so that a busy machine passes; what is done once for a node has none.
func TestWhatTheStartOfAClusterTakes(t *testing.T) {
	testall.Only(t)
	r := rig.New(t, "")
	watch := rig.WatchPrograms(t)
	c := r.Start()
	r.Run("machines", "add", "--local", "4", "--wait")
	file := r.File("cost.yaml", "name: cost\nnodes: 3\n")
	r.Run("create", "-f", file, "--wait") // the first of an image takes more
	r.Run("delete", "cost", "--wait")
	quiet := counters(r, c.URL)
	r.Until("the controller rests", func() bool {
		before := quiet
		quiet = counters(r, c.URL)
		return quiet["muster_engine_step_seconds_count"] == before["muster_engine_step_seconds_count"]
	})

	watch.Forget()
	began, before := time.Now(), counters(r, c.URL)
	r.Run("create", "-f", file, "--wait")
	seconds, started, after := time.Since(began).Seconds(), watch.Started(t), counters(r, c.URL)
	const nodes = 4.0
	for _, most := range []struct {
		what         string
		once, second float64 // for the whole start, and more for each second of it
	}{
		{"muster_agent_requests_total join", nodes, 0},
		{"muster_agent_requests_total config", 2 * nodes, 0},
		{"muster_agent_requests_total report", 4 * nodes, nodes},
		{"muster_api_requests_total get-cluster", 4, 1},
		{"muster_api_requests_total create-cluster", 1, 0},
		{"muster_driver_call_seconds_count ensure", 2 * nodes, nodes},
		{"muster_engine_step_seconds_count cluster", 8, 1},
		{"muster_engine_step_seconds_count machine", 4 * nodes, nodes},
		{"muster_engine_step_seconds_count node", 11 * nodes, 3 * nodes},
		{"muster_store_transaction_seconds_count write", 36 * nodes, 5 * nodes},
		{"muster_store_rows_total write", 72 * nodes, 10 * nodes},
	} {
		did := after[most.what] - before[most.what]
		if limit := most.once + most.second*seconds; did > limit {
			t.Errorf("%s: %.0f, at most %.0f in %.1f s", most.what, did, limit, seconds)
		}
		if did == 0 {
			t.Errorf("%s: nothing was counted", most.what)
		}
	}
	looks := 3 * (1 + int(20*seconds)) // of the head at Slurm, two programs each
	tells := int(seconds / 5)          // of the head to the site: which jobs there are and have ended
	for name, most := range map[string]int{
		"muster": 1 + 4, "exe": 4, "runc": 2 * 4, "cat": 4 + 1, "unshare": 4, "mkfs.xfs": 3, "sshd": 4, "munged": 4,
		"slurmctld": 2 + 1, // and its process for scripts; and to be asked for its version
		"slurmd":    2 * 3, // and to be asked for its version
		"scontrol":  looks, "squeue": looks,
		"sh": 1, "mariadbd": 2, "slurmdbd": 1, "sacctmgr": 2, // the accounts of jobs, in a new database
		"sdiag": 1 + int(seconds/15) + tells, "sacct": tells, // whether they are kept, and what they are
	} {
		if n := started[name]; n > most {
			t.Errorf("%s was started %d times, at most %d are needed", name, n, most)
		}
		delete(started, name)
	}
	for name, n := range started {
		if !strings.HasPrefix(name, "memfd:") { // runc's copy of itself, by another name
			t.Errorf("%s was started %d times too", name, n)
		}
	}
	r.Run("delete", "cost", "--wait")
	r.NothingLeft()
}

// counters are the controller's, by their name and the first of their labels that says what was done: sums over all others.
func counters(r *rig.Rig, url string) map[string]float64 {
	r.Helper()
	token, err := os.ReadFile(filepath.Join(r.Data, "admin.token"))
	if err != nil {
		r.Fatal(err)
	}
	request, err := http.NewRequest(http.MethodGet, url+"/metrics", nil)
	if err != nil {
		r.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		r.Fatal(err)
	}
	all := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		series, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		value, err := strconv.ParseFloat(number, 64)
		if err != nil {
			continue // a comment
		}
		name, labels, _ := strings.Cut(series, "{")
		all[name] += value
		_, first, _ := strings.Cut(labels, `="`)
		first, _, _ = strings.Cut(first, `"`)
		if first != "" {
			all[name+" "+first] += value
		}
	}
	return all
}
