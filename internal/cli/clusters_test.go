package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	apiv1 "muster/api/v1"
)

// written is a file with a text, for the length of a test.
func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhatIsSaidOfAnExternalClusterIsKept(t *testing.T) {
	s := newSite(t)
	var sent apiv1.ExternalClusterSpec
	was := apiv1.ExternalClusterSpec{Login: "arc.example.org:22", HostKeys: []string{"ssh-ed25519 AAAA"}, Probe: "muster",
		Projects: []apiv1.ExternalClusterProject{
			{Project: "aero", Queues: []string{"cpu"}, Rule: "same"}, {Project: "bio", Rule: "shared", Account: "hpc_bio"}}}
	s.answers("GET /v1/external-clusters/arc", 200,
		apiv1.ExternalCluster{Name: "arc", ExternalClusterSpec: was, State: apiv1.ExternalClusterOpen})
	s.HandleFunc("PUT /v1/external-clusters/arc", func(w http.ResponseWriter, r *http.Request) {
		sent = apiv1.ExternalClusterSpec{}
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			t.Error(err)
		}
		reply(w, 200, apiv1.ExternalCluster{Name: "arc", ExternalClusterSpec: sent, State: apiv1.ExternalClusterOpen})
	})
	for _, c := range []struct {
		args []string
		want func(*apiv1.ExternalClusterSpec)
	}{
		{nil, func(*apiv1.ExternalClusterSpec) {}},
		{[]string{"--login", "new.example.org", "--probe", "look"}, func(s *apiv1.ExternalClusterSpec) {
			s.Login, s.Probe = "new.example.org", "look"
		}},
		{[]string{"--host-ca", "ssh-ed25519 BBBB"}, func(s *apiv1.ExternalClusterSpec) {
			s.HostCA, s.HostKeys = "ssh-ed25519 BBBB", nil
		}},
		{[]string{"--host-key", written(t, "# scanned\narc ssh-ed25519 CCCC\narc ssh-rsa DDDD\n")}, func(s *apiv1.ExternalClusterSpec) {
			s.HostKeys = []string{"arc ssh-ed25519 CCCC", "arc ssh-rsa DDDD"}
		}},
		{[]string{"--project", "aero"}, func(s *apiv1.ExternalClusterSpec) { s.Projects[0].Queues = nil }},
		{[]string{"--project", "chem=cpu,gpu", "--as", "hpc_chem"}, func(s *apiv1.ExternalClusterSpec) {
			s.Projects = append(s.Projects, apiv1.ExternalClusterProject{Project: "chem", Queues: []string{"cpu", "gpu"},
				Rule: "shared", Account: "hpc_chem"})
		}},
		{[]string{"--remove-project", "aero"}, func(s *apiv1.ExternalClusterSpec) { s.Projects = s.Projects[1:] }},
		{[]string{"--as", "same"}, func(s *apiv1.ExternalClusterSpec) { s.Projects[1].Rule, s.Projects[1].Account = "same", "" }},
		{[]string{"--as", "@" + written(t, "# who is who\nmia = m.smith\n")}, func(s *apiv1.ExternalClusterSpec) {
			s.Projects[0].Rule, s.Projects[1].Rule, s.Projects[1].Account, s.Accounts = "listed", "listed", "",
				map[string]string{"mia": "m.smith"}
		}},
	} {
		want := was
		want.Projects = append([]apiv1.ExternalClusterProject{}, was.Projects...)
		c.want(&want)
		muster(t, append([]string{"clusters", "set", "arc"}, c.args...)...).wants(t, 0)
		if diff := cmp.Diff(want, sent); diff != "" {
			t.Errorf("%v:\n%s", c.args, diff)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"--project chem", "--as is missing"},
		{"--remove-project chem", "project chem is not admitted"},
		{"--as @" + written(t, "mia\n"), "file:1: \"mia\" is not PERSON=ACCOUNT"},
		{"--as @" + written(t, "mia=a\n\nmia=b\n"), "file:3: mia is listed twice"},
		{"--host-key " + written(t, "-----BEGIN OPENSSH PRIVATE KEY-----\n"), "this is a private key"},
		{"--host-key " + written(t, "# nothing\n"), "has no key in it"},
		{"--host-ca " + written(t, "ssh-ed25519 A\nssh-ed25519 B\n"), "has 2 keys; give exactly one"},
		{"--host-ca a --host-key b", "host-ca host-key"},
	} {
		muster(t, append([]string{"clusters", "set", "arc"}, strings.Fields(c.args)...)...).wants(t, exitInvalid, c.want)
	}
}

func TestExternalClustersStandBelowOthers(t *testing.T) {
	s := newSite(t)
	running, waiting := 9, 30
	s.answers("GET /v1/clusters", 200, list(apiv1.Cluster{Name: "cfd", Project: "aero", Phase: "ready"}))
	s.answers("GET /v1/external-clusters", 200, list(
		apiv1.ExternalCluster{Name: "arc", State: apiv1.ExternalClusterOpen, System: "Slurm 22.05.8",
			Queues: []apiv1.ExternalClusterQueue{
				{SeenQueue: apiv1.SeenQueue{Name: "cpu", State: "up", Nodes: 120, Free: 31, Used: 88}},
				{SeenQueue: apiv1.SeenQueue{Name: "gpu", State: "drain", Nodes: 8, Used: 8}}}},
		apiv1.ExternalCluster{Name: "new", State: apiv1.ExternalClusterNew},
		apiv1.ExternalCluster{Name: "old", State: apiv1.ExternalClusterSilent, Since: ago(3 * time.Hour), System: "PBS 19.1.2",
			Reason: "old.example.org:22: connect: connection refused",
			Queues: []apiv1.ExternalClusterQueue{{SeenQueue: apiv1.SeenQueue{Name: "workq", State: "up", Nodes: 4, Free: 1,
				Used: 2, Running: &running, Waiting: &waiting}}}},
	))
	r := muster(t, "list")
	r.wants(t, 0)
	reads(t, r.out, `
NAME  PHASE  READY
cfd   ready  0/0

EXTERNAL  STATE   FOR   SYSTEM         QUEUE  OPEN   NODES  FREE  USED  RUNNING  WAITING  REASON
arc       open          Slurm 22.05.8  cpu    up     120    31    88
                                       gpu    drain  8      0     8
new       new
old       silent  3h0m  PBS 19.1.2     workq  up     4      1     2     9        30       old.example.org:22: connect: connection refused
`)
}
