package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	externals "muster/internal/kinds/external"
)

// hostKey is a public key whose private half does not exist.
const hostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"

// TestAnExternalClusterShowsEachProjectItsOwn registers an external cluster for two projects and looks at it as people of one, of
// none, and as an operator.
func TestAnExternalClusterShowsEachProjectItsOwn(t *testing.T) {
	s, db := server(t, 1)
	tenants(t, db)
	as := func(who string) []string { return []string{"Authorization", "Bearer " + who} }
	body := `{"name": "arc", "login": "arc.example.org", "host_keys": ["` + hostKey + `"], "accounts": {"member": "m.smith"}, "projects": [
		{"project": "aero", "queues": ["cpu"], "rule": "listed"}, {"project": "bio", "queues": ["gpu"], "rule": "shared", "account": "hpc_bio"}]}`
	for _, c := range []struct{ body, want string }{
		{strings.Replace(body, `"arc"`, `"cfd"`, 1), "has a cluster cfd"},
		{strings.Replace(body, `"hpc_bio"`, `"root"`, 1), "as root"},
		{strings.Replace(body, `"rule": "listed"`, `"rule": "shared"`, 1), "an account is given with the rule shared"},
		{strings.Replace(body, `"rule": "listed"`, `"rule": "shared", "account": "hpc_bio"`, 1), "for a second project"},
		{strings.Replace(body, `"aero"`, `"bio"`, 1), "is listed twice"},
		{strings.Replace(body, `"aero"`, `"physics"`, 1), "project physics"},
		{strings.Replace(body, `"member": "m.smith"`, `"ghost": "g"`, 1), "person ghost"},
		{strings.Replace(body, hostKey, "nonsense", 1), "no SSH public key"},
	} {
		if got := call(t, s, "POST", "/v1/external-clusters", c.body, as("operator")...); got.status < 400 || got.status >= 500 ||
			!strings.Contains(got.text, c.want) {
			t.Errorf("%d %s, not %q", got.status, got.text, c.want)
		}
	}
	if got := call(t, s, "POST", "/v1/external-clusters", body, as("operator")...); got.status != 201 {
		t.Fatal(got.status, got.text)
	}
	if got := call(t, s, "POST", "/v1/clusters", "name: arc\nnodes: 1\nproject: aero\n", as("member")...); got.status != 422 ||
		!strings.Contains(got.text, "arc is a registered cluster") {
		t.Errorf("a cluster of the same name: %d %s", got.status, got.text)
	}
	if err := db.Update(t.Context(), func(tx *core.Tx) error {
		c, err := externals.Get(t.Context(), tx, "arc")
		if err != nil {
			return err
		}
		return externals.SaveSeen(t.Context(), tx, c, "Slurm 22.05.8",
			[]externals.Queue{{Name: "cpu", Up: true, State: "up"}, {Name: "gpu", Up: true, State: "up"}})
	}); err != nil {
		t.Fatal(err)
	}
	for who, want := range map[string]string{"member": "cpu", "viewer": "cpu", "sam": "cpu gpu", "operator": "cpu gpu",
		"nobody": ""} {
		list := call(t, s, "GET", "/v1/external-clusters", "", as(who)...)
		one := call(t, s, "GET", "/v1/external-clusters/arc", "", as(who)...)
		var page apiv1.List[apiv1.ExternalCluster]
		if err := json.Unmarshal([]byte(list.text), &page); err != nil {
			t.Fatal(err)
		}
		var queues []string
		for _, c := range page.Items {
			for _, q := range c.Queues {
				queues = append(queues, q.Name)
			}
		}
		if got := strings.Join(queues, " "); got != want || (one.status == 200) != (want != "") {
			t.Errorf("%s sees %q, %d", who, got, one.status)
		}
		if secret := strings.Contains(list.text+one.text, "m.smith"); secret != (who == "operator") {
			t.Errorf("%s reads the accounts of others: %t", who, secret)
		}
		if (who == "member" || who == "viewer" || who == "nobody") && names(list.text+one.text, "bio") {
			t.Errorf("%s reads of another project: %s", who, list.text)
		}
	}
}
