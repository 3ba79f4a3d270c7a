package v1

import "time"

// UsageLine is what one thing used at one price.
type UsageLine struct {
	Kind           UsageKind          `json:"kind"`
	Project        string             `json:"project"`
	Cluster        string             `json:"cluster"`
	ClusterID      string             `json:"cluster_id"`
	Node           string             `json:"node,omitempty" doc:"absent if lines are per queue, and for /home"`
	Queue          string             `json:"queue,omitempty" doc:"absent for the head and for /home"`
	Class          string             `json:"class,omitempty"`
	Machine        string             `json:"machine,omitempty"`
	Nodes          int                `json:"nodes,omitempty" doc:"number of nodes, at the same time or one after the other"`
	From           time.Time          `json:"from" doc:"start of the first counted period"`
	To             time.Time          `json:"to" doc:"end of the last counted period"`
	Seconds        map[string]float64 `json:"seconds" doc:"seconds by state, to the millisecond; the sum over all nodes of the line"`
	ChargedSeconds float64            `json:"charged_seconds"`
	GiBMonths      float64            `json:"gib_months,omitempty" doc:"of a /home; a month has 730 hours"`
	Rate           string             `json:"rate,omitempty" doc:"price per hour of a node, or per GiB and month of /home"`
	Cost           string             `json:"cost,omitempty" doc:"charged time multiplied by rate, rounded to a millionth of the currency's unit"`
}

// Limit is a budget, or a quota of node-hours, and how much of it is used.
type Limit struct {
	What        string  `json:"what"`
	Used        string  `json:"used"`
	Limit       string  `json:"limit"`
	Percent     int     `json:"percent" doc:"rounded down; 100 when it is reached"`
	LeftSeconds float64 `json:"left_seconds,omitempty" doc:"seconds that it lasts if nothing changes; absent while nothing is charged"`
	Pauses      bool    `json:"pauses" doc:"clusters are paused when it is reached"`
}

// Cost is what a cluster has cost.
type Cost struct {
	Cluster   string      `json:"cluster"`
	ClusterID string      `json:"cluster_id"`
	Project   string      `json:"project"`
	From      time.Time   `json:"from"`
	To        time.Time   `json:"to"`
	Total     string      `json:"total,omitempty" doc:"sum of the lines; absent where the site has no prices"`
	PerHour   string      `json:"per_hour,omitempty" doc:"what is charged per hour at present"`
	Limits    []Limit     `json:"limits" doc:"the cluster's own budget"`
	Lines     []UsageLine `json:"lines"`
}

// Statement is what projects have used.
type Statement struct {
	Site      string      `json:"site"`
	Project   string      `json:"project,omitempty" doc:"absent for all"`
	From      time.Time   `json:"from"`
	To        time.Time   `json:"to" doc:"end of the period, or now if that is earlier"`
	Total     string      `json:"total,omitempty" doc:"sum of the lines; absent where the site has no prices"`
	NodeHours float64     `json:"node_hours" doc:"charged node-hours"`
	Lines     []UsageLine `json:"lines"`
}

// Share is how much of a quota is in use.
type Share struct {
	Used  int  `json:"used"`
	Limit *int `json:"limit,omitempty" doc:"absent: no limit"`
}

// Quota is what a project may hold, and what it holds.
type Quota struct {
	Project  string  `json:"project"`
	Clusters Share   `json:"clusters" doc:"also paused and reserved ones"`
	Nodes    Share   `json:"nodes" doc:"nodes, including heads, nodes that are starting, and missing nodes below a queue's min"`
	Cores    Share   `json:"cores"`
	GPUs     Share   `json:"gpus"`
	Limits   []Limit `json:"limits" doc:"of the running month, in UTC: budget, node-hours"`
}

// Window is a time to look at.
type Window struct {
	From time.Time `query:"from" doc:"start of the period, in RFC 3339"`
	To   time.Time `query:"to" doc:"end of the period, in RFC 3339"`
	By   By        `query:"by" enum:"queue,node,row" default:"node" doc:"what one line is: a queue, a node, or a period of a node in one state"`
}

// GetClusterCostInput is what GetClusterCost takes.
type GetClusterCostInput struct {
	ClusterRef
	Window
}

// GetUsageInput is what GetUsage takes.
type GetUsageInput struct {
	Project string `query:"project" maxLength:"63" doc:"default: all projects that you may see"`
	Window
}

// GetQuotaInput is what GetQuota takes.
type GetQuotaInput struct {
	Project string `path:"project" maxLength:"63"`
}
