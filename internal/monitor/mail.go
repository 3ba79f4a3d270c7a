package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"muster/internal/core"
	"muster/internal/identity"
	"muster/internal/kinds/cluster"
	"muster/internal/kit/mail"
	"muster/internal/protocol"
)

// How many letters a project may send: so many at once, and then this often.
const (
	lettersAtOnce = 500
	lettersEvery  = 10 * time.Second
	lettersWithin = 20 * time.Second // an agent waits longer
)

// post hands a head's letters to the site's relay. Letters that it answers for need not be sent again.
func (m *Monitor) post(w http.ResponseWriter, r *http.Request, who identity.Agent) {
	var told protocol.Letters
	if !m.read(w, r, bodyLimit, &told) {
		return
	}
	from, err := core.Look(r.Context(), m.db, func(tx *core.Tx) (cluster.Cluster, error) {
		head, err := headOf(r.Context(), tx, who)
		if err != nil {
			return cluster.Cluster{}, err
		}
		return cluster.Get(r.Context(), tx, head.Cluster)
	})
	if err != nil || m.Mail == nil {
		m.answer(w, r, protocol.Posted{Done: len(told.Letters)}, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), lettersWithin)
	defer cancel()
	done, err := m.send(ctx, from, told.Letters)
	if err != nil && done == 0 {
		m.log.Warn("the site's mail relay takes no letter", "relay", m.Mail.Address, "error", err)
		w.Header().Set("Retry-After", "60")
		http.Error(w, "the relay takes no letter", http.StatusServiceUnavailable)
		return
	}
	m.answer(w, r, protocol.Posted{Done: done}, nil)
}

// send returns how many letters are dealt with. Of those that are not to be sent, one line of the log tells.
func (m *Monitor) send(ctx context.Context, from cluster.Cluster, letters []protocol.Letter) (done int, err error) {
	var out []mail.Letter
	var of []int // for each, how many of letters are dealt with once it is
	var dropped error
	for i, l := range letters {
		to, err := m.Mail.Recipient(l.To)
		if over := m.letters.More(from.Project, time.Now()); over != nil {
			err = over
		}
		if err != nil {
			dropped = cmp.Or(dropped, err)
			continue
		}
		of = append(of, i+1)
		out = append(out, mail.Letter{To: to, Subject: l.Subject,
			Body: fmt.Sprintf("%s\n\ncluster  %s/%s\nuser     %s\n", l.Subject, from.Project, from.Name, l.User)})
	}
	sent, refused, err := m.Mail.Send(ctx, out)
	if dropped = errors.Join(dropped, refused); dropped != nil {
		m.log.Info("letters are not sent", "project", from.Project, "cluster", from.Name, "error", dropped)
	}
	switch {
	case sent == len(out):
		return len(letters), nil
	case sent == 0:
		return of[0] - 1, err
	}
	return of[sent-1], err
}
