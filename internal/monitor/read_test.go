package monitor

import (
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
	if read(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), jobsLimit, &told) {
		t.Error("it is taken")
	}
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; answer.Code != http.StatusBadRequest || taken > 64<<20 {
		t.Errorf("%d %s, and %d MiB", answer.Code, answer.Body, taken>>20)
	}
}
