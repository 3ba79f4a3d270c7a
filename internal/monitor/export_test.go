package monitor

import (
	"net/http"

	"muster/internal/identity"
)

// Known lets a test stand where the handlers of agents' calls do.
func (m *Monitor) Known(f func(http.ResponseWriter, *http.Request, identity.Agent)) http.HandlerFunc {
	return m.known(f)
}
