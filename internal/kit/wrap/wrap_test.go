package wrap_test

import (
	"errors"
	"io/fs"
	"testing"

	"muster/internal/kit/wrap"
)

func TestAnErrorSaysWhatWasDoneAndNoneStaysNone(t *testing.T) {
	if err := wrap.Errorf(nil, "boot %s", "n1"); err != nil {
		t.Error(err)
	}
	err := wrap.Errorf(fs.ErrNotExist, "boot %s", "100 %")
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != "boot 100 %: file does not exist" {
		t.Error(err)
	}
}
