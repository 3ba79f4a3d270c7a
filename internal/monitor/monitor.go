// Package monitor is the server that agents call: it lets an agent join with its boot's one-time token, serves the configuration
// of its node, and records what the agent reports.
//
// What enters: the agents' calls (internal/protocol). What leaves: observed state in the database and wake-ups for
// the engine, which alone draws conclusions. It changes no phase.
package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"muster/internal/core"
	"muster/internal/core/telemetry"
	"muster/internal/drivers/scheduler"
	"muster/internal/drivers/substrate"
	"muster/internal/identity"
	"muster/internal/kinds/authority"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kit/limit"
	"muster/internal/kit/mail"
	"muster/internal/netboot/control"
	"muster/internal/protocol"
)

// Timing of the talk with agents.
const (
	heartbeat = 5 * time.Second
	longPoll  = 25 * time.Second
	bodyLimit = 4 << 20 // bytes; a head's report of 10,000 nodes is 1 MiB
)

// eachCalls is how many calls of one agent may be under way: more than it makes, and than are left of one that restarted.
const eachCalls = 16

// How often one agent may report: so many times at once, and then this often. Each report is a transaction. Agents with news
// report four times a second at most.
const (
	reportsAtOnce = 120
	reportsEvery  = 250 * time.Millisecond
)

const joinPath = "/agent/v1/join"

// Monitor serves agents.
type Monitor struct {
	db        *core.Store
	authority *identity.Authority
	owner     string // of this controller among its replicas
	log       *slog.Logger
	notifier  *notifier
	calls     limit.Share   // of agents
	coming    limit.Share   // long calls, by project
	long      chan struct{} // has one for each of those that say much and are read
	lines     limit.Lines   // of callers who are not authenticated
	reports   limit.Pace    // of agents, and what else is a transaction each
	configs   limit.Pace    // read by agents: while many nodes of a cluster start there is news many times a second
	again     limit.Pace    // those that an agent was told before
	told      told
	undone    limit.Pace // events about what heads could not do
	outputs   limit.Pace // of tasks, in pieces
	jobs      limit.Pace // of heads, many at a time
	mails     limit.Pace // calls of heads with letters
	letters   limit.Pace // of a project
	joins     limit.Pace // of agents that are known, for another certificate
	origins   origins    // of agents
	added     added      // of jobs

	Telemetry *telemetry.Telemetry // nil: nothing is counted
	Images    control.Images       // that guests elsewhere boot
	// Schedulers are what a cluster's jobs can be started by.
	Schedulers scheduler.Registry
	// Substrates are what the site's machines can be of.
	Substrates substrate.Registry
	// MostJobs is how many jobs that have ended are kept of a project.
	MostJobs int
	// Mail takes the letters of clusters' schedulers; nil: the site has no relay.
	Mail *mail.Relay
	// Refresh makes the authority what the rows of a transaction say; nil: it does not change.
	Refresh func(context.Context, *core.Tx) error
}

// New makes a Monitor of the controller that owner names; Run must run for its long polls to hear of news, and Listen for its
// nodes to be believed silent.
func New(db *core.Store, a *identity.Authority, owner string, log *slog.Logger) *Monitor {
	return &Monitor{db: db, authority: a, owner: owner, log: log, notifier: newNotifier(db),
		calls: limit.Share{Kind: "calls", Each: eachCalls, Total: math.MaxInt, Door: "agents",
			Hint: "an agent makes four at a time"},
		coming: limit.Share{Kind: "long calls", Each: comingEach, Total: math.MaxInt, Door: "agents",
			Hint: "they come in one after the other"},
		long:    make(chan struct{}, longCalls),
		reports: limit.Pace{Kind: "reports", Burst: reportsAtOnce, Every: reportsEvery},
		configs: limit.Pace{Kind: "requests for a configuration", Burst: 1000, Every: 50 * time.Millisecond},
		again:   limit.Pace{Kind: "requests for a configuration that was told", Burst: 60, Every: 2 * time.Second},
		undone:  limit.Pace{Kind: "reports of what was not done", Burst: 20, Every: time.Minute},
		outputs: limit.Pace{Kind: "pieces of output", Burst: 2000, Every: 20 * time.Millisecond},
		jobs:    limit.Pace{Kind: "lists of jobs", Burst: 20, Every: 2 * time.Second},
		mails:   limit.Pace{Kind: "calls with letters", Burst: 20, Every: 2 * time.Second},
		letters: limit.Pace{Kind: "letters", Burst: lettersAtOnce, Every: lettersEvery},
		joins:   limit.Pace{Kind: "joins", Burst: 30, Every: time.Minute},
		lines:   limit.LinesOfUnknown()}
}

// Run watches for news until ctx ends.
func (m *Monitor) Run(ctx context.Context) error { return m.notifier.run(ctx, m.log) }

// Handler answers agents. It must be served over TLS by the authority's ServerTLS.
func (m *Monitor) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+joinPath, m.join)
	mux.HandleFunc("GET /agent/v1/config", m.paced(&m.configs, m.config))
	mux.HandleFunc("POST /agent/v1/report", m.paced(&m.reports, m.report))
	mux.HandleFunc("POST "+protocol.TaskPath, m.paced(&m.outputs, m.taskOutput))
	mux.HandleFunc("POST "+protocol.JobsPath, m.paced(&m.jobs, m.toldJobs))
	mux.HandleFunc("POST "+protocol.MailPath, m.paced(&m.mails, m.post))
	mux.HandleFunc("GET /agent/v1/inspection", m.known(m.inspection))
	mux.HandleFunc("POST /agent/v1/findings", m.paced(&m.reports, m.findings))
	mux.HandleFunc("GET "+protocol.HostingPath, m.paced(&m.reports, m.hosting))
	mux.HandleFunc("POST "+protocol.HostedPath, m.paced(&m.reports, m.hosted))
	return m.counted(mux)
}

// HandlerWithin answers the agents of one cluster's guests. It must be served like Handler, and in that cluster's network
// alone: all clusters have the same addresses, so that nothing else tells whose network a call came from.
func (m *Monitor) HandlerWithin(cluster string) http.Handler {
	return m.handlerAt(withinKey{}, cluster)
}

// HandlerOn answers the agents of one network's machines. It must be served like Handler, by a server whose connections say
// who is at their other end (onlink.WithCaller): certificates go to the machines themselves.
func (m *Monitor) HandlerOn(network string) http.Handler {
	return m.handlerAt(onKey{}, network)
}

// handlerAt answers agents whose calls came in at one place, which is noted in their context under key.
func (m *Monitor) handlerAt(key any, place string) http.Handler {
	all := m.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key, place)))
	})
}

// errRefused is for an agent that must end: it belongs to a boot that is not wanted any more.
var errRefused = errors.New("this boot of the node is not wanted")

// orRefused is errRefused where something was not done, and nothing else kept it from that.
func orRefused(done bool, err error) error {
	if err == nil && !done {
		return errRefused
	}
	return err
}

// join exchanges the boot's one-time token, or on renewal the old certificate, for certificates.
func (m *Monitor) join(w http.ResponseWriter, r *http.Request) {
	request, ok := readJoin(w, r)
	if !ok {
		return
	}
	who := identity.Agent{Node: request.Node, Boot: request.Boot}
	renewal := false
	if old, err := m.caller(r); err == nil {
		if renewal = old.Node == who.Node && old.Boot == who.Boot; renewal {
			who.Key = old.Key
		}
	}
	if !renewal && !m.authority.CheckToken(request.Node, request.Boot, request.Token) {
		m.refused(r, request.Node, request.Boot, "wrong token")
		http.Error(w, errRefused.Error(), http.StatusForbidden)
		return
	}
	if over := m.joins.More(who.Node, time.Now()); over != nil {
		tooMuch(w, over)
		return
	}
	reply, err := m.admit(r.WithContext(core.For(r.Context(), who.Node)), request, who, renewal)
	m.answer(w, r, reply, err)
}

func (m *Monitor) admit(r *http.Request, request protocol.JoinRequest, who identity.Agent, renewal bool) (protocol.JoinReply,
	error) {
	ctx, now := r.Context(), time.Now()
	a := m.authority
	reply := protocol.JoinReply{
		NotAfter: now.Add(identity.CertificateLife).UTC(), Authority: a.AgentsPEM(), Token: a.Token(who.Node, who.Boot),
		Stamp: a.Stamp(),
	}
	lives := authority.Trust{Subject: who.Node, Boot: who.Boot, Hosts: a.Signing(identity.SSHHosts),
		Agents: min(a.Signing(identity.Agents), a.Shown(r.TLS)), Tokens: a.Signing(identity.BootTokens)}
	var fingerprint string
	var reached control.Progress
	var err error
	if reply.Certificate, fingerprint, err = m.authority.CertifyAgent(request.CSR, who, now); err != nil {
		return reply, err
	}
	err = m.db.Update(ctx, func(tx *core.Tx) error {
		if err := authority.SaveTrust(ctx, tx, lives); err != nil {
			return err
		}
		n, err := node.Get(ctx, tx, who.Node)
		if errors.Is(err, core.ErrNotFound) {
			return m.admitInspection(ctx, tx, who, fingerprint, renewal, r)
		}
		if err != nil {
			return err
		}
		if reached, err = m.progressOf(ctx, tx, n, renewal); err != nil {
			return err
		}
		if err := m.admitNode(ctx, tx, n, who, fingerprint, renewal, r); err != nil {
			return err
		}
		tx.Wake(node.Kind, n.ID)
		cluster, err := cluster.Get(ctx, tx, n.Cluster)
		if err != nil {
			return err
		}
		names := hostNames(cluster, n)
		reply.HostCertificate, err = m.authority.CertifyHost(request.HostKey, names, now)
		return err
	})
	if err == nil {
		reached.Tell(m.Telemetry)
	}
	if errors.Is(err, errRefused) {
		m.refused(r, who.Node, who.Boot, err.Error())
	}
	return reply, err
}

// admitNode lets the agent of a node's boot in: the first time by the boot's token, later by its certificate.
func (m *Monitor) admitNode(ctx context.Context, tx *core.Tx, n node.Node, who identity.Agent, fingerprint string, renewal bool,
	r *http.Request) error {
	if n.Phase == node.Gone || n.Boot != who.Boot {
		return errRefused
	}
	if err := fromNode(ctx, tx, n, r); err != nil {
		return err
	}
	if renewal {
		return nil
	}
	if err := orRefused(node.UseToken(ctx, tx, who.Node, who.Boot, fingerprint)); err != nil {
		return err
	}
	_, err := machine.MarkBoot(ctx, tx, n.ID, who.Boot, protocol.StepAgent, "")
	return err
}

// wanted refuses the agent of a boot that is over, or is told to end. It returns the boot of a whole machine's node.
func wanted(ctx context.Context, tx *core.Tx, n node.Node, who identity.Agent) (boot machine.Boot, err error) {
	if n.Boot != who.Boot || n.Phase == node.Gone {
		return boot, errRefused
	}
	m, err := machine.Get(ctx, tx, n.MachineID)
	if err != nil || !m.BootsFromNetwork() {
		return boot, err
	}
	boot, err = machine.BootOf(ctx, tx, n.ID)
	if errors.Is(err, core.ErrNotFound) || err == nil && boot.Ending {
		err = errRefused
	}
	return boot, err
}

// caller is the agent that the client certificate names. A connection may be older than the authority's last change.
func (m *Monitor) caller(r *http.Request) (identity.Agent, error) {
	if m.authority.LivesBy(r.TLS) == 0 {
		return identity.Agent{}, errors.New("a client certificate is needed")
	}
	return identity.AgentOf(r.TLS.VerifiedChains[0][0])
}

// known lets only agents with a certificate through.
func (m *Monitor) known(f func(http.ResponseWriter, *http.Request, identity.Agent)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, err := m.caller(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		payer, err := m.there(r, who)
		if errors.Is(err, errRefused) {
			m.refused(r, who.Node, who.Boot, err.Error())
			http.Error(w, err.Error(), http.StatusUnauthorized) // not to end whom it was stolen from
			return
		}
		if err != nil {
			m.answer(w, r, nil, err)
			return
		}
		limit.Known(r.Context())
		leave, over := m.calls.Enter(who.Node, false)
		if over != nil {
			tooMuch(w, over)
			return
		}
		defer leave()
		f(w, r.WithContext(core.For(r.Context(), payer)), who)
	}
}

// paced lets an agent call no faster than agents do. Calls of different kinds do not wait for each other.
func (m *Monitor) paced(p *limit.Pace, f func(http.ResponseWriter, *http.Request, identity.Agent)) http.HandlerFunc {
	return m.known(func(w http.ResponseWriter, r *http.Request, who identity.Agent) {
		if over := p.More(who.Node+r.URL.Path, time.Now()); over != nil {
			tooMuch(w, over)
			return
		}
		f(w, r, who)
	})
}

func tooMuch(w http.ResponseWriter, over *limit.Over) {
	w.Header().Set("Retry-After", strconv.Itoa(int(over.After.Seconds())))
	http.Error(w, over.Error(), http.StatusTooManyRequests)
}

// answer writes a reply, or the error as the agent must take it: it has to end when its join gets 403, or anything else
// 410.
func (m *Monitor) answer(w http.ResponseWriter, r *http.Request, reply any, err error) {
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reply)
	case errors.Is(err, errRefused) || errors.Is(err, core.ErrNotFound):
		status := http.StatusGone
		if r.URL.Path == joinPath {
			status = http.StatusForbidden
		}
		http.Error(w, errRefused.Error(), status)
	case r.Context().Err() != nil: // the agent has gone
	default:
		m.log.Error("cannot answer an agent", "path", r.URL.Path, "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
	}
}
