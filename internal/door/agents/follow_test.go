package agents

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/kindstest"
)

type thing struct{ name, as string }

// followed is a list that follow follows, and what has come of it, in order.
type followed struct {
	mu   sync.Mutex
	list []thing
	err  error
	told []string
}

func (f *followed) tell(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, text)
}

// wants changes the list, has it looked at, and waits until all that is told since then has been.
func (f *followed) wants(t *testing.T, db *core.Store, list []thing, err error, told ...string) {
	t.Helper()
	f.mu.Lock()
	f.list, f.err, f.told = list, err, nil
	f.mu.Unlock()
	if err := db.Update(t.Context(), func(*core.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	f.until(t, told...)
}

func (f *followed) until(t *testing.T, told ...string) {
	t.Helper()
	want, got := strings.Join(told, ", "), ""
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		f.mu.Lock()
		got = strings.Join(f.told, ", ")
		f.mu.Unlock()
		if got == want {
			return
		}
	}
	t.Fatalf("%q is told, %q is wanted", got, want)
}

func TestWhatIsListedRunsAndWhatIsNotEnds(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		db, f := kindstest.Open(t, url), &followed{list: []thing{{"a", "1"}}}
		logged := &bytes.Buffer{} // is read once nothing writes to it
		d := &Doors{Config: Config{DB: db, Log: slog.New(slog.NewTextHandler(logged, nil))}}
		list := func(context.Context, *core.Tx) ([]thing, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.err != nil && len(f.told) == 0 { // it may look again
				f.told = append(f.told, "fails")
			}
			return f.list, f.err
		}
		run := func(ctx context.Context, as thing) {
			f.tell("begin " + as.name + as.as)
			<-ctx.Done()
			time.Sleep(20 * time.Millisecond) // what comes in its place must wait for this
			f.tell("end " + as.name + as.as)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			follow(ctx, d, "cannot look", list, func(as thing) string { return as.name }, run,
				func(as thing) { f.tell("gone " + as.name + as.as) })
		}()
		f.until(t, "begin a1")
		f.wants(t, db, []thing{{"a", "1"}, {"b", "1"}}, nil, "begin b1")
		f.wants(t, db, []thing{{"a", "1"}, {"b", "2"}}, nil, "end b1", "begin b2")
		f.wants(t, db, []thing{{"b", "2"}}, nil, "end a1", "gone a1")
		f.wants(t, db, nil, errors.New("no list"), "fails")
		f.wants(t, db, nil, nil, "end b2", "gone b2")
		f.wants(t, db, []thing{{"c", "1"}}, nil, "begin c1")
		stop()
		<-ended
		if told := []string{"begin c1", "end c1"}; !slices.Equal(f.told, told) {
			t.Errorf("at its end %q was told, not %q", f.told, told)
		}
		if !strings.Contains(logged.String(), `"cannot look" error="no list"`) {
			t.Errorf("the log: %s", logged)
		}
	})
}
