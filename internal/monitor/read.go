package monitor

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"muster/internal/core"
	"muster/internal/kit/printable"
)

// Each value that a call says takes hundreds of bytes until it is bound, however short it is there: so many values a call, and so
// many calls at once that are longer than most.
const (
	mostValues = 1 << 18 // twice what a head says that tells of 5,000 jobs, or of 10,000 nodes
	longCall   = 64 << 10
	longCalls  = 16
	// Of calls that are longer, so many of a project come in at a time: an agent may send them slowly. All projects together have
	// no bound of their own, as tenants could fill it.
	comingEach = 8
)

// read takes a call's body of so many bytes at most, and bounds what it says, or answers why it is not understood. It waits while
// many long ones are read.
func (m *Monitor) read(w http.ResponseWriter, r *http.Request, most int64, into any) bool {
	from := http.MaxBytesReader(w, r.Body, most)
	body, err := io.ReadAll(io.LimitReader(from, longCall+1))
	if err == nil && len(body) > longCall {
		payer := core.Payer(r.Context())
		leave, over := m.coming.Enter(payer, !strings.HasPrefix(payer, core.OfProject(""))) // agents of the site's own hosts
		if over != nil {
			tooMuch(w, over)
			return false
		}
		defer leave()
		rest, failed := io.ReadAll(from)
		body, err = append(body, rest...), failed
	}
	if err == nil && len(body) > longCall {
		select {
		case m.long <- struct{}{}:
			defer func() { <-m.long }()
		case <-r.Context().Done():
			return false
		}
		if valuesIn(body) > mostValues {
			err = fmt.Errorf("more than %d values", mostValues)
		}
	}
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		http.Error(w, "unreadable: "+err.Error(), http.StatusBadRequest)
		return false
	}
	printable.Bound(into, mostSaid)
	return true
}

// valuesIn is about how many values JSON has: the commas outside of its texts.
func valuesIn(body []byte) (n int) {
	text := false
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '\\':
			i++
		case '"':
			text = !text
		case ',':
			if !text {
				n++
			}
		}
	}
	return n
}
