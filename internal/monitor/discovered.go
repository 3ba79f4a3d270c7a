package monitor

import (
	"encoding/json"
	"net/http"
	"time"

	"muster/internal/kit/pattern"
	"muster/internal/protocol"
)

// joinLimit is how long a join may be: two keys and a token are 1 KiB.
const joinLimit = 16 << 10 // bytes

// nodeID is what IDs of nodes, and names and IDs of machines, are.
var nodeID = pattern.New(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,79}$`)

// readJoin reads a join, whose sender is not authenticated yet; false: the answer is given.
func readJoin(w http.ResponseWriter, r *http.Request) (q protocol.JoinRequest, ok bool) {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, joinLimit)).Decode(&q); err != nil {
		http.Error(w, "a join is JSON of at most 16 KiB", http.StatusBadRequest)
		return q, false
	}
	if !nodeID.MatchString(q.Node) {
		http.Error(w, "node: this is no ID of a node", http.StatusBadRequest)
		return q, false
	}
	return q, true
}

// refused logs that an agent was not let in, as long as its address has not caused too many lines.
func (m *Monitor) refused(r *http.Request, node string, boot int64, why string) {
	yes, omitted := m.lines.Say(r.RemoteAddr, time.Now())
	if !yes {
		return
	}
	line := []any{"node", node, "boot", boot, "remote", r.RemoteAddr, "why", why}
	if omitted > 0 {
		line = append(line, "left_out", omitted) // lines like this one, since the last
	}
	m.log.Warn("refused an agent", line...)
}
