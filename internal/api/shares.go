package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	apiv1 "muster/api/v1"
	"muster/internal/kit/limit"
)

// Shares is how much one person, and all together, may have going on at once.
type Shares struct {
	requests, streams, tunnels limit.Share
	files                      limit.Share // requests for files: each holds megabytes
	sums                       limit.Share // requests that read and add up much
	checked, checkedHere       limit.Share // logins, by address, and those of this host, where a proxy may speak for many
	tries                      limit.Tries // to log in
	lines                      limit.Lines // of the log, that strangers cause
}

// How many of each one person may have: a script that asks for many things at once, a wait for each of a hundred clusters,
// a session at each of a hundred nodes.
const (
	eachRequests = 32
	eachStreams  = 100
	eachTunnels  = 100
	eachFiles    = 8
	allFiles     = 128
	eachSums     = 2
	allSums      = 8
)

// How often one address may try to log in within a minute, and when all together do so often that each may do so seldom.
// Each try costs a signature's check, and may cost the provider an answer: so few are checked at once.
const (
	triesOfOne  = 30
	triesOfHere = 600
	triesOfAll  = 600
	triesThen   = 5

	checkedEach = 16
	checkedAll  = 128
)

// NewShares makes those of an API with so many connections: what callers can hold leaves some for those who come.
func NewShares(connections int, m limit.Meter) *Shares {
	share := func(kind string, each, total int, hint string) limit.Share {
		return limit.Share{Kind: kind, Each: each, Total: max(total, 8), Door: "api", Meter: m, Hint: hint}
	}
	return &Shares{
		checked:     share("logins", checkedEach, checkedAll, "try again in a moment"),
		checkedHere: share("logins", checkedAll, checkedAll, "try again in a moment"),
		tries:       limit.Tries{Window: time.Minute, Each: triesOfOne, Here: triesOfHere, All: triesOfAll, Strained: triesThen},
		lines:       limit.LinesOfUnknown(),

		requests: share("requests", eachRequests, connections/4, "send fewer at a time"),
		streams: share("event streams", eachStreams, connections/4,
			"close some; one `muster events -w` follows all that you may see"),
		files:   share("requests for files", eachFiles, min(allFiles, connections/8), "send fewer at a time"),
		sums:    share("requests that add up much", eachSums, allSums, "send one after the other"),
		tunnels: share("tunnels", eachTunnels, connections/8, "close some; ssh's ControlMaster carries many sessions over one"),
	}
}

// of is the share that an operation takes from.
func (s *Shares) of(ctx huma.Context) *limit.Share {
	switch ctx.Operation().OperationID {
	case apiv1.Tunnel.ID, apiv1.OpenTerminal.ID:
		return &s.tunnels
	case apiv1.ListFiles.ID, apiv1.RemoveFile.ID, apiv1.ReadFile.ID, apiv1.WriteFile.ID, apiv1.MoveFile.ID,
		apiv1.MakeDirectory.ID:
		return &s.files
	case apiv1.ListEvents.ID, apiv1.ListClusterEvents.ID:
		if watch, err := strconv.ParseBool(ctx.Query("watch")); err == nil && watch {
			return &s.streams
		}
	case apiv1.GetUsage.ID, apiv1.GetClusterCost.ID, apiv1.GetEfficiency.ID, apiv1.GetCalendar.ID, apiv1.CompareBenchmarks.ID,
		apiv1.ListBenchmarkSeries.ID, apiv1.ListBenchmarkRounds.ID, apiv1.ListBenchmarkSteps.ID, apiv1.ListClusterTrends.ID,
		apiv1.ListTrends.ID:
		return &s.sums
	}
	return &s.requests
}

// overLimit tells which limit a request is over, and when to try again.
func overLimit(ctx huma.Context, over *limit.Over) *apiv1.Problem {
	status := http.StatusServiceUnavailable
	if over.Own {
		status = http.StatusTooManyRequests
	}
	ctx.SetHeader("Retry-After", strconv.Itoa(int(over.After.Seconds())))
	return problem(status, over.Text, over.Hint)
}
