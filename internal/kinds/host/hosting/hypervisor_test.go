package hosting

import "testing"

func TestAHostsNameBecomesThatOfAHypervisor(t *testing.T) {
	for host, want := range map[string]string{
		"box": "box-hv", "Node-7.cluster.example": "node-7-hv", "a_b": "a-b-hv", "--x--": "x-hv", "...": "host-hv", "": "host-hv",
		"0123456789012345678901234567890123456789-tail": "0123456789012345678901234567890123456789-hv",
	} {
		if got := HypervisorName(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}
