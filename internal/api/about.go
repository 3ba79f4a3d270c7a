package api

import (
	"context"
	"fmt"
	"net"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/core"
)

// About is what a controller says of itself; Run fills it in.
type About struct {
	Name   string // among its replicas
	Since  time.Time
	Engine *core.Engine // nil: nothing is checked
	Agents string       // path of the socket by which agents of its host come in
	// Alarms is what of this controller a person should look at, such as a network that it cannot serve. Where several may have
	// one name, the ID says which of them it is.
	Alarms func(ctx context.Context) []apiv1.Alarm
	// LocalRoot says who root of a node on this host is for the host.
	LocalRoot string
}

// checksWithin bounds the checks of one look.
const checksWithin = 2 * time.Second

// Ready looks at what must work. What it says is told to everybody, so it holds no secret and no error's own words.
func (a About) Ready(ctx context.Context, db *core.Store) apiv1.Readiness {
	ctx, cancel := context.WithTimeout(ctx, checksWithin)
	defer cancel()
	r := apiv1.Readiness{Ready: true, Checks: []apiv1.Check{}}
	if a.Engine != nil {
		r.Checks = []apiv1.Check{databaseCheck(ctx, db), engineCheck(a.Engine), agentsCheck(ctx, a.Agents)}
	}
	for _, c := range r.Checks {
		r.Ready = r.Ready && c.OK
	}
	return r
}

func databaseCheck(ctx context.Context, db *core.Store) apiv1.Check {
	began := time.Now()
	err := db.View(ctx, func(tx *core.Tx) error { _, err := tx.Now(ctx); return err })
	if err != nil {
		return apiv1.Check{Name: "database", Text: "does not answer"}
	}
	return apiv1.Check{Name: "database", OK: true,
		Text: fmt.Sprintf("answered in %s", time.Since(began).Round(10*time.Microsecond))}
}

// engineHangs is how long ago an engine that works may have looked for work last; it looks twice a second at least.
const engineHangs = 5 * time.Second

func engineCheck(e *core.Engine) apiv1.Check {
	now, most := e.Running()
	ago := time.Since(e.Looked())
	if ago > engineHangs {
		return apiv1.Check{Name: "engine", Text: "has not looked for work for more than " + engineHangs.String()}
	}
	return apiv1.Check{Name: "engine", OK: true, Text: fmt.Sprintf("looked for work %s ago; %d of at most %d handlers run",
		ago.Round(time.Millisecond), now, most)}
}

// agentsCheck connects to the socket of the agents on this host.
func agentsCheck(ctx context.Context, socket string) apiv1.Check {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return apiv1.Check{Name: "agents", Text: "cannot reach the controller on this host"}
	}
	_ = conn.Close()
	return apiv1.Check{Name: "agents", OK: true, Text: "their socket is open"}
}
