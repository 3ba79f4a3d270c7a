package cli

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/spec"
)

// poison puts a hostile text into every text of a value, however deep, and something into every list.
func poison(v reflect.Value, depth int) {
	if text := reflect.TypeFor[encoding.TextUnmarshaler](); v.CanAddr() && v.Addr().Type().Implements(text) {
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Now().Add(-time.Minute)))
		}
		return // it has a form of its own, which reading checks
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		if depth < 12 {
			v.Set(reflect.New(v.Type().Elem()))
			poison(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if depth < 12 && v.Type().Elem().Kind() != reflect.Uint8 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			poison(v.Index(0), depth+1)
			poison(v.Index(1), depth+1)
		}
	case reflect.Map:
		if depth < 12 {
			v.Set(reflect.MakeMap(v.Type()))
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			poison(key, depth+1)
			poison(value, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				poison(v.Field(i), depth+1)
			}
		}
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(hostile))
		}
	}
}

// poisoned is a value with hostile text in every string.
func poisoned[T any]() (value T) {
	poison(reflect.ValueOf(&value).Elem(), 0)
	return value
}

// hostilePaths answers every path that the command line asks, with nothing but hostile texts.
func hostilePaths(s *site) {
	one := func(value func() any, patterns ...string) {
		for _, pattern := range patterns {
			s.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, value()) })
		}
	}
	one(func() any { return list(poisoned[apiv1.Cluster]()) }, "GET /v1/clusters")
	one(func() any { return poisoned[apiv1.Cluster]() }, "GET /v1/clusters/{c}")
	one(func() any {
		a := poisoned[apiv1.Answer]()
		a.FitsAt = nil
		return a
	}, "POST /v1/clusters", "PUT /v1/clusters/{c}", "DELETE /v1/clusters/{c}", "POST /v1/clusters/{c}/extend",
		"POST /v1/clusters/{c}/pause", "POST /v1/clusters/{c}/resume", "POST /v1/clusters/{c}/rollout",
		"POST /v1/clusters/{c}/scale")
	one(func() any { return poisoned[apiv1.Cost]() }, "GET /v1/clusters/{c}/cost")
	one(func() any { return poisoned[apiv1.Opened]() }, "POST /v1/clusters/{c}/apps/{a}/open")
	one(func() any { return poisoned[apiv1.ConsoleOpened]() }, "POST /v1/console/open")
	one(func() any { return poisoned[apiv1.Certificate]() }, "POST /v1/clusters/{c}/certificate")
	one(func() any { return poisoned[apiv1.Snapshot]() }, "POST /v1/clusters/{c}/snapshots", "GET /v1/snapshots/{s}",
		"DELETE /v1/snapshots/{s}")
	one(func() any { return list(poisoned[apiv1.Snapshot]()) }, "GET /v1/snapshots")
	one(func() any {
		t := poisoned[apiv1.Task]()
		t.Phase, t.Outcome = apiv1.Ended, apiv1.TaskLost
		return t
	}, "POST /v1/clusters/{c}/tasks", "DELETE /v1/clusters/{c}/jobs/{j}", "POST /v1/clusters/{c}/jobs/{j}/output",
		"POST /v1/clusters/{c}/jobs/{j}/change",
		"GET /v1/tasks/{t}", "DELETE /v1/tasks/{t}")
	one(func() any { return list(poisoned[apiv1.Task]()) }, "GET /v1/clusters/{c}/tasks")
	one(func() any { return apiv1.TaskOutput{Ended: true, Bytes: []byte{}} }, "GET /v1/tasks/{t}/output")
	one(func() any { return list(poisoned[apiv1.Job]()) }, "GET /v1/jobs", "GET /v1/jobs/current")
	one(func() any { return list(poisoned[apiv1.Suite]()) }, "GET /v1/suites")
	one(func() any { return list(poisoned[apiv1.Benchmark]()) }, "GET /v1/benchmarks")
	one(func() any {
		b := poisoned[apiv1.Benchmark]()
		b.Phase, b.Outcome = apiv1.Ended, apiv1.BenchmarkIncomplete
		return b
	}, "POST /v1/clusters/{c}/benchmarks", "GET /v1/benchmarks/{b}", "DELETE /v1/benchmarks/{b}")
	one(func() any { return poisoned[apiv1.BenchmarkComparison]() }, "GET /v1/benchmarks/{b}/comparison")
	one(func() any { return list(poisoned[apiv1.BenchmarkSeries]()) }, "GET /v1/benchmarks/{b}/series")
	one(func() any { return list(poisoned[apiv1.BenchmarkRound]()) }, "GET /v1/benchmarks/{b}/rounds")
	one(func() any { return list(poisoned[apiv1.BenchmarkStep]()) }, "GET /v1/benchmarks/{b}/steps")
	one(func() any { return list(poisoned[apiv1.BenchmarkTrend]()) }, "GET /v1/clusters/{c}/trends", "GET /v1/trends")
	one(func() any { return list(poisoned[apiv1.BenchmarkChange]()) }, "GET /v1/changes")
	one(func() any { return poisoned[apiv1.BenchmarkChange]() }, "POST /v1/changes/{c}/accept")
	one(func() any { return apiv1.BenchmarkOutput{} }, "GET /v1/benchmarks/{b}/output")
	one(func() any { return poisoned[apiv1.Efficiencies]() }, "GET /v1/efficiency")
	one(func() any { return poisoned[apiv1.Statement]() }, "GET /v1/usage")
	one(func() any { return list(poisoned[apiv1.Entry]()) }, "GET /v1/audit")
	one(func() any { return poisoned[apiv1.Calendar]() }, "GET /v1/calendar")
	one(func() any { return list(poisoned[apiv1.Class]()) }, "GET /v1/classes")
	one(func() any { return list(poisoned[apiv1.ExternalCluster]()) }, "GET /v1/external-clusters")
	one(func() any { return poisoned[apiv1.ExternalCluster]() }, "GET /v1/external-clusters/{c}",
		"PUT /v1/external-clusters/{c}", "DELETE /v1/external-clusters/{c}", "POST /v1/external-clusters")
	one(func() any { return poisoned[apiv1.ExternalClusterAuthority]() }, "GET /v1/external-cluster-authority")
	one(func() any { return list(poisoned[apiv1.Fabric]()) }, "GET /v1/fabrics")
	one(func() any { return poisoned[apiv1.Fabric]() }, "GET /v1/fabrics/{f}", "POST /v1/fabrics", "DELETE /v1/fabrics/{f}",
		"PUT /v1/fabrics/{f}/snapshot", "PUT /v1/fabrics/{f}/partitions/{p}", "DELETE /v1/fabrics/{f}/partitions/{p}",
		"PUT /v1/fabrics/{f}/ports/{p}", "DELETE /v1/fabrics/{f}/ports/{p}")
	one(func() any { return poisoned[apiv1.FabricDiff]() }, "GET /v1/fabrics/{f}/diff")
	one(func() any { return list(poisoned[apiv1.Topology]()) }, "GET /v1/topologies")
	one(func() any { return poisoned[apiv1.Topology]() }, "PUT /v1/topologies/{f}", "DELETE /v1/topologies/{f}")
	one(func() any { return list(poisoned[apiv1.SecretView]()) }, "GET /v1/secrets", "POST /v1/secrets/rotate",
		"POST /v1/secrets/rekey")
	one(func() any { return poisoned[apiv1.Gateway]() }, "GET /v1/gateway", "POST /v1/gateway/rotate")
	one(func() any { return list(poisoned[apiv1.Image]()) }, "GET /v1/images")
	one(func() any { return list(poisoned[apiv1.Key]()) }, "GET /v1/keys")
	one(func() any { return poisoned[apiv1.Key]() }, "POST /v1/keys", "DELETE /v1/keys/{k}")
	one(func() any { return list(poisoned[apiv1.Machine]()) }, "GET /v1/machines", "POST /v1/machines")
	one(func() any { return poisoned[apiv1.Machine]() }, "GET /v1/machines/{m}", "DELETE /v1/machines/{m}",
		"POST /v1/machines/{m}/{what}", "PUT /v1/machines/{m}/location")
	one(func() any { return list(poisoned[apiv1.TestResult]()) }, "GET /v1/machines/{m}/test-results", "GET /v1/test-results")
	one(func() any { return list(poisoned[apiv1.UnknownMachine]()) }, "GET /v1/unknown-machines")
	one(func() any { return list(poisoned[apiv1.Network]()) }, "GET /v1/networks")
	one(func() any { return poisoned[apiv1.Network]() }, "PUT /v1/networks/{n}", "DELETE /v1/networks/{n}")
	one(func() any { return list(poisoned[apiv1.Person]()) }, "GET /v1/people")
	one(func() any { return poisoned[apiv1.Person]() }, "POST /v1/people", "PUT /v1/people/{p}")
	one(func() any { return poisoned[apiv1.Token]() }, "POST /v1/tokens", "POST /v1/people/{p}/tokens")
	one(func() any { return list(poisoned[apiv1.Token]()) }, "GET /v1/tokens")
	one(func() any { return poisoned[apiv1.Token]() }, "DELETE /v1/tokens/{t}")
	one(func() any { return list(poisoned[apiv1.Project]()) }, "GET /v1/projects")
	one(func() any { return poisoned[apiv1.Project]() }, "POST /v1/projects", "PUT /v1/projects/{p}")
	one(func() any { return list(poisoned[apiv1.Member]()) }, "GET /v1/projects/{p}/members")
	one(func() any { return poisoned[apiv1.Hooks]() }, "GET /v1/projects/{p}/hooks", "PUT /v1/projects/{p}/hooks")
	one(func() any { return poisoned[apiv1.Member]() }, "PUT /v1/projects/{p}/members/{m}", "DELETE /v1/projects/{p}/members/{m}",
		"POST /v1/projects/{p}/join")
	one(func() any { return poisoned[apiv1.Quota]() }, "GET /v1/projects/{p}/quota", "PUT /v1/projects/{p}/quota")
	one(func() any { return list(poisoned[apiv1.Session]()) }, "GET /v1/sessions")
	one(func() any { return poisoned[apiv1.Session]() }, "DELETE /v1/sessions/{s}")
	one(func() any { return poisoned[apiv1.Site]() }, "GET /v1/site")
	one(func() any { return poisoned[apiv1.Status]() }, "GET /v1/status")
	one(func() any { return list(poisoned[apiv1.Moment]()) }, "GET /v1/status/day")
	one(func() any { return poisoned[apiv1.Alarm]() }, "PUT /v1/alarms/{a}/acknowledgement")
	one(func() any { return poisoned[apiv1.Ways]() }, "GET /v1/login")
	events := func(w http.ResponseWriter, r *http.Request) {
		e := poisoned[apiv1.Event]()
		if r.FormValue("watch") == "" {
			reply(w, http.StatusOK, list(e, e))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		data, _ := json.Marshal(e)
		_, _ = fmt.Fprintf(w, "id: 1\nevent: %s\ndata: %s\n\n", "x", data)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	s.HandleFunc("GET /v1/events", events)
	s.HandleFunc("GET /v1/clusters/{c}/events", events)
}

// hostileLines is a command line or more for every command that asks the controller or tells of somebody's words. A command
// that is not here must be among those that print nothing but their own.
func hostileLines(file, plain string) map[string][][]string {
	return map[string][][]string{
		"alarms acknowledge": {{"a", "--note", "n"}, {hostile}},
		"alarms list":        {{}},
		"apply":              {{"-f", file}, {"-f", file, "--dry-run"}, {"-f", file, "--wait", "--timeout", "200ms"}},
		"audit":              {{}, {"--all"}},
		"bench accept":       {{"h"}},
		"bench cancel":       {{"b"}},
		"bench changes":      {{}, {"--worse"}},
		"bench compare":      {{"a", "b"}, {"a", "b", "--wait"}, {"--runs", hostile, "b"}},
		"bench export": {{"b"}, {"b", "-o", "json"}, {"b", "-o", "prometheus"}, {"b", "-o", "benchstat"},
			{"b", "-o", "reframe"}},
		"bench history":       {{"a"}, {"--machine", hostile}, {"a", "--suite", hostile, "--after", "2d,2h"}},
		"bench list":          {{}, {"a"}},
		"bench output":        {{"b", "0", "0"}},
		"bench report":        {{"b", "-f", filepath.Join(filepath.Dir(file), "report.html")}, {"b", "-f", hostile}},
		"bench run":           {{"a"}, {"a", "--wait"}, {hostile, "--suite", hostile}},
		"bench runs":          {{}, {"a"}},
		"bench show":          {{"b", "--samples"}, {hostile}},
		"bench watch":         {{"a"}, {"a", "--off"}, {hostile, "--suite", hostile}},
		"bench validate":      {{file}, {plain}},
		"calendar":            {{}},
		"classes":             {{}},
		"clusters ca":         {{}},
		"clusters list":       {{}},
		"clusters register":   {{"arc", "--login", "arc.example:22", "--probe", "p", "--host-key", plain, "--project", "p"}},
		"clusters set":        {{"arc", "--probe", "p"}},
		"clusters show":       {{"arc"}},
		"clusters unregister": {{hostile}},
		"cost":                {{}, {"a"}, {"-o", "csv"}},
		"create": {{"a", "--nodes", "1"}, {"a", "--nodes", "1", "--wait", "--timeout", "200ms"},
			{"a", "--from-snapshot", "s"}, {hostile, "--nodes", "1"}},
		"delete":               {{"a"}, {"a", "--wait", "--timeout", "200ms"}},
		"describe":             {{"a"}},
		"efficiency":           {{}},
		"events":               {{}, {"a"}, {"-w"}, {"a", "-w"}, {"--machine", hostile}},
		"expand":               {{"-f", file}},
		"console":              {{}},
		"extend":               {{"a", "--for", "1h"}, {"a", "--for", "1h", "--dry-run"}},
		"fabric add":           {{"ib0", "--manager", "0x1"}},
		"fabric assign":        {{"ib0", "0x1", "m"}},
		"fabric cables forget": {{hostile}},
		"fabric cables import": {{"ib0", plain}},
		"fabric cables list":   {{}},
		"fabric diff":          {{"ib0"}},
		"fabric forget":        {{"ib0", "0x1"}, {hostile, hostile}},
		"fabric get":           {{"ib0"}},
		"fabric import":        {{"ib0", plain}},
		"fabric infra remove":  {{"ib0", hostile}},
		"fabric infra set":     {{"ib0", "p", "--member", "0x1"}},
		"fabric list":          {{}},
		"fabric remove":        {{hostile}},
		"gateway rotate":       {{}},
		"gateway show":         {{}},
		"get":                  {{"a"}},
		"images list":          {{}},
		"jobs":                 {{}, {"a", "1"}},
		"jobs cancel":          {{"a", "1"}},
		"jobs hold":            {{"a", "1"}},
		"jobs release":         {{"a", "1"}},
		"jobs requeue":         {{"a", "1"}},
		"jobs output":          {{"a", "1"}},
		"keys add":             {{plain}},
		"keys delete":          {{hostile}},
		"keys list":            {{}},
		"list":                 {{}},
		"login":                {{}},
		"logout":               {{}},
		"machines add":         {{"--local", "1"}, {"m", "--mac", "52:54:00:00:00:01", "--power", "wol"}},
		"machines drain":       {{"m"}, {hostile}},
		"machines free":        {{"m"}},
		"machines get":         {{"m"}},
		"machines health":      {{}, {"m"}},
		"machines import":      {{plain}},
		"machines inspect":     {{"m"}, {"--all"}},
		"machines list":        {{}},
		"machines maintain":    {{"m"}},
		"machines place":       {{"m", "--rack", "r01", "--unit", "3"}, {hostile, "--nowhere"}},
		"machines quarantine":  {{"m", "--reason", hostile}},
		"machines remove":      {{"m"}},
		"machines unknown":     {{}},
		"networks add":         {{"n", "--interface", "eth0", "--range", "10.0.0.10-10.0.0.20"}},
		"networks list":        {{}},
		"networks remove":      {{hostile}},
		"open":                 {{"a"}, {"a", "b"}, {"--ca"}},
		"pause":                {{"a"}},
		"plan":                 {{"-f", file}},
		"projects add":         {{"p"}},
		"projects grant":       {{"p", "bob", "member"}},
		"projects hooks":       {{"p"}, {"p", "--prolog", ""}},
		"projects join":        {{hostile}},
		"projects leave":       {{hostile}},
		"projects list":        {{}},
		"projects members":     {{"p"}},
		"projects revoke":      {{hostile, hostile}},
		"projects set":         {{"p", "--recorded"}},
		"quota":                {{}, {"p"}},
		"resume":               {{"a"}},
		"rollout back":         {{"a"}},
		"rollout resume":       {{"a"}},
		"run":                  {{"a", "--script", file}, {"a", "--detach", "--script", file}, {hostile, "--script", file}},
		"scale":                {{"a", "2"}, {"a", hostile}},
		"sessions end":         {{hostile}},
		"sessions list":        {{}, {"--all"}},
		"secrets list":         {{}},
		"secrets rekey":        {{}},
		"secrets rotate":       {{"root"}},
		"snapshot":             {{"a"}, {"a", "--wait", "--timeout", "200ms"}},
		"snapshots delete":     {{hostile}},
		"snapshots list":       {{}},
		"ssh":                  {{"a:n"}, {hostile}},
		"ssh-config":           {{}},
		"status":               {{}, {"--day"}},
		"tasks cancel":         {{"t"}, {hostile}},
		"tasks get":            {{"t"}},
		"tasks list":           {{"a"}},
		"tasks output":         {{"t"}},
		"tokens add":           {{"w"}, {"w", "--person", "bob"}},
		"tokens list":          {{}},
		"tokens revoke":        {{hostile}},
		"tunnel":               {{"a"}},
		"users add":            {{"bob"}},
		"users disable":        {{hostile}},
		"users enable":         {{"bob"}},
		"users list":           {{}},
		"users set":            {{"bob", "--name", "x"}},
		"validate":             {{"-f", file}, {"-f", plain}},
		"whoami":               {{}},
	}
}

// TestNoFieldOfAnyAnswerReachesATerminalRaw runs every command against a controller all of whose texts are hostile, in every
// form of output, and then against one that refuses with such texts.
func TestNoFieldOfAnyAnswerReachesATerminalRaw(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("SSH_AUTH_SOCK", "")
	file, plain := filepath.Join(dir, "cluster.yaml"), filepath.Join(dir, "plain")
	for path, text := range map[string]string{file: "name: a\nnodes: 1\n", plain: hostile} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	local := []string{"host", "agent host", "agent home", "agent", "completion", "version", "serve",
		"images build", "images import", "images verify",
		"gpus map", "gpus run", "spec schema", "spec fields", "bench schema"}
	lines := hostileLines(file, plain)
	formed := map[string]bool{}
	everyCommand(func(c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), "muster ")
		if c.Runnable() && !c.HasSubCommands() && lines[name] == nil && !slices.Contains(local, name) &&
			!strings.HasPrefix(name, "rack ") {
			t.Errorf("muster %s is not tried with hostile texts", name)
		}
		formed[name] = c.Flags().Lookup("output") != nil
	})
	refusal := apiv1.Problem{Title: hostile, Status: http.StatusConflict, Code: hostile, Detail: hostile}
	refusal.Errors = spec.Diagnostics{poisoned[spec.Diagnostic]()}
	plainly := refusal
	plainly.Errors = nil
	for _, way := range []string{"answers", "refuses", "refuses a file", "is another program"} {
		t.Run(way, func(t *testing.T) {
			s := newSite(t)
			switch way {
			case "answers":
				hostilePaths(s)
				s.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
					if !strings.HasPrefix(r.URL.Path, "/v1/clusters/") { // a tunnel is no answer
						t.Errorf("%s %s is answered by no type", r.Method, r.URL.Path)
					}
					http.NotFound(w, r)
				})
			case "refuses":
				s.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { tellProblem(w, plainly) })
			case "refuses a file":
				s.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { tellProblem(w, refusal) })
			default:
				s.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
					conn, _, err := http.NewResponseController(w).Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = fmt.Fprint(conn, "HTTP/1.1 409 \x1b]0;PWNED\a\u202e\u009b31m\r\nContent-Length: 0\r\nConnection: "+
						"close\r\n\r\n")
					_ = conn.Close()
				})
			}
			for _, name := range slices.Sorted(maps.Keys(lines)) {
				for _, more := range lines[name] {
					args := append(strings.Fields(name), more...)
					forms := [][]string{nil}
					if formed[name] && !slices.Contains(more, "-o") {
						forms = append(forms, []string{"-o", "json"}, []string{"-o", "yaml"})
					}
					for _, form := range forms {
						all := append(slices.Clone(args), form...)
						ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
						if slices.Contains(more, "-w") {
							ctx, cancel = context.WithTimeout(t.Context(), 150*time.Millisecond)
						}
						r := musterUntil(ctx, brisk(), strings.NewReader(""), all...)
						cancel()
						what := strings.Join(all, " ")
						harmless(t, what, r.out)
						harmless(t, what, r.err)
						if way != "answers" || r.code != 0 || r.out == "" {
							continue
						}
						var value any
						if slices.Equal(form, []string{"-o", "json"}) && !slices.Contains(more, "-w") {
							if err := json.Unmarshal([]byte(r.out), &value); err != nil {
								t.Errorf("%s: %v", what, err)
							}
						}
						if slices.Equal(form, []string{"-o", "yaml"}) {
							if err := yaml.Unmarshal([]byte(r.out), &value); err != nil {
								t.Errorf("%s: %v", what, err)
							}
						}
					}
				}
			}
		})
	}
}

// TestTheLivePictureIsOurs draws a cluster whose every text is hostile.
func TestTheLivePictureIsOurs(t *testing.T) {
	p := (&app{}).newPicture(hostile, time.Now())
	p.now, p.extra = poisoned[apiv1.Cluster](), hostile
	for _, l := range p.lines(20) {
		if strings.Contains(string(l), "\n") {
			t.Errorf("%q is several lines", l)
		}
		harmless(t, "the picture", string(l))
	}
}

// TestAStrangerCannotForgeARow is two attacks on operators who look at their machines: one from the boot network, whose facts
// anybody may send, and one by an inspected machine.
func TestAStrangerCannotForgeARow(t *testing.T) {
	s := newSite(t)
	evil := apiv1.Facts{System: apiv1.System{
		Product: "\x1b]0;PWNED BY THE BOOT NETWORK\a\x1b[31m\n52:54:00:00:00:02  boot  1s  64  512 GiB  trusted"}}
	s.answers("GET /v1/unknown-machines", 200,
		list(apiv1.UnknownMachine{MAC: "52:54:00:00:00:01", Network: "boot", LastSeen: ago(0), Facts: evil}))
	s.answers("GET /v1/machines", 200,
		list(apiv1.Machine{Name: "r1", Substrate: "metal", Phase: "quarantined", Since: ago(0),
			Reason: "\x1b[31mEVIL\nr2  metal  available"}))
	for _, what := range []string{"unknown", "list"} {
		r := muster(t, "machines", what)
		r.wants(t, 0, `\x1b[31m`)
		harmless(t, what, r.out)
		if n := strings.Count(r.out, "\n"); n != 2 {
			t.Errorf("machines %s: a heading and one machine are %d lines:\n%s", what, n, r.out)
		}
	}
}

// TestALongReasonIsCutInListsAndWholeInDescribe is what an error of 50 KiB once made of a list.
func TestALongReasonIsCutInListsAndWholeInDescribe(t *testing.T) {
	s := newSite(t)
	c := apiv1.Cluster{ID: "c1", Name: "a", Project: "p", Phase: apiv1.Degraded, Since: ago(0), Reason: "file name too long: " +
		strings.Repeat("/d", 2<<10) + " END"}
	s.answers("GET /v1/clusters", 200, list(c))
	s.answers("GET /v1/external-clusters", 200, list[apiv1.ExternalCluster]())
	s.answers("GET /v1/clusters/a", 200, c)
	s.answers("GET /v1/clusters/c1/events", 200, list[apiv1.Event]())
	if r := muster(t, "list"); len(r.out) > 1000 || !strings.Contains(r.out, "…") ||
		!strings.Contains(r.out, "file name too long") {
		t.Errorf("%d bytes: %.300s", len(r.out), r.out)
	}
	muster(t, "describe", "a").wants(t, 0, "/d/d END")
}
