package api_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	apiv1 "muster/api/v1"
	"muster/internal/admission"
	"muster/internal/api"
	"muster/internal/core"
	"muster/internal/core/telemetry"
	"muster/internal/drivers"
	"muster/internal/drivers/fabric/fabrictest"
	"muster/internal/fabric"
	"muster/internal/inventory"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/kindstest"
)

// fabricServer is an API whose drivers of fabrics take whatever they are told, and that keeps fabric ib0 of four ports.
func fabricServer(t *testing.T) (*httptest.Server, *core.Store) {
	t.Helper()
	catalogue, err := inventory.ReadCatalogue("")
	if err != nil {
		t.Fatal(err)
	}
	db := kindstest.Open(t, t.TempDir()+"/db")
	a := &api.API{
		DB: db, Admission: &admission.Admission{Catalogue: catalogue, Images: oneImage{}, Schedulers: drivers.Schedulers(),
			Substrates: drivers.Substrates()}, Images: oneImage{}, Log: slog.New(slog.DiscardHandler),
		Telemetry:   telemetry.New("test"),
		CheckFabric: func(fabrics.Fabric) error { return nil },
	}
	handler, err := a.Handler()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	if got := call(t, s, "POST", "/v1/fabrics", `{"name": "ib0", "driver": "opensm", "managers": ["`+
		fabrictest.HostPort(0).String()+`"]}`); got.status != 201 {
		t.Fatalf("%d %s", got.status, got.text)
	}
	err = db.Update(t.Context(), func(tx *core.Tx) error {
		f, err := fabrics.Get(t.Context(), tx, "ib0")
		var ports []fabrics.Port
		for i := range 4 {
			ports = append(ports, fabrics.Port{GUID: fabrictest.HostPort(i), Adapter: fabrictest.HostNode(i)})
		}
		seen := fabrics.PortSeen{GUID: fabrictest.HostPort(1), Capacity: 4, Answered: true}
		return errors.Join(err, fabrics.PutPorts(t.Context(), tx, f.ID, ports, ""),
			fabrics.SaveSeen(t.Context(), tx, f.ID, 1, []fabrics.PortSeen{seen}))
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, db
}

// member is a partition's body with one port.
func member(port fabric.GUID) string {
	return `{"members": [{"port": "` + port.String() + `", "membership": "full"}]}`
}

func TestWhatNoFabricCanBeIsRefusedInWords(t *testing.T) {
	s, _ := fabricServer(t)
	port := fabrictest.HostPort(1)
	for i, name := range []string{"one", "two"} { // its table has four entries: the default one, one that stays free, and these
		if got := call(t, s, "PUT", "/v1/fabrics/ib0/partitions/"+name, member(port)); got.status != 200 {
			t.Fatalf("%d: %d %s", i, got.status, got.text)
		}
	}
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		says               string
	}{
		"a name": {"POST", "/v1/fabrics", `{"name": "IB", "driver": "opensm", "managers": ["0x0000000000000001"]}`,
			422, `IB\" is not a name; use small letters`},
		"a manager twice": {"POST", "/v1/fabrics",
			`{"name": "ib1", "driver": "opensm", "managers": ["0x0000000000000001", "0x0000000000000001"]}`, 422,
			"manager 0x0000000000000001 is named twice"},
		"no GUID": {"PUT", "/v1/fabrics/ib0/ports/7", `{"machine": ""}`, 422, `port: \"7\" is no port's GUID`},
		"a port of nowhere": {"PUT", "/v1/fabrics/ib0/partitions/three", member(0x12), 404,
			"port 0x0000000000000012 is not on fabric ib0 (`muster fabric get ib0` shows its ports"},
		"a full table": {"PUT", "/v1/fabrics/ib0/partitions/three", member(port), 409, "partition table of port " +
			port.String() + " is full (2 of 2) (end partitions"},
		"a member": {"DELETE", "/v1/fabrics/ib0/ports/" + port.String(), "", 409,
			"is in use by the site's own partition one; take it out of that first"},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, s, c.method, c.path, c.body)
			if got.status != c.status || !strings.Contains(got.text, c.says) {
				t.Errorf("%d %s", got.status, got.text)
			}
		})
	}
	if got := call(t, s, "GET", "/v1/fabrics/ib0", ""); strings.Contains(got.text, "three") {
		t.Errorf("what was refused is there: %s", got.text)
	}
}

func TestAPartitionThatEndsIsToldFromItsNextOne(t *testing.T) {
	s, _ := fabricServer(t)
	port := fabrictest.HostPort(2)
	call(t, s, "PUT", "/v1/fabrics/ib0/partitions/storage", member(port))
	if got := call(t, s, "DELETE", "/v1/fabrics/ib0/partitions/storage", ""); got.status >= 300 {
		t.Fatalf("%d %s", got.status, got.text)
	}
	got := call(t, s, "PUT", "/v1/fabrics/ib0/partitions/storage", member(port))
	if got.status != 200 || !strings.Contains(got.text, `"key":"0x7000","name":"storage","ending":true`) ||
		!strings.Contains(got.text, `"key":"0x7001","name":"storage","members"`) {
		t.Errorf("%d %s", got.status, got.text)
	}
}

func TestADifferenceSaysWhyTheFabricCannotBeRead(t *testing.T) {
	s, db := fabricServer(t)
	claims, err := db.Claim(t.Context(), fabrics.Kind, "test", 1<<40, 1)
	if err != nil || len(claims) != 1 {
		t.Fatal(claims, err)
	}
	err = db.Update(t.Context(), func(tx *core.Tx) error {
		return tx.Settle(t.Context(), claims[0],
			core.Settlement{Phase: core.Degraded, Reason: "fabric ib0: its manager was not told: it is off", Failures: 1,
				Never: true})
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := call(t, s, "GET", "/v1/fabrics/ib0/diff", ""); !strings.Contains(got.text,
		`"reason":"fabric ib0: its manager was not told: it is off"`) {
		t.Errorf("%d %s", got.status, got.text)
	}
	if got := call(t, s, "GET", "/v1/status", ""); !strings.Contains(got.text, `"name":"fabrics-degraded"`) {
		t.Errorf("the site's status: %d %s", got.status, got.text)
	}
}

func TestAFabricThatIsKeptIsNotImportedFromLLDP(t *testing.T) {
	s, _ := fabricServer(t)
	got := call(t, s, "PUT", "/v1/fabrics/ib0/snapshot", `{"snapshot": "machine=m1\nlldp.eth0.chassis.mac=00:11:22:33:44:01\n"}`)
	if got.status != 422 || !strings.Contains(got.text, "is not output of ibnetdiscover") {
		t.Errorf("%d %s", got.status, got.text)
	}
	for _, got := range []reply{
		call(t, s, "PUT", "/v1/topologies/ib0", `{"snapshot": "machine=m1\nlldp.eth0.chassis.mac=00:11:22:33:44:01\n"}`),
		call(t, s, "DELETE", "/v1/topologies/ib0", ""),
	} {
		if got.status != 409 || !strings.Contains(got.text, "`muster fabric import ib0 FILE`") {
			t.Errorf("%d %s", got.status, got.text)
		}
	}
}

func TestCablesThatAreNotKnownCannotBeForgotten(t *testing.T) {
	s, _ := fabricServer(t)
	call(t, s, "PUT", "/v1/topologies/eth0", `{"snapshot": "machine=m1\nlldp.eth0.chassis.mac=00:11:22:33:44:01\n"}`)
	for _, want := range []int{204, 404} {
		if got := call(t, s, "DELETE", "/v1/topologies/eth0", ""); got.status != want {
			t.Errorf("%d, not %d: %s", got.status, want, got.text)
		}
	}
}

// TestATopologyHasItsSwitchesAndTheirCables as ibnetdiscover has seen them.
func TestATopologyHasItsSwitchesAndTheirCables(t *testing.T) {
	s, _ := fabricServer(t)
	body, err := json.Marshal(map[string]string{"snapshot": fabrictest.FatTree(4, 2, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if got := call(t, s, "PUT", "/v1/fabrics/ib0/snapshot", string(body)); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.text)
	}
	var all struct {
		Items []apiv1.Topology
	}
	if err := json.Unmarshal([]byte(call(t, s, "GET", "/v1/topologies", "").text), &all); err != nil || len(all.Items) != 1 {
		t.Fatal(all, err)
	}
	ports := map[string][]string{}
	for _, one := range all.Items[0].Switches {
		ports[one.Name] = one.Ports
	}
	guids := func(hosts ...int) (all []string) {
		for _, i := range hosts {
			all = append(all, fabrictest.HostPort(i).String())
		}
		return all
	}
	want := map[string][]string{"leaf0": guids(0, 1), "leaf1": guids(2, 3), "spine0": {}}
	if diff := cmp.Diff(want, ports); diff != "" {
		t.Errorf("switches (-want +got):\n%s", diff)
	}
	cables := map[apiv1.TopologyLink]bool{}
	for _, l := range all.Items[0].Links {
		cables[apiv1.TopologyLink{A: min(l.A, l.B), B: max(l.A, l.B), Cables: l.Cables}] = true
	}
	for i := range 2 {
		ends := []string{fabrictest.Leaf(i).String(), fabrictest.Spine(0).String()}
		if one := (apiv1.TopologyLink{A: slices.Min(ends), B: slices.Max(ends), Cables: 1}); !cables[one] || len(cables) != 2 {
			t.Errorf("no %v in %v", one, all.Items[0].Links)
		}
	}
}
