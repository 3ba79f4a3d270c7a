package cli

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	apiv1 "muster/api/v1"
	"muster/internal/spec"
)

// ago is a time so long before now. What is printed of whole hours stays the same for a minute, of less for a second.
func ago(d time.Duration) time.Time { return time.Now().Add(-d - 100*time.Millisecond) }

// reads compares what was printed with what should have been, less the first line break of a raw string.
func reads(t *testing.T, got, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
		t.Errorf("it reads otherwise (-want +got):\n%s", diff)
	}
}

func TestAPlanShowsOldAndNewAndWhatItDoes(t *testing.T) {
	s := newSite(t)
	s.answers("PUT /v1/clusters/cfd", 200, apiv1.Answer{Plan: apiv1.Plan{
		Spec: spec.Cluster{Name: "cfd"},
		Changes: []spec.Change{{Path: "queues[cpu].max", Old: "2", New: "4", Effect: spec.Live, Why: "new nodes join"},
			{Path: "queues[gpu]", Old: "1 node", Effect: spec.DrainsQueue, Why: "its jobs end first"}},
		Add:     []apiv1.Placed{{Node: "cpu3", Queue: "cpu", Class: "epyc", Machine: "m7"}},
		Release: []string{"gpu1", "gpu2"},
		Steps: []apiv1.Step{
			{Node: "gpu1", Action: "remove", Wave: 1, When: "now, once 1 job has ended", Why: "queue gpu goes"},
			{Node: "gpu2", Action: "remove", Wave: 1, When: "now", Why: "queue gpu goes"},
		},
		Price: "3.75 EUR",
		Total: "7.50 EUR",
		After: &apiv1.Quota{Project: "aero", Nodes: apiv1.Share{Used: 5, Limit: new(8)}, Cores: apiv1.Share{Used: 40},
			Limits: []apiv1.Limit{{What: "budget for 2026-11", Used: "1.00 EUR", Limit: "4.00 EUR", Percent: 25,
				LeftSeconds: 3600}}},
		Layouts:  []apiv1.Layout{{Queue: "cpu", Text: "cpu: 4 nodes on 1 leaf (leaf01)"}},
		Messages: []string{"gpu1 runs jobs"},
	}})
	r := musterWith(t, brisk(), "name: cfd\nnodes: 4\n", "plan", "-f", "-")
	r.wants(t, 0)
	reads(t, r.out, `
cluster cfd: 2 changes, 1 node comes, 2 nodes go

CHANGE           OLD        NEW     EFFECT        WHY
queues[cpu].max  2       →  4       live          new nodes join
queues[gpu]      1 node  →  (none)  drains-queue  its jobs end first

COMES  QUEUE  CLASS  MACHINE
cpu3   cpu    epyc   m7

NODE  ACTION  WAVE  WHEN                       WHY
gpu1  remove  1     now, once 1 job has ended  queue gpu goes
gpu2  remove  1     now                        queue gpu goes

price    3.75 EUR per hour
total    7.50 EUR for its lease if nothing changes
after    project aero has 5 of 8 nodes
after    budget for 2026-11: 1.00 EUR of 4.00 EUR (25 %); lasts for 1h0m
network  cpu: 4 nodes on 1 leaf (leaf01)
note     gpu1 runs jobs
`)
	if asked := s.asked(); !slices.Equal(asked, []string{"PUT /v1/clusters/cfd?dry_run=true"}) {
		t.Errorf("asked %v", asked)
	}
}

func TestADryRunPrintsThePlan(t *testing.T) {
	s := newSite(t)
	s.answers("POST /v1/clusters", 200, apiv1.Answer{Plan: apiv1.Plan{Spec: spec.Cluster{Name: "cfd"}}})
	muster(t, "create", "cfd", "--nodes", "1", "--dry-run").wants(t, 0, "cluster cfd: nothing to change\n")
	if asked := s.asked(); !slices.Equal(asked, []string{"POST /v1/clusters?dry_run=true"}) {
		t.Errorf("asked %v", asked)
	}
}

func TestADescriptionExplainsEveryNode(t *testing.T) {
	s := newSite(t)
	s.answers("GET /v1/clusters/cfd", 200, apiv1.Cluster{
		ID: "c1", Name: "cfd", Project: "aero", Phase: apiv1.Degraded, Reason: "1 of 2 nodes ready",
		Lacks: "class epyc: none is free", Since: ago(192 * time.Minute),
		Generation: 2, Reached: 1, Image: "sha256:12", Spec: spec.Cluster{Image: "debian13-hpc"}, Price: "3.75 EUR",
		CreatedAt: ago(26 * time.Hour), CreatedBy: "alice",
		Nodes: []apiv1.Node{
			{Name: "head", Role: apiv1.RoleHead, Class: "service", Machine: "s1", Address: "10.77.0.2", Phase: apiv1.Ready,
				Reason: "cpu unlimited", Since: ago(time.Hour), Seen: ago(2 * time.Hour)},
			{Name: "n1", Role: apiv1.RoleCompute, Queue: "main", Machine: "m1", Address: "10.77.0.3", Phase: apiv1.Ready,
				Reason: "cpu 2", Since: ago(2 * time.Hour), Seen: ago(3 * time.Hour),
				Scheduler: &apiv1.NodeState{State: apiv1.NodeDraining, Raw: "mixed", Responding: false, Jobs: 3},
				Checks: []apiv1.Check{{Name: "mounts", OK: true, Limit: "succeeds"},
					{Name: "disk", Text: "93 %, at most 90 %", Limit: "at most 90 %", Found: true, Value: 93, Unit: "%"}}},
			{Name: "n2", Role: apiv1.RoleCompute, Queue: "main", Machine: "m2", Address: "10.77.0.4", Phase: apiv1.Joining,
				Reason: "waits for munge", Since: ago(5 * time.Hour),
				Checks: []apiv1.Check{{Name: "sshd", OK: true}, {Name: "munge", Text: "refused"},
					{Name: "disk", OK: true, Limit: "at most 90 %", Found: true, Value: 12.5, Unit: "%"}}},
		},
	})
	s.answers("GET /v1/clusters/c1/events", 200,
		list(apiv1.Event{Seq: 1, At: ago(6 * time.Hour), Node: "n2", Phase: apiv1.Joining, Text: "its agent is here"}))
	r := muster(t, "describe", "cfd")
	r.wants(t, 0)
	reads(t, r.out, `
name     cfd
id       c1
project  aero
phase    degraded for 3h12m
reason   1 of 2 nodes ready
lacks    class epyc: none is free
image    debian13-hpc@sha256:12
price    3.75 EUR per hour
age      1d2h, created by alice
change   generation 2 is being applied, 1 was reached

NODE  QUEUE   PHASE    FOR   MACHINE  ADDRESS    SCHEDULER     JOBS  SEEN   REASON
head  (head)  ready    1h0m  s1       10.77.0.2                      2h0m   cpu unlimited
n1    main    ready    2h0m  m1       10.77.0.3  mixed+drain*  3     3h0m   cpu 2; disk fails: 93 %, at most 90 %
n2    main    joining  5h0m  m2       10.77.0.4                      never  waits for munge; munge fails: refused

CHECK   LIMIT         NODES  LOWEST       HIGHEST    FAILS ON
mounts  succeeds      1
disk    at most 90 %  2      12.5 % (n2)  93 % (n1)  n1

AGO   WHO  EVENT
6h0m  n2   joining: its agent is here
`)
}

func TestMachinesAreAskedOneByOneAndEachRefusalIsTold(t *testing.T) {
	s := newSite(t)
	s.HandleFunc("POST /v1/machines/{name}/maintain", func(w http.ResponseWriter, r *http.Request) {
		if name := r.PathValue("name"); name == "m2" {
			tellProblem(w, apiv1.Problem{Status: 404, Code: "not-found", Detail: "machine m2: not found"})
		} else {
			reply(w, 200, apiv1.Machine{Name: name, Phase: apiv1.InUse, Node: "cfd/n1"})
		}
	})
	muster(t, "machines", "maintain", "m1", "m2", "m3").wants(t, exitNotFound,
		"machine m1: leaves service once it is free; it is in-use by cfd/n1\n", "error: machine m2: not found\n",
		"machine m3: leaves")
}

func TestNewMachinesAreWaitedForUntilTheyPassedOrDidNot(t *testing.T) {
	for _, c := range []struct {
		phase apiv1.Phase
		code  int
		says  string
	}{
		{apiv1.Available, 0, "1 machine ready in"},
		{apiv1.Quarantined, exitOther, "error: machine local-1 is quarantined: as told\n"},
	} {
		t.Run(string(c.phase), func(t *testing.T) {
			s := newSite(t)
			enrolled := apiv1.Machine{Name: "local-1", Phase: apiv1.Enrolled, Since: time.Now()}
			s.HandleFunc("POST /v1/machines", func(w http.ResponseWriter, r *http.Request) {
				if text, _ := io.ReadAll(r.Body); string(text) != `{"substrate":"local","count":1,"cpus":2,"memory_mib":4096}` {
					t.Errorf("asked for %s", text)
				}
				reply(w, 201, list(enrolled))
			})
			looks := 0
			s.HandleFunc("GET /v1/machines/local-1", func(w http.ResponseWriter, _ *http.Request) {
				m := enrolled
				if looks++; looks > 1 {
					m.Phase, m.Since, m.Reason = c.phase, enrolled.Since.Add(time.Second), "as told"
				}
				reply(w, 200, m)
			})
			muster(t, "machines", "add", "--local", "1", "--cpus", "2", "--memory", "4GiB", "--wait").
				wants(t, c.code, "local-1 "+string(c.phase)+": as told", c.says)
		})
	}
}

func TestAKeyIsReadFromItsPublicFileOnly(t *testing.T) {
	newSite(t)
	t.Setenv("HOME", t.TempDir())
	muster(t, "keys", "add").wants(t, exitInvalid, "id_ed25519.pub or ", "ssh-keygen -t ed25519")
}

func TestTablesAlignAndLeaveEmptyColumnsOut(t *testing.T) {
	var out bytes.Buffer
	table := newTable("NAME", "PRICE", "STATE")
	table.row("a", "", coloured(green, "ready"))
	table.row("long-name", "", "größer")
	table.print(&screen{&out})
	reads(t, out.String(), "NAME       STATE\na          \x1b[32mready\x1b[m\nlong-name  größer\n")
}

func TestAgesHaveTwoUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 192 * time.Second: "3m12s", 25 * time.Hour: "1d1h", 61 * time.Minute: "1h1m",
	} {
		if got := short(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

func TestSizesOfMemory(t *testing.T) {
	for text, want := range map[string]int{"": 0, "512MiB": 512, "4GiB": 4096, "1TiB": 1 << 20, "4GB": -1, "0GiB": -1,
		"-1GiB": -1, "1.5GiB": -1, "99999999TiB": -1} {
		got, err := parseMemory(text)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestExpansionAsksNobody(t *testing.T) {
	s := newSite(t)
	r := musterWith(t, brisk(), "name: cfd\nnodes: 2\n", "expand", "-f", "-")
	r.wants(t, 0, "image: debian13-hpc\n", "max: 2\n")
	musterWith(t, brisk(), r.out, "validate", "-f", "-").wants(t, 0, "stdin is a valid cluster file")
	musterWith(t, brisk(), "name: cfd\nisolation: vm\nnodes: 2\n", "expand", "-f", "-").wants(t, 0, "class: vm\n",
		"cpus: 1\n")
	if asked := s.asked(); len(asked) > 0 {
		t.Errorf("the controller was asked: %v", asked)
	}
}

func TestEveryFieldIsListed(t *testing.T) {
	r := muster(t, "spec", "fields")
	r.wants(t, 0)
	if got, want := strings.Count(r.out, "\n"), len(spec.Fields())+1; got != want {
		t.Errorf("%d lines for %d fields and a heading", got, want-1)
	}
	muster(t, "spec", "schema").wants(t, 0, "https://json-schema.org/draft/2020-12/schema")
}

func TestAnEventSaysWhatItIsAbout(t *testing.T) {
	for want, e := range map[string]apiv1.Event{
		"n1":      {Type: "node.phase", Cluster: "cfd", Node: "n1", Machine: "r1"},
		"r1":      {Type: "machine.phase", Machine: "r1"},
		"cluster": {Type: "cluster.phase", Cluster: "cfd"},
		"fabric":  {Type: "fabric.phase"},
		"project": {Type: "project.requested"},
	} {
		if got := who(e); got != want {
			t.Errorf("%+v is about %s, not %s", e, got, want)
		}
	}
}

func TestAFabricsTableTellsWhatEnds(t *testing.T) {
	s := newSite(t)
	s.answers("GET /v1/fabrics/ib0", 200, apiv1.Fabric{
		FabricSpec: apiv1.FabricSpec{Name: "ib0", Driver: "opensm"}, Phase: apiv1.Pending,
		Reason: "fabric ib0: nobody has read it", Since: ago(5 * time.Hour),
		Partitions: []apiv1.FabricPartition{{Key: "0x7000", Name: "storage", Ending: true,
			Members: []apiv1.FabricMember{{Port: "0x0000000000000001", Leaving: true}}},
			{Key: "0x7001", Name: "storage", Open: true}},
		Ports: []apiv1.FabricPort{{Port: "0x0000000000000001", Adapter: "0x0000000000000002", Name: "node0001"}},
	})
	r := musterWith(t, brisk(), "", "fabric", "get", "ib0")
	r.wants(t, 0)
	reads(t, r.out, `
name      ib0
driver    opensm
managers
phase     pending for 5h0m
reason    nobody has read it
read      never

KEY     OF                               PORTS  LEAVING
0x7000  site: storage, ending            0      1
0x7001  site: storage, open to clusters  0      0

PORT                NAME
0x0000000000000001  node0001
`)
}
