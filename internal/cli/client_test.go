package cli

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	apiv1 "muster/api/v1"
	"muster/internal/spec"
)

func TestEveryProblemHasItsExitCode(t *testing.T) {
	for problem, code := range map[string]int{
		"invalid": 2, "no-capacity": 3, "quota": 4, "budget": 4, "conflict": 5, "not-found": 6, "unauthorized": 1,
		"something-new": 1,
	} {
		t.Run(problem, func(t *testing.T) {
			s := newSite(t)
			s.HandleFunc("GET /v1/clusters/hello", func(w http.ResponseWriter, _ *http.Request) {
				tellProblem(w, apiv1.Problem{Status: 409, Code: problem, Detail: "it is not so (do this)"})
			})
			muster(t, "get", "hello").wants(t, code, "error: it is not so (do this)\n")
		})
	}
}

func TestWhatIsWrongWithAFileIsToldWithItsPlace(t *testing.T) {
	write := func(t *testing.T, text string) string {
		path := filepath.Join(t.TempDir(), "cfd.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Run("here, before a controller is asked", func(t *testing.T) {
		s := newSite(t)
		path := write(t, "name: cfd\nnodse: 3\n")
		for _, verb := range []string{"create", "apply", "plan", "validate", "expand"} {
			r := muster(t, verb, "-f", path)
			r.wants(t, exitInvalid, "nodes")
			if !strings.HasPrefix(r.err, path+":2:1: ") {
				t.Errorf("%s does not begin with the place: %s", verb, r.err)
			}
		}
		if asked := s.asked(); len(asked) > 0 {
			t.Errorf("the controller was asked: %v", asked)
		}
	})
	t.Run("by the controller, which does not know the file's name", func(t *testing.T) {
		s := newSite(t)
		var sent, kind string
		s.HandleFunc("POST /v1/clusters", func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			sent, kind = string(text), r.Header.Get("Content-Type")
			tellProblem(w, apiv1.Problem{Status: 409, Code: "no-capacity", Detail: "all of it", Errors: spec.Diagnostics{
				{Code: "no-capacity", Path: "queues[main].max", Line: 3, Col: 8, Text: "9 asked, 2 free", Hint: "ask for 2"},
				{Code: "no-capacity", Path: "head.class", Text: "none is free"},
			}})
		})
		const text = "# my cluster\nname: cfd\nnodes: 9\n"
		path := write(t, text)
		muster(t, "create", "-f", path).
			wants(t, exitNoCapacity, path+":3:8: queues[main].max: 9 asked, 2 free (ask for 2)\n",
				"error: head.class: none is free\n")
		if sent != text || kind != "application/yaml" {
			t.Errorf("sent as %s: %q", kind, sent)
		}
	})
	t.Run("without a file there is no place", func(t *testing.T) {
		s := newSite(t)
		s.HandleFunc("POST /v1/clusters", func(w http.ResponseWriter, _ *http.Request) {
			tellProblem(w, apiv1.Problem{Status: 409, Code: "conflict",
				Errors: spec.Diagnostics{{Path: "name", Line: 1, Col: 7, Text: "is taken"}}})
		})
		muster(t, "create", "cfd", "--nodes", "2").wants(t, exitConflict, "error: name: is taken\n")
		muster(t, "create", "CFD", "--nodes", "2").wants(t, exitInvalid, "error: name: must be a cluster name")
	})
	t.Run("standard input is called so", func(t *testing.T) {
		musterWith(t, brisk(), "name: cfd\n", "validate", "-f", "-").wants(t, exitInvalid, "stdin:")
	})
}

// trouble fails the first requests in every way there is.
func trouble(t *testing.T, keys *[]string, answer any) http.HandlerFunc {
	t.Helper()
	var count atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		*keys = append(*keys, r.Header.Get("Idempotency-Key"))
		switch count.Add(1) {
		case 1:
			tellProblem(w, apiv1.Problem{Status: http.StatusServiceUnavailable, Code: "unavailable"})
		case 2:
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.Close()
		default:
			reply(w, http.StatusAccepted, answer)
		}
	}
}

func TestAChangeIsRepeatedUnderOneKey(t *testing.T) {
	s, l := newSite(t), newLife("hello")
	var keys []string
	s.HandleFunc("POST /v1/clusters", trouble(t, &keys, l.answer("create")))
	muster(t, "create", "hello", "--nodes", "1").wants(t, 0, "cluster hello is being made: 1 head + 1 node\n")
	if len(keys) != 3 || keys[0] == "" || keys[1] != keys[0] || keys[2] != keys[0] {
		t.Errorf("keys: %q", keys)
	}
	first := keys[0]
	muster(t, "create", "hello", "--nodes", "1")
	if keys[3] == first {
		t.Error("another request had the same key")
	}
}

func TestWhatHasNoKeyIsNotRepeated(t *testing.T) {
	s := newSite(t)
	var keys []string
	s.HandleFunc("POST /v1/machines", trouble(t, &keys, nil))
	muster(t, "machines", "add", "--local", "1").wants(t, exitOther)
	if !slices.Equal(keys, []string{""}) {
		t.Errorf("keys: %q", keys)
	}
}

func TestTheControllerIsFoundOrItIsSaidWhyNot(t *testing.T) {
	clear := func(t *testing.T) {
		for _, name := range []string{envURL, envToken, envData} {
			t.Setenv(name, "")
		}
	}
	announce := func(t *testing.T, url string) {
		dir := t.TempDir()
		t.Setenv(envData, dir)
		text, _ := json.Marshal(map[string]any{"url": url, "pid": 1})
		for name, content := range map[string]string{"controller.json": string(text), "admin.token": testToken + "\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("in the data directory", func(t *testing.T) {
		s := newSite(t)
		s.answers("GET /v1/site", 200, apiv1.Site{Site: "home", Identity: "admin"})
		clear(t)
		announce(t, s.url)
		muster(t, "whoami").wants(t, 0, "admin", "controller.json")
	})
	t.Run("nowhere", func(t *testing.T) {
		clear(t)
		dir := t.TempDir()
		t.Setenv(envData, dir)
		muster(t, "list").wants(t, exitOther, filepath.Join(dir, "controller.json")+" is not there", "`muster serve`", envURL)
	})
	t.Run("not running any more", func(t *testing.T) {
		clear(t)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		announce(t, "http://"+l.Addr().String())
		muster(t, "list").wants(t, exitOther, "the controller is not running", l.Addr().String(), "controller.json")
	})
	t.Run("the local token stays here", func(t *testing.T) {
		clear(t)
		announce(t, "http://127.0.0.1:1")
		t.Setenv(envURL, "https://elsewhere.example")
		muster(t, "list").wants(t, exitOther, "`muster login`", "set "+envToken)
	})
	t.Run("an address that is none", func(t *testing.T) {
		clear(t)
		t.Setenv(envURL, "localhost:7420")
		t.Setenv(envToken, "x")
		muster(t, "list").wants(t, exitInvalid, envURL, "http://127.0.0.1:7420")
	})
	t.Run("another program answers", func(t *testing.T) {
		s := newSite(t)
		s.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "nginx", http.StatusForbidden) })
		muster(t, "list").wants(t, exitOther, "403", "is it a Muster controller?")
	})
}

// TestAListIsReadToItsLastPage, wherever a page says that another one follows; as JSON each item is as it came.
func TestAListIsReadToItsLastPage(t *testing.T) {
	for _, first := range []string{
		`{"next": "one", "items": [{"name": "one", "project": "aero", "phase": "ready", "nodes": [], "why": "<&>"}]}`,
		`{"items": [{"name": "one", "project": "aero", "phase": "ready", "nodes": [], "why": "<&>"}], "next": "one"}`,
	} {
		s := newSite(t)
		s.HandleFunc("GET /v1/clusters", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("cursor") == "one" {
				reply(w, 200, list(newLife("two").now()))
				return
			}
			_, _ = io.WriteString(w, first)
		})
		s.answers("GET /v1/external-clusters", 200, list[apiv1.ExternalCluster]())
		muster(t, "list").wants(t, 0, "one", "two")
		var whole struct {
			Items []map[string]any `json:"items"`
		}
		r := muster(t, "list", "-o", "json")
		if err := json.Unmarshal([]byte(r.out), &whole); err != nil || len(whole.Items) != 2 {
			t.Errorf("%v: %s", err, r.out)
		}
		r.wants(t, 0, `"why": "<&>"`)
	}
}

// TestAListThatBreaksOffIsNone: of a page that fails or makes no sense, while the next one may be on its way.
func TestAListThatBreaksOffIsNone(t *testing.T) {
	s := newSite(t)
	second := ""
	s.HandleFunc("GET /v1/machines", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("cursor") {
		case "":
			_, _ = io.WriteString(w, `{"next": "1", "items": [{"name": "m1"}]}`)
		case "1":
			if second == "" {
				tellProblem(w, apiv1.Problem{Status: 409, Code: "conflict", Detail: "it cannot be"})
				return
			}
			_, _ = io.WriteString(w, second)
		default:
			<-r.Context().Done() // which is the case once the client does not want it any more
		}
	})
	none := func(why string) {
		t.Helper()
		r := muster(t, "machines", "list")
		if r.code == 0 || strings.Contains(r.out, "m1") || !strings.Contains(r.err, why) {
			t.Errorf("%+v", r)
		}
	}
	none("it cannot be")
	second = `{"next": "2", "items": [{"name": 7}]}`
	none("makes no sense")
}

// TestAListOfNoneIsAnEmptyOne in each format.
func TestAListOfNoneIsAnEmptyOne(t *testing.T) {
	s := newSite(t)
	s.answers("GET /v1/machines", 200, list[apiv1.Machine]())
	muster(t, "machines", "list", "-o", "json").wants(t, 0, `"items": []`)
	muster(t, "machines", "list", "-o", "yaml").wants(t, 0, "items: []")
	muster(t, "machines", "list").wants(t, 0, "there are no machines")
	muster(t, "machines", "list", "--rack", "r1").wants(t, 0, "no machine fits these filters")
}

// TestListsTakeFilters, which are the API's.
func TestListsTakeFilters(t *testing.T) {
	s := newSite(t)
	guest := apiv1.Machine{Name: "host-g1", Phase: apiv1.InUse, Part: &apiv1.Part{Host: "host"}}
	s.answers("GET /v1/machines", 200, list(guest))
	s.answers("GET /v1/clusters", 200, list[apiv1.Cluster]())
	r := muster(t, "machines", "list", "--phase", "in-use", "--class", "vm", "--network", "boot", "--rack", "r 1", "--cluster",
		"aero/cfd")
	r.wants(t, 0, "\nhost-g1") // its host is not there
	muster(t, "list", "--phase", "degraded", "--project", "aero").wants(t, 0, "no cluster that you may see fits these filters")
	want := []string{"GET /v1/machines?class=vm&cluster=aero%2Fcfd&limit=1000&network=boot&phase=in-use&rack=r+1",
		"GET /v1/clusters?limit=1000&phase=degraded&project=aero"}
	if asked := s.asked(); !slices.Equal(asked, want) {
		t.Errorf("asked: %q", asked)
	}
	muster(t, "list", "--phase", "broken").wants(t, exitInvalid, "--phase", "must be one of", "degraded")
}

func TestObjectsArePrintedAsTheAPIHasThem(t *testing.T) {
	s := newSite(t)
	s.answers("GET /v1/clusters/hello", 200, map[string]any{"name": "hello", "unheard_of": 1 << 40})
	muster(t, "get", "hello", "-o", "json").wants(t, 0, `"unheard_of": 1099511627776`)
	muster(t, "get", "hello", "-o", "yaml").wants(t, 0, "unheard_of: 1099511627776\n")
}
