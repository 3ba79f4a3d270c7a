package api_test

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/api"
	"muster/internal/core"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/person"
	"muster/internal/kinds/snapshot"
	"muster/internal/kinds/task"
	"muster/internal/spec"
)

// operation is one of the API document's, with the example of its body.
type operation struct{ id, method, path, example string }

func operations(t *testing.T) (all []operation) {
	t.Helper()
	text, err := api.OpenAPI(api.Drivers{})
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string `yaml:"operationId"`
			RequestBody *struct {
				Content map[string]struct {
					Example any `yaml:"example"`
				} `yaml:"content"`
			} `yaml:"requestBody"`
		} `yaml:"paths"`
	}
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	for path, methods := range document.Paths {
		for method, op := range methods {
			o := operation{id: op.OperationID, method: strings.ToUpper(method), path: path}
			if op.RequestBody != nil {
				for _, form := range []string{"application/yaml", "application/json"} {
					switch example := op.RequestBody.Content[form].Example.(type) {
					case nil:
					case string:
						o.example = example
					default:
						text, err := json.Marshal(example)
						if err != nil {
							t.Fatal(err)
						}
						o.example = string(text)
					}
				}
				if _, file := op.RequestBody.Content["application/octet-stream"]; o.example == "" && !file {
					t.Errorf("%s takes a body, and has no example of one", o.id)
				}
			}
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.id, b.id) })
	return all
}

// who calls: the roles are those in project aero.
var callers = []string{"nobody", "viewer", "member", "owner", "operator"}

// answers says what each role gets, in the order of callers: y is let in, - is refused, ? is told that there is no such thing.
type answers struct{ own, other string }

// wanted spells out who may do what. What is not in it fails the test.
var wanted = map[answers][]string{
	{"yyyyy", "yyyyy"}: {"open-console", "sign-in", "sign-out",
		"list-keys", "add-key", "delete-key", "list-tokens", "add-token", "delete-token", "get-site",
		"list-classes", "list-images", "get-calendar",
		"list-projects", "list-audit", "list-sessions", "get-gateway", "list-clusters", "list-snapshots", "list-events",
		"list-jobs", "list-current-jobs", "get-efficiency", "list-suites", "list-benchmarks", "list-changes",
		"get-login", "log-in",
		"list-external-clusters", "get-external-cluster"},
	{"----y", "----y"}: {"list-machines", "get-machine", "list-machine-test-results", "list-test-results", "list-networks",
		"list-trends", "list-unknown-machines", "get-status", "list-moments", "acknowledge-alarm", "list-people",
		"add-machines", "remove-machine", "free-machine", "inspect-machine", "maintain-machine", "drain-machine",
		"quarantine-machine", "place-machine", "put-network", "remove-network",
		"add-person", "change-person", "add-person-token", "add-project", "rotate-gateway-key", "list-secrets", "rotate-secrets",
		"rekey-secrets",
		"add-external-cluster", "change-external-cluster", "remove-external-cluster", "get-external-cluster-authority",
		"list-fabrics", "get-fabric", "diff-fabric", "list-topologies", "put-topology", "remove-topology", "add-fabric",
		"remove-fabric", "import-fabric", "put-fabric-partition", "remove-fabric-partition",
		"assign-fabric-port", "forget-fabric-port"},
	{"?yyyy", "????y"}: {"get-cluster", "get-cluster-cost", "list-cluster-events", "get-snapshot", "get-quota", "list-members",
		"get-hooks", "get-usage", "list-tasks", "get-task", "get-benchmark", "list-benchmark-series", "list-benchmark-rounds",
		"list-benchmark-steps", "list-cluster-trends",
		"compare-benchmarks"},
	{"?-yyy", "????y"}: {"create-cluster", "apply-cluster", "scale-cluster", "delete-cluster", "pause-cluster", "resume-cluster",
		"extend-cluster", "change-rollout",
		"create-snapshot", "delete-snapshot", "accept-change"},
	{"?-yy-", "????-"}: {"certify", "tunnel", "open-terminal", "list-files", "remove-file", "read-file",
		"write-file", "move-file", "make-directory", "open-app", "run-task", "cancel-job", "change-job",
		"get-job-output", "run-benchmark"},
	{"?----", "????-"}: {"get-task-output", "get-benchmark-output"}, // it is sam's
	{"???yy", "????y"}: {"end-session"},
	{"?????", "?????"}: {"join-project"}, // none of them is invited
	{"?--y-", "????-"}: {"set-hooks"},
	{"?--yy", "????y"}: {"set-member", "remove-member", "change-project", "cancel-task", "cancel-benchmark"},
}

// tenants is a site with two projects, whose clusters and snapshots have the same names, and somebody of each role in aero.
func tenants(t *testing.T, db *core.Store) {
	t.Helper()
	must := func(f func(context.Context, *core.Tx) error) {
		t.Helper()
		if err := db.Update(t.Context(), func(tx *core.Tx) error { return f(t.Context(), tx) }); err != nil {
			t.Fatal(err)
		}
	}
	must(func(ctx context.Context, tx *core.Tx) error {
		for _, name := range []string{"nobody", "viewer", "member", "owner", "operator", "sam", "olga", "vera"} {
			if err := person.Add(ctx, tx, person.Person{Name: name, Operator: name == "operator"}); err != nil {
				return err
			}
			if err := person.AddToken(ctx, tx, person.HashToken(name), person.Token{ID: "t-" + name, Person: name, Name: "test",
				Kind: person.APIToken, Scope: access.Whole}, time.Hour); err != nil {
				return err
			}
		}
		for i, project := range []string{"aero", "bio"} {
			if err := person.AddProject(ctx, tx, person.Project{Name: project}); err != nil {
				return err
			}
			one := 1
			c := spec.Cluster{Name: "cfd", Project: project, Image: "debian13-hpc",
				Queues: []spec.Queue{{Name: "cpu", Class: "local", Min: &one, Max: &one}}, Head: &spec.Head{Class: "service"},
				Access: &spec.Access{Apps: []spec.App{{Name: "jupyter", Port: 8888, Node: "head"}}}}
			id := "c-" + project
			if err := cluster.Add(ctx, tx, cluster.Cluster{ID: id, Project: project, Name: "cfd", Spec: c, Image: "sha256:00",
				CreatedBy: "sam"}); err != nil {
				return err
			}
			if err := task.Add(ctx, tx, task.Task{ID: "t-" + project, Cluster: id, Account: "sam",
				Work: task.Work{Command: []string{"secret"}}}); err != nil {
				return err
			}
			if err := bench.Add(ctx, tx, bench.Run{ID: "b-" + project, Project: project, ClusterID: id, Cluster: "cfd",
				Account: "sam", Plan: planned(t)}); err != nil {
				return err
			}
			change := bench.Change{ID: "h-" + project, Scope: bench.Scope{Cluster: id}}
			if err := changed(ctx, tx, "b-"+project, change); err != nil {
				return err
			}
			session := person.Session{ID: "s-" + project, Person: "sam", Kind: "cluster", PlaceID: id, Place: "cfd",
				Project: project}
			if err := person.BeginSession(ctx, tx, session); err != nil {
				return err
			}
			if err := snapshot.Add(ctx, tx, snapshot.Snapshot{ID: "s-" + project, Project: project, Name: "shot", ClusterID: id,
				Cluster: "cfd", Spec: c, CreatedBy: "sam"}); err != nil {
				return err
			}
			for _, m := range []person.Membership{{Person: "sam", Role: access.Member}, {Person: "olga", Role: access.Owner}} {
				m.Project = project
				if err := person.SetMember(ctx, tx, m); err != nil {
					return err
				}
			}
			for _, role := range access.Roles() {
				if i == 0 {
					if err := person.SetMember(ctx, tx, person.Membership{Project: project, Person: string(role),
						Role: role}); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

func TestWhoMayDoWhat(t *testing.T) {
	want := map[string]answers{}
	for a, operations := range wanted {
		for _, id := range operations {
			want[id] = a
		}
	}
	for _, op := range operations(t) {
		t.Run(op.id, func(t *testing.T) {
			w, ok := want[op.id]
			if !ok {
				t.Fatal("it stands nowhere who may do this")
			}
			s, db := server(t, 8)
			tenants(t, db)
			for project, answers := range map[string]string{"aero": w.own, "bio": w.other} {
				for i, who := range callers {
					path := strings.NewReplacer("{cluster}", project+"%2Fcfd", "{snapshot}", project+"%2Fshot", "{project}",
						project, "{person}", "sam", "{machine}", "m1", "{job}", "1",
						"{network}", "n1", "{session}", "s-"+project, "{app}", "jupyter", "{external_cluster}", "arc",
						"{fabric}", "ib0",
						"{partition}", "storage", "{port}", "0x0002c903000a0b0c", "{token}", "t-"+who, "{task}", "t-"+project,
						"{benchmark}", "b-"+project, "{change}", "h-"+project,
						"{fingerprint}", url.PathEscape("SHA256:x")).Replace(op.path)
					if op.id == "get-usage" {
						path += "?project=" + project
					}
					body := strings.ReplaceAll(op.example, "aero", project)
					if op.id == "sign-in" {
						body = `{"token": "` + who + `"}`
					}
					headers := []string{"Authorization", "Bearer " + who}
					if op.id == "tunnel" {
						headers = append(headers, "Upgrade", apiv1.TunnelProtocol)
					}
					if err := db.Update(t.Context(), func(tx *core.Tx) error {
						// it may have revoked itself
						life := person.Token{ID: "t-" + who, Person: who, Name: "test", Kind: person.APIToken,
							Scope: access.Whole}
						if err := person.AddToken(t.Context(), tx, person.HashToken(who), life, time.Hour); err != nil {
							return err
						}
						return person.SetMember(t.Context(), tx,
							person.Membership{Project: project, Person: "sam", Role: access.Member})
					}); err != nil {
						t.Fatal(err)
					}
					got := call(t, s, op.method, path, body, headers...)
					// of what no project owns it may be told that it is not there
					everybody := w.own == "yyyyy" || w.own == "----y"
					switch unknown := got.status == 404 || strings.Contains(got.text, "unknown-project"); {
					case got.status == 401 || got.status >= 500,
						answers[i] == 'y' && (got.status == 403 || unknown && !everybody),
						answers[i] == '-' && got.status != 403,
						answers[i] == '?' && !unknown:
						t.Errorf("%s of %s in %s: %d %s", who, "aero", project, got.status, got.text)
					}
					if answers[i] == '?' && names(got.text, "sam") {
						t.Errorf("%s is told of another project's things: %s", who, got.text)
					}
				}
			}
		})
	}
}
