package locks

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

func TestALockIsHeldByOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Try(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Try(path); !errors.Is(err, ErrHeld) {
		t.Error(err)
	}
	taken := make(chan func(), 1)
	go func() {
		release, err := Wait(t.Context(), path)
		if err != nil {
			t.Error(err)
		}
		taken <- release
	}()
	select {
	case <-taken:
		t.Fatal("two hold it")
	default:
	}
	first.Close()
	(<-taken)()
	last, err := Try(path)
	if err != nil {
		t.Fatal(err)
	}
	last.Close()
}

func TestWaitingForALockEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Try(path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if _, err := Wait(ctx, path); !errors.Is(err, enough) {
		t.Error(err)
	}
	if _, err := Wait(t.Context(), filepath.Join(path, "below a file")); err == nil || errors.Is(err, ErrHeld) {
		t.Error(err)
	}
}
