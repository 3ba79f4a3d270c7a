package e2e_test

import (
	"database/sql"
	"encoding/csv"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	apiv1 "muster/api/v1"
	"muster/internal/core/sealing"
	"muster/internal/identity"
	"muster/internal/kit/testall"
	"muster/internal/price"
	"muster/test/rig"
)

// priced is a site on which a node costs a euro a second, and a head a tenth of that.
const priced = `
site: lab
defaults: {project: aero, image: debian13-hpc, class: local, head_class: service}
prices: {storage_gib_month: 0.10 EUR}
projects: {aero: {quota: {nodes: 4}}}
classes:
  - {name: local, select: ["substrate = local"], price: 3600 EUR}
  - {name: service, select: ["substrate = local"], price: 360 EUR}
`

// TestTheMeterIsExactAndWhatIsObservedHoldsNoSecret leads a cluster through a node's death, a pause and the controller's
// own death with all that can be said of it switched on, and then reads the bill, the log, the traces and the metrics.
func TestTheMeterIsExactAndWhatIsObservedHoldsNoSecret(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	r.Site = r.File("site.yaml", priced)
	traces := filepath.Join(t.TempDir(), "traces.json")
	r.Flags = []string{"--log-level", "debug", "--log-format", "json", "--traces", traces}
	c := r.Start()
	logs := []string{c.Log}
	r.Run("machines", "add", "--local", "5", "--wait")
	r.Run("create", "-f", r.File("cfd.yaml", "name: cfd\nnodes: 2\n"), "--wait")
	secrets := secretsOf(r, "cfd")

	if got := r.Muster("scale", "cfd", "4"); got.Code != 4 ||
		!strings.Contains(got.Err, "project aero: 3 of 4 nodes in use, 2 more asked") {
		t.Error(got)
	}
	lost := r.Node("cfd", "n2")
	lost.KillAgent()
	backInSlurm(r, "cfd", "n2", lost.ID)
	r.Run("pause", "cfd", "--wait")
	r.Run("resume", "cfd")
	c.Kill()
	c = r.Start()
	logs = append(logs, c.Log)
	r.Run("resume", "cfd", "--wait")
	secrets = append(secrets, secretsOf(r, "cfd")...)
	metrics := scrape(r, c.URL)
	if out := r.Run("describe", "cfd"); !strings.Contains(out, "so far, 7560.00 EUR per hour now") {
		t.Error(out)
	}
	var made struct{ ID string }
	r.Get(&made, "get", "cfd")
	r.Run("delete", "cfd", "--wait")

	t.Run("the rows of the meter are the phases of the log", func(t *testing.T) { compareBill(r.In(t), made.ID) })
	t.Run("a statement of the month has the same sum in every form", func(t *testing.T) {
		r := r.In(t)
		month := []string{"cost", "--project", "aero", "--from", time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)}
		var statement apiv1.Statement
		r.Get(&statement, month...)
		if lines := statement.Lines; len(lines) != 3 || lines[0].Class != "service" || lines[1].Queue != "main" ||
			lines[1].Nodes != 5 || lines[2].Kind != "home" {
			t.Errorf("a line for the heads, one for the queue with its five nodes, one for /home: %+v", lines)
		}
		table, err := csv.NewReader(strings.NewReader(r.Run(append(month, "-o", "csv")...))).ReadAll()
		if err != nil || len(table) != len(statement.Lines)+1 {
			t.Fatalf("%d lines, %v", len(table), err)
		}
		column := slices.Index(table[0], "cost")
		sum := price.Amount{}
		for _, row := range table[1:] {
			cost, err := price.Parse(row[column] + " EUR")
			if err != nil {
				t.Fatal(err)
			}
			sum = sum.Plus(cost)
		}
		if sum.String() != statement.Total {
			t.Errorf("the table's sum is %s, the total is %s", sum, statement.Total)
		}
	})
	t.Run("a budget warns, pauses, and is raised", func(t *testing.T) {
		r := r.In(t)
		r.Run("create", "-f", r.File("short.yaml", "name: short\nnodes: 1\nbudget: {limit: 5 EUR}\n"), "--wait")
		phase := func() string {
			var now struct{ Phase string }
			r.Get(&now, "get", "short")
			return now.Phase
		}
		r.Until("it is paused", func() bool { return phase() == "paused" })
		var told []string
		for _, e := range eventsAfter(r, 0) {
			if e.Type == "cluster.limit" {
				told = append(told, e.Text)
			}
		}
		if len(told) != 2 || !strings.Contains(told[0], "most of its budget") ||
			!regexp.MustCompile(`^it has used its budget: .* EUR of 5\.00 EUR \(1\d\d %\)$`).MatchString(told[1]) {
			t.Errorf("told: %q", told)
		}
		if got := r.Muster("resume", "short"); got.Code != 4 || !strings.Contains(got.Err, "raise budget.limit") {
			t.Error(got)
		}
		r.Run("apply", "-f", r.File("more.yaml", "name: short\nnodes: 1\nbudget: {limit: 500 EUR}\n"))
		r.Run("resume", "short", "--wait")
		r.Run("delete", "short", "--wait")
	})
	r.NothingLeft()
	c.Stop()

	t.Run("no secret is in the log, the traces or the metrics", func(t *testing.T) {
		said := map[string]string{"metrics": metrics}
		for _, path := range append(logs, traces) {
			text, err := os.ReadFile(path)
			if err != nil || len(text) == 0 {
				t.Fatalf("%s: %d bytes, %v", path, len(text), err)
			}
			said[filepath.Base(path)] = string(text)
		}
		for name, text := range said {
			for _, s := range secrets {
				if strings.Contains(text, s.value) {
					t.Errorf("%s is in %s", s.what, name)
				}
			}
		}
		t.Logf("%d secrets were looked for in %d texts", len(secrets), len(said))
	})
}

type secret struct{ what, value string }

// secretsOf are those of the controller, of a cluster, and of the boots of its nodes, as files and database have them.
func secretsOf(r *rig.Rig, cluster string) (all []secret) {
	r.Helper()
	add := func(what, value string) {
		value = strings.TrimSpace(value)
		if lines := strings.Split(value, "\n"); strings.HasPrefix(value, "-----BEGIN ") {
			value = lines[len(lines)/2] // of a key in PEM it is enough to know it by; bytes of chance may hold line ends
		}
		if len(value) < 16 {
			r.Fatalf("%s is too short to look for: %d bytes", what, len(value))
		}
		all = append(all, secret{what, value})
	}
	var c struct{ ID string }
	r.Get(&c, "get", cluster)
	for _, path := range []string{"admin.token", "site.key", "local/clusters/" + c.ID + "/state/own/ssh_host_ed25519_key"} {
		text, err := os.ReadFile(filepath.Join(r.Data, path))
		if err != nil {
			r.Fatal(err)
		}
		add(path, string(text))
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(r.Data, "muster.db")+"?mode=ro")
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var root, munge string
	if err := db.QueryRow(`SELECT value, credential FROM secret, cluster WHERE secret.name = 'root' AND cluster.id = $1`, c.ID).
		Scan(&root, &munge); err != nil {
		r.Fatal(err)
	}
	add("the root of all keys, sealed", root)
	key := sealing.File(filepath.Join(r.Data, "site.key"), false)
	if err := key.Load(r.Context()); err != nil {
		r.Fatal(err)
	}
	open := func(place, box string) string {
		plain, err := key.Open(r.Context(), place, box)
		if err != nil {
			r.Fatal(err)
		}
		return string(plain)
	}
	root = open("secret.value root", root)
	add("the root of all keys", root)
	add("the key of munge", open("cluster.credential "+c.ID, munge))
	authority, err := identity.Open(root)
	if err != nil {
		r.Fatal(err)
	}
	nodes, err := db.Query(`SELECT id, boot FROM node WHERE cluster_id = $1`, c.ID)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = nodes.Close() }()
	for nodes.Next() {
		var id string
		var boot int64
		if err := nodes.Scan(&id, &boot); err != nil {
			r.Fatal(err)
		}
		add("the token of node "+id, authority.Token(id, boot))
	}
	if nodes.Err() != nil {
		r.Fatal(nodes.Err())
	}
	return all
}

// scrape reads /metrics as a tool with a token does, after it was refused without.
func scrape(r *rig.Rig, url string) string {
	r.Helper()
	token, err := os.ReadFile(filepath.Join(r.Data, "admin.token"))
	if err != nil {
		r.Fatal(err)
	}
	ask := func(authorization string) (int, string) {
		request, err := http.NewRequest(http.MethodGet, url+"/metrics", nil)
		if err != nil {
			r.Fatal(err)
		}
		request.Header.Set("Authorization", authorization)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			r.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			r.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	if status, _ := ask(""); status != http.StatusUnauthorized {
		r.Errorf("metrics without a token: %d", status)
	}
	status, text := ask("Bearer " + strings.TrimSpace(string(token)))
	for _, line := range []string{"\nmuster_ready 1\n", "\nmuster_entities{kind=\"node\",phase=\"ready\"} 3\n",
		"\nmuster_project_nodes{project=\"aero\"} 3\n"} {
		if status != http.StatusOK || !strings.Contains(text, line) {
			r.Errorf("metrics (%d) without %q", status, line)
		}
	}
	return text
}

// compareBill compares the rows of a cluster that is gone with the events of its nodes: the same states at the same
// milliseconds. A life begins when its row does; that its first event comes no earlier is all that the log can say.
func compareBill(r *rig.Rig, id string) {
	r.Helper()
	var bill apiv1.Cost
	r.Get(&bill, "cost", id, "--by", "row")
	entered := map[string][]event{} // by machine and node, in the order of time
	for _, e := range eventsAfter(r, 0) {
		if e.Type == "node.phase" && e.Cluster == "cfd" {
			entered[e.Machine+" "+e.Node] = append(entered[e.Machine+" "+e.Node], e)
		}
	}
	slices.SortStableFunc(bill.Lines, func(a, b apiv1.UsageLine) int { return a.From.Compare(b.From) })
	ends, lives, charged := map[string]time.Time{}, map[string]int{}, 0.0
	for _, l := range bill.Lines {
		if l.Kind != "node" {
			continue
		}
		who, state := l.Machine+" "+l.Node, ""
		for s, seconds := range l.Seconds {
			if state = s; time.Duration(seconds*1e3+0.5)*time.Millisecond != l.To.Sub(l.From) {
				r.Errorf("%s: %v s from %s to %s", who, l.Seconds, l.From, l.To)
			}
		}
		if state == "preparing" {
			lives[l.Node]++
		} else {
			if !ends[who].Equal(l.From) {
				r.Errorf("%s is %s from %s, and was metered until %s", who, state, l.From, ends[who])
			}
			if !slices.ContainsFunc(entered[who], func(e event) bool { return e.Phase == state && e.At.Equal(l.From) }) {
				r.Errorf("%s is %s from %s: no event says so", who, state, l.From)
			}
		}
		ends[who] = l.To
		if state == "ready" || state == "draining" {
			charged += l.ChargedSeconds
		} else if l.ChargedSeconds != 0 || l.Cost != "0.00 EUR" {
			r.Errorf("%s is charged while %s: %+v", who, state, l)
		}
	}
	for who, end := range ends {
		if !slices.ContainsFunc(entered[who], func(e event) bool { return e.Phase == "gone" && e.At.Equal(end) }) {
			r.Errorf("%s is metered until %s: no event says that it was gone then", who, end)
		}
	}
	if lives["head"] != 2 || lives["n1"] != 2 || lives["n2"] != 3 || charged == 0 {
		r.Errorf("lives: %v; charged %v s", lives, charged)
	}
	r.Logf("%d rows of %d lives, %.3f s charged: %s", len(bill.Lines), lives["head"]+lives["n1"]+lives["n2"], charged, bill.Total)
}
