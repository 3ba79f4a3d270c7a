package inventory

import (
	"net/netip"
	"os"
	"strings"
	"testing"
)

func TestConditionsCompareFacts(t *testing.T) {
	m := Machine{Name: "r1n1", Substrate: "metal", Facts: Facts{CPUs: 64, MemoryMiB: 262144, CPUModel: "AMD EPYC 7742",
		Arch: "amd64"}}
	for text, want := range map[string]bool{
		"cpus >= 64": true, "cpus > 64": false, "cpus < 65": true, "cpus <= 63": false, "cpus = 64": true, "cpus != 64": false,
		"substrate = metal": true, "substrate != metal": false, "cpu_model ~ epyc": true, "cpu_model ~ AMD EPYC": true,
		"cpu_model ~ xeon":     false,
		"memory_mib >= 262144": true, "numa_nodes >= 1": false, "name = r1n1": true,
	} {
		c, err := ParseCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		if c.holds(m, m.Facts.Summary()) != want {
			t.Errorf("%q: want %v", text, want)
		}
		if again, err := ParseCondition(c.String()); err != nil || again != c {
			t.Errorf("%q prints as %q, which reads as %v, %v", text, c, again, err)
		}
	}
}

func TestBadConditionsSayWhatWouldWork(t *testing.T) {
	for text, want := range map[string]string{
		"cpus":         `write for example "cpus >= 64"`,
		"cpus ~ 6":     "cpus is a number; compare it with",
		"cpus >= many": `"many" is no whole number`,
		"arch > amd64": "arch is a text; compare it with",
		"colour = 2":   "there are name, substrate",
	} {
		if _, err := ParseCondition(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTheBuiltInCatalogueIsWhole(t *testing.T) {
	c, err := ReadCatalogue("")
	if err != nil {
		t.Fatal(err)
	}
	local, ok := c.Find(c.Class)
	if !ok || !local.Has(Machine{Substrate: "local"}) || local.Has(Machine{Substrate: "metal"}) {
		t.Error(local, ok)
	}
}

func TestASiteFileIsReadStrictly(t *testing.T) {
	const good = "site: home\ndefaults: {project: p, image: i, class: a, head_class: a}\nclasses:\n  - {name: a, select: " +
		"[\"cpus >= 1\"], price: 1 EUR}\n"
	for name, c := range map[string]struct{ text, want string }{
		"good":           {good, ""},
		"an unknown key": {good + "colour: red\n", "colour"},
		"a class twice":  {good + "  - {name: a, select: [\"cpus >= 1\"]}\n", `classes[1]: class "a" is there twice`},
		"no conditions":  {good + "  - {name: b}\n", "classes[1]: a class needs"},
		"a bad price":    {good + "  - {name: b, select: [\"cpus >= 1\"], price: cheap}\n", "classes[1].price"},
		"a missing class": {strings.Replace(good, "class: a,", "class: x,", 1),
			`defaults.class: there is no class "x"; there are a`},
		"no site": {strings.Replace(good, "site: home", "", 1), "site is missing"},
	} {
		path := t.TempDir() + "/site.yaml"
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadCatalogue(path)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatASiteChargesAndGrants(t *testing.T) {
	const head = "site: home\ndefaults: {project: aero, image: i, class: a, head_class: a}\nclasses:\n  - {name: a, select: " +
		"[\"cpus >= 1\"], price: 1 EUR}\n"
	c, err := parseCatalogue([]byte(head +
		"prices: {gpu: 2.50 EUR, storage_gib_month: 0.02 EUR}\ncharge: [ready]\nprojects: {aero: {quota: {nodes: 16}, budget: " +
		"{monthly: 500 EUR, on_limit: warn}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	two := Machine{Facts: Facts{CPUs: 4, Cores: 8, Devices: []Device{{Kind: "gpu"}, {Kind: "hca"}, {Kind: "gpu"}}}}
	if rate := c.Rate("a", two); rate.String() != "6.00 EUR" {
		t.Error(rate)
	}
	if p := c.Projects["aero"]; *p.Quota.Nodes != 16 || p.Quota.Cores != nil || p.Budget.Monthly.String() != "500.00 EUR" ||
		!p.Budget.Warn {
		t.Errorf("%+v", p)
	}
	if len(c.Tariff.Charged) != 1 || two.Facts.UsableCores() != 4 {
		t.Error(c.Tariff.Charged, two.Facts.UsableCores())
	}
	for text, want := range map[string]string{
		"prices: {cpu: 1 EUR}": "prices.cpu: there is no such price; there are gpu, hca",
		"prices: {gpu: 1}":     "prices.gpu: \"1\" is not an amount of money",
		"prices: {gpu: 1 USD}": "prices.gpu: 1.00 USD, but the site counts in EUR",
		"charge: [failed]": "charge: \"failed\" cannot be charged; there are ready, " +
			"draining",
		"projects: {Math: {}}":                                      "projects.Math: this is no name for a project",
		"projects: {aero: {quota: {nodes: -1}}}":                    "projects.aero.quota.nodes: -1 is less than nothing",
		"projects: {aero: {quota: {node: 1}}}":                      "node",
		"projects: {aero: {budget: {on_limit: warn}}}":              "monthly is missing",
		"projects: {aero: {budget: {monthly: 5 EUR, on_limit: x}}}": "write pause or warn",
	} {
		if _, err := parseCatalogue([]byte(head + text + "\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestANetworkNamesNoOtherThings: what operators say of networks reaches programs that run as root.
func TestANetworkNamesNoOtherThings(t *testing.T) {
	good := Network{Name: "n", Interface: "eth0", Address: netip.MustParsePrefix("10.0.0.1/24"), Mode: ModeOff,
		Unknown: UnknownIgnore, Namespace: "/run/netns/n"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"/proc/1/ns/net", "/run/netns/../../proc/1/ns/net", "/proc/self/ns/net", "netns"} {
		n := good
		if n.Namespace = namespace; n.Validate() == nil {
			t.Errorf("namespace %q is taken", namespace)
		}
	}
}
