package ufm

import (
	"testing"

	"muster/internal/fabric"
)

// samples are answers in the form of the guide.
func samples() []string {
	return []string{
		`{"0x7fff":{"partition":"management","ip_over_ib":true,"membership":"limited","guids":[{"guid":"0002c903000e0b72","membership":"full","index0":true}]},
		  "0x12":{"partition":"api_pkey_0x12","ip_over_ib":true,"guids":[{"guid":"0x0002c903000a0b0c","membership":"limited"},{"guid":"0002C903000A0B0D","membership":"full"}]}}`,
		`{}`, `{"0x1":{"partition":"empty"}}`,
		`{"0x1":{},"0x8001":{}}`, `{"0x0":{}}`, `{"x":{}}`, `[]`, `{"0x1":{"guids":[{"guid":"1","membership":"full"}]}}`,
		`{"0x1":{"guids":[{"guid":"0002c903000a0b0c"}]}}`, `{"0x7fff":{"membership":"none"}}`, `{} {}`, `<html>`,
	}
}

func TestPartitionsAreReadStrictly(t *testing.T) {
	for at, text := range samples() {
		p, err := parsePartitions([]byte(text))
		if ok := at < 3; ok != (err == nil) {
			t.Errorf("%s: %v %v", text, p, err)
		}
	}
	p, _ := parsePartitions([]byte(samples()[0]))
	if p.others != fabric.Limited || p.members[fabric.DefaultKey][0x0002c903000e0b72] != fabric.Full ||
		len(p.members[0x12]) != 2 || p.members[0x12][0x0002c903000a0b0d] != fabric.Full {
		t.Errorf("%+v", p)
	}
}

func FuzzParsePartitions(f *testing.F) {
	for _, text := range samples() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := parsePartitions(text)
		if err != nil {
			if len(err.Error()) > 1000+len(text) {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		for key, of := range p.members {
			for g, as := range of {
				if key == 0 || key > fabric.DefaultKey || g == 0 || key == fabric.DefaultKey && as != fabric.Full {
					t.Errorf("partition %s has %s as %d", key, g, as)
				}
			}
		}
	})
}

func FuzzParsePorts(f *testing.F) {
	f.Add([]byte(`[{"guid":"0002c903000e0b72","name":"0002c903000e0b72_1","logical_state":"Active"},{"guid":"0002c903000e0b73","logical_state":"Down"}]`))
	f.Add([]byte(`[{"guid":""}]`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		up, err := parsePorts(text)
		for _, g := range up {
			if g == 0 || err != nil {
				t.Errorf("%s, %v", g, err)
			}
		}
	})
}
