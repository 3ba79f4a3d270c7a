package inspection

import (
	"strings"
	"testing"
)

func TestADiskAmongOthersIsErasedByItsOwnAddresses(t *testing.T) {
	var names []string
	for _, m := range confined(ladder()) {
		names = append(names, m.name)
	}
	if got := strings.Join(names, ", "); got != "discard and zero, zero, overwrite" {
		t.Errorf("methods for a disk whose neighbours are in use: %s", got)
	}
}
