package monitor

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

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
