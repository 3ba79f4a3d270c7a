package core_test

import (
	"errors"
	"testing"

	"muster/internal/core"
)

func TestAnErrorSaysWhatWasDoneAndNoneStaysNone(t *testing.T) {
	if err := core.Wrapf(nil, "boot %s", "n1"); err != nil {
		t.Error(err)
	}
	err := core.Wrapf(core.ErrNotFound, "boot %s", "100 %")
	if !errors.Is(err, core.ErrNotFound) || err.Error() != "boot 100 %: not found" {
		t.Error(err)
	}
}
