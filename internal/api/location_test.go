package api_test

import (
	"strings"
	"testing"
)

func TestAMachineStandsWhereNoOtherDoes(t *testing.T) {
	s, _ := server(t, 3)
	put := func(machine, at string) reply {
		return call(t, s, "PUT", "/v1/machines/"+machine+"/location", `{"location": `+at+`}`)
	}
	wants(t, put("m1", `{"rack": "r01", "unit": 12}`), 200, `"location":{"rack":"r01","unit":12,"height":1}`)
	wants(t, put("m2", `{"rack": "r01", "unit": 11, "height": 2}`), 409, "machine m1 stands in rack r01, unit 12")
	wants(t, put("m2", `{"rack": "r01", "unit": 12, "slot": 1}`), 409, "machine m1 stands in rack r01, unit 12")
	wants(t, put("m2", `{"rack": "r02", "unit": 12}`), 200)
	wants(t, put("m1", `{"rack": "r01", "unit": 13}`), 200) // it moves
	wants(t, put("m2", `{"rack": "r01", "unit": 11, "height": 2, "slot": 1}`), 200)
	wants(t, put("m3", `{"rack": "r01", "unit": 11, "height": 2, "slot": 2}`), 200)
	wants(t, put("m3", `null`), 200, `"name":"m3"`)
	wants(t, put("m1", `{"rack": "r01", "unit": 11, "height": 2, "slot": 2}`), 200)
	wants(t, call(t, s, "GET", "/v1/machines", ""), 200, `"location":{"rack":"r01","unit":11,"height":2,"slot":2}`)
	for _, wrong := range []string{`{"rack": "", "unit": 1}`, `{"rack": "r 1", "unit": 1}`, `{"rack": "r01"}`,
		`{"rack": "r01", "unit": 100}`, `{"rack": "r01", "unit": 99, "height": 2}`,
		`{"rack": "r01", "unit": 1, "height": -1}`, `{"rack": "r01", "unit": 1, "slot": 99}`} {
		wants(t, put("m1", wrong), 422, "location")
	}
	wants(t, put("x", `{"rack": "r01", "unit": 1}`), 404, "machine x")
	said := call(t, s, "GET", "/v1/events?machine=m1", "")
	wants(t, said, 200, "stands in rack r01, units 11 to 12, slot 2, by")
	if strings.Contains(said.text, `"m2"`) || strings.Contains(said.text, `"m3"`) {
		t.Errorf("events of m1: %s", said.text)
	}
}

// A machine of a list that stands where another does is none of it, and the list is told in which field.
func TestAListOfMachinesPlacesAllOrNone(t *testing.T) {
	s, _ := server(t, 0)
	wants(t, call(t, s, "PUT", "/v1/networks/boot",
		`{"interface": "lo", "address": "10.9.0.1/24", "mode": "off", "unknown": "ignore"}`), 200)
	one := func(name, mac, unit string) string {
		return `{"name": "` + name + `", "macs": ["52:54:00:00:00:` + mac + `"], "network": "boot", "power": "wol",
			"location": {"rack": "r01", "unit": ` + unit + `}}`
	}
	add := func(second string) reply {
		return call(t, s, "POST", "/v1/machines",
			`{"substrate": "metal", "machines": [`+one("r1n1", "01", "1")+", "+one("r1n2", "02", second)+`]}`)
	}
	wants(t, add("1"), 422, `"path":"machines[1].location.unit"`, "machine r1n1 stands in rack r01, unit 1")
	if got := call(t, s, "GET", "/v1/machines", ""); got.text != "{\"items\":[]}\n" {
		t.Errorf("after a list that was refused: %s", got.text)
	}
	wants(t, add("2"), 201, `"location":{"rack":"r01","unit":2,"height":1}`)
}
