package apiv1

import (
	"muster/internal/kinds/meter/usage"
	"time"
)

// UsageLine is what one thing used at one price.
type UsageLine struct {
	Kind           usage.Kind         `json:"kind"`
	Project        string             `json:"project"`
	Cluster        string             `json:"cluster"`
	ClusterID      string             `json:"cluster_id"`
	Node           string             `json:"node,omitempty" doc:"absent by queue, and for a /home"`
	Queue          string             `json:"queue,omitempty" doc:"absent for the head and for a /home"`
	Class          string             `json:"class,omitempty"`
	Machine        string             `json:"machine,omitempty"`
	Nodes          int                `json:"nodes,omitempty" doc:"how many nodes were there, one after the other or beside each other"`
	From           time.Time          `json:"from" doc:"first instant counted"`
	To             time.Time          `json:"to" doc:"last instant counted"`
	Seconds        map[string]float64 `json:"seconds" doc:"by state, to the millisecond; of all nodes of the line together"`
	ChargedSeconds float64            `json:"charged_seconds"`
	GiBMonths      float64            `json:"gib_months,omitempty" doc:"of a /home; a month has 730 hours"`
	Rate           string             `json:"rate,omitempty" doc:"per hour of a node, per GiB and month of a /home"`
	Cost           string             `json:"cost,omitempty" doc:"charged time times rate, rounded to a millionth"`
}

// Limit is a budget, or a quota of node-hours, and how much of it is used.
type Limit struct {
	What        string  `json:"what"`
	Used        string  `json:"used"`
	Limit       string  `json:"limit"`
	Percent     int     `json:"percent" doc:"rounded down; 100 when it is reached"`
	LeftSeconds float64 `json:"left_seconds,omitempty" doc:"how long it lasts if nothing changes; absent while nothing is charged"`
	Pauses      bool    `json:"pauses" doc:"clusters pause when it is reached"`
}

// Cost is what a cluster has cost.
type Cost struct {
	Cluster   string      `json:"cluster"`
	ClusterID string      `json:"cluster_id"`
	Project   string      `json:"project"`
	From      time.Time   `json:"from"`
	To        time.Time   `json:"to"`
	Total     string      `json:"total,omitempty" doc:"sum of the lines; absent where the site has no prices"`
	PerHour   string      `json:"per_hour,omitempty" doc:"what is charged now"`
	Limits    []Limit     `json:"limits" doc:"its own budget"`
	Lines     []UsageLine `json:"lines"`
}

// Statement is what projects have used.
type Statement struct {
	Site      string      `json:"site"`
	Project   string      `json:"project,omitempty" doc:"absent for all"`
	From      time.Time   `json:"from"`
	To        time.Time   `json:"to" doc:"now, if the time is not over"`
	Total     string      `json:"total,omitempty" doc:"sum of the lines; absent where the site has no prices"`
	NodeHours float64     `json:"node_hours" doc:"charged"`
	Lines     []UsageLine `json:"lines"`
}

// Share is how much of a quota is in use.
type Share struct {
	Used  int  `json:"used"`
	Limit *int `json:"limit,omitempty" doc:"absent: without limit"`
}

// Quota is what a project may hold, and what it holds.
type Quota struct {
	Project string  `json:"project"`
	Nodes   Share   `json:"nodes" doc:"heads, nodes on their way, and nodes that a queue is always to have"`
	Cores   Share   `json:"cores"`
	GPUs    Share   `json:"gpus"`
	Limits  []Limit `json:"limits" doc:"of the running month, in UTC: budget, node-hours"`
}

// By says how much goes into one line.
type By = usage.By

// All of a queue, or a node's life.
const (
	ByQueue = usage.ByQueue
	ByNode  = usage.ByNode
)

// Window is a time to look at.
type Window struct {
	From time.Time `query:"from" doc:"RFC 3339; what was used before is left out"`
	To   time.Time `query:"to" doc:"RFC 3339; what was used later is left out"`
	By   By        `query:"by" enum:"queue,node,row" default:"node" doc:"how much goes into one line: all of a queue, a node's life, or a stretch in one state"`
}

// GetClusterCostInput is what GetClusterCost takes.
type GetClusterCostInput struct {
	ClusterRef
	Window
}

// GetUsageInput is what GetUsage takes.
type GetUsageInput struct {
	Project string `query:"project" maxLength:"63" doc:"of all projects that you may look at, if empty"`
	Window
}

// GetQuotaInput is what GetQuota takes.
type GetQuotaInput struct {
	Project string `path:"project" maxLength:"63"`
}
