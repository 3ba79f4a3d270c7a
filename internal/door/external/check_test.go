package external

import (
	"strings"
	"testing"

	externals "muster/internal/kinds/external"
)

func TestAnEmptyHostKeyProvesNothing(t *testing.T) {
	_, err := Check(externals.Cluster{Name: "arc", Login: "arc.example.org", HostKeys: []string{""}, Probe: "muster"})
	if err == nil || !strings.Contains(err.Error(), "the CA of its host keys is needed") {
		t.Errorf("%v", err)
	}
}
