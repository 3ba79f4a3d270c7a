package centre

import (
	"strings"
	"testing"

	centres "muster/internal/kinds/centre"
)

func TestAnEmptyHostKeyProvesNothing(t *testing.T) {
	_, err := Check(centres.Centre{Name: "arc", Login: "arc.example.org", HostKeys: []string{""}, Probe: "muster"})
	if err == nil || !strings.Contains(err.Error(), "the CA of its host keys is needed") {
		t.Errorf("%v", err)
	}
}
