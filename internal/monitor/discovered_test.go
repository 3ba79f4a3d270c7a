package monitor_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"muster/internal/identity"
	"muster/internal/monitor"
)

// lockedBuffer is a log that many write.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(text)
}

func TestJoinsByStrangersLeaveLittleInTheLog(t *testing.T) {
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		t.Fatal(err)
	}
	var log lockedBuffer
	handler := monitor.New(nil, authority, "test", slog.New(slog.NewTextHandler(&log, nil))).Handler()
	join := func(remote, body string) int {
		request := httptest.NewRequest(http.MethodPost, "/agent/v1/join", strings.NewReader(body))
		request.RemoteAddr = remote
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if text := answer.Body.String(); len(text) > 200 {
			t.Errorf("the answer is %d bytes long", len(text))
		}
		return answer.Code
	}
	for i := range 3 { // as they were tried: 4 MB each
		if status := join("192.0.2.1:1",
			fmt.Sprintf(`{"node":%q,"boot":%d,"token":"AAAA"}`, strings.Repeat("A\x1b[2J\n", 700_000),
				i)); status != http.StatusBadRequest {
			t.Errorf("status %d", status)
		}
	}
	for _, node := range []string{strings.Repeat("n", 10_000), "n1\nlevel=INFO msg=forged", "\x1b[2J", "", "ünode"} {
		if status := join("192.0.2.1:1",
			fmt.Sprintf(`{"node":%q,"boot":1,"token":"AAAA"}`, node)); status != http.StatusBadRequest {
			t.Errorf("node %.20q: status %d", node, status)
		}
	}
	for i := range 20_000 { // well formed, from many addresses
		join(fmt.Sprintf("[2001:db8:%x::1]:1", i), fmt.Sprintf(`{"node":"n%d","boot":1,"token":"AAAA"}`, i))
	}
	for range 1000 {
		join("192.0.2.2:1", `{"node":"n1","boot":1,"token":"AAAA"}`)
	}
	if log.Len() > 16<<10 || strings.Contains(log.String(), "\nlevel=INFO msg=forged") ||
		!strings.Contains(log.String(), "wrong token") {
		t.Errorf("the log has %d bytes: %.300s", log.Len(), log.String())
	}
	t.Logf("the log has %d bytes", log.Len())
}
