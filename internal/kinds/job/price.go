package job

import (
	"context"

	"muster/internal/core"
	"muster/internal/kinds/meter"
	"muster/internal/kit/hostlist"
	"muster/internal/price"
	"muster/internal/protocol"
)

// prices are those of a cluster's nodes, while some jobs ran.
type prices struct {
	rows map[string][]price.Usage // by node
	left int                      // rows that may be looked at yet: a head can say that each job ran everywhere, for ever
}

// mostLooks is enough for thousands of jobs on hundreds of nodes. A head says when its jobs began, and no other transaction can
// write while rows since then are read: mostRows are what hundreds of nodes leave in weeks. With more, jobs have no price.
const (
	mostLooks = 1 << 21
	mostRows  = 1 << 15
)

func pricesOf(ctx context.Context, tx *core.Tx, cluster string, jobs []protocol.EndedJob) (*prices, error) {
	p := &prices{rows: map[string][]price.Usage{}, left: mostLooks}
	of := meter.Of{Cluster: cluster, Limit: mostRows + 1}
	for _, j := range jobs {
		if !j.Began.IsZero() && (of.From.IsZero() || j.Began.Before(of.From)) {
			of.From = j.Began
		}
		if j.Ended.After(of.To) {
			of.To = j.Ended
		}
	}
	if of.From.IsZero() {
		return p, nil
	}
	rows, err := meter.Rows(ctx, tx, of)
	if len(rows) > mostRows {
		p.left, rows = 0, nil
	}
	for _, r := range rows {
		if r.Kind == price.Node {
			p.rows[r.Node] = append(p.rows[r.Node], r)
		}
	}
	return p, err
}

// of is what a job cost; of nothing that can be said, nothing.
func (p *prices) of(j protocol.EndedJob) price.Amount {
	if j.Began.IsZero() {
		return price.Amount{}
	}
	names, err := hostlist.Expand(j.Nodes, len(p.rows))
	if err != nil { // nodes that the cluster did not have
		return price.Amount{}
	}
	run := price.Run{Nodes: map[string]bool{}, CPUs: j.CPUs, GPUs: j.GPUs, From: j.Began, To: j.Ended}
	var rows []price.Usage
	for _, name := range names {
		if !run.Nodes[name] && p.left > 0 {
			p.left -= len(p.rows[name])
			rows = append(rows, p.rows[name]...)
		}
		run.Nodes[name] = true
	}
	if p.left <= 0 {
		return price.Amount{}
	}
	return price.Part(rows, run)
}
