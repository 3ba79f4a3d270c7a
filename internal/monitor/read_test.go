package monitor

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"muster/internal/core"
	"muster/internal/protocol"
)

// TestACallOfManyValuesIsNotRead: two bytes of a list are a quarter of a kilobyte here, and agents of tenants may say anything.
func TestACallOfManyValuesIsNotRead(t *testing.T) {
	body := `{"ended":[` + strings.Repeat("0,", jobsLimit/2-10) + `0]}`
	var told protocol.JobsTold
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	answer := httptest.NewRecorder()
	m := New(nil, nil, "test", slog.New(slog.DiscardHandler))
	if m.read(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), jobsLimit, &told) {
		t.Error("it is taken")
	}
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; answer.Code != http.StatusBadRequest || taken > 64<<20 {
		t.Errorf("%d %s, and %d MiB", answer.Code, answer.Body, taken>>20)
	}
}

// TestCommasOfNamesAreNoValues: a user of a cluster calls his jobs as he likes, and the others are told of all the same.
func TestCommasOfNamesAreNoValues(t *testing.T) {
	body := `{"ended":[{"name":"` + strings.Repeat(`,\"`, mostValues) + `"}]}`
	var told protocol.JobsTold
	m, answer := New(nil, nil, "test", slog.New(slog.DiscardHandler)), httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	if !m.read(answer, r, jobsLimit, &told) || len(told.Ended) != 1 {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

// TestLongCallsThatComeSlowlyAreFew of a project, whose agents may hold as much of the controller's memory as they have sent.
func TestLongCallsThatComeSlowlyAreFew(t *testing.T) {
	m := New(nil, nil, "test", slog.New(slog.DiscardHandler))
	call := func(payer string, body io.Reader) int {
		var told protocol.JobsTold
		answer := httptest.NewRecorder()
		m.read(answer, httptest.NewRequestWithContext(core.For(t.Context(), payer), http.MethodPost, "/", body), jobsLimit, &told)
		return answer.Code
	}
	var all sync.WaitGroup
	var ends []io.Closer
	for range comingEach {
		body, sends := io.Pipe()
		ends = append(ends, sends)
		all.Go(func() { call("project a", body) })
		if _, err := sends.Write(bytes.Repeat([]byte(" "), longCall+2)); err != nil { // taken whole once it has a place
			t.Fatal(err)
		}
	}
	long := strings.Repeat(" ", longCall) + "{}"
	if got := call("project a", strings.NewReader(long)); got != http.StatusTooManyRequests {
		t.Errorf("one more: %d", got)
	}
	if got := call("project a", strings.NewReader("{}")); got != http.StatusOK {
		t.Errorf("a short one: %d", got)
	}
	if got := call("project b", strings.NewReader(long)); got != http.StatusOK {
		t.Errorf("another project's: %d", got)
	}
	for _, end := range ends {
		_ = end.Close()
	}
	all.Wait()
	if got := call("project a", strings.NewReader(long)); got != http.StatusOK {
		t.Errorf("once they have ended: %d", got)
	}
}
