package v1

import "time"

// ListClusterTrendsInput is what ListClusterTrends takes.
type ListClusterTrendsInput struct {
	ClusterRef
	Machine  string `query:"machine" doc:"what was measured on this machine alone, while it was of the cluster" maxLength:"63"`
	Quantity string `query:"quantity" doc:"only this quantity" maxLength:"40"`
	Runs     string `query:"runs" doc:"only what these runs came to: IDs, separated by commas" maxLength:"1000"`
	Page
}

// ListTrendsInput is what ListTrends takes.
type ListTrendsInput struct {
	Machine  string `query:"machine" doc:"of this machine" maxLength:"63"`
	Class    string `query:"class" doc:"of this class" maxLength:"63"`
	Quantity string `query:"quantity" doc:"only this quantity" maxLength:"40"`
	Page
}

// BenchmarkTrend is how a quantity went on over time: what runs have measured alike, by the same recipe on nodes of one kind.
type BenchmarkTrend struct {
	BenchmarkQuantity
	Points  []BenchmarkPoint  `json:"points" doc:"the newest 40, in their order"`
	Changes []BenchmarkChange `json:"changes,omitempty" doc:"that were told, in their order"`
}

// BenchmarkQuantity is what values must have in common to be compared over time.
type BenchmarkQuantity struct {
	Recipe     string            `json:"recipe"`
	Version    string            `json:"version" doc:"digest of the recipe: with another one, it is another quantity"`
	Quantity   string            `json:"quantity"`
	Parameters map[string]string `json:"parameters,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Unit       string            `json:"unit"`
	Better     string            `json:"better" enum:"higher,lower"`
	Nodes      int               `json:"nodes,omitempty" doc:"that have measured it together; absent: each value is of one node"`
	Cores      int               `json:"cores" doc:"of a node"`
	Class      string            `json:"class" doc:"of the nodes; several are separated by commas"`
	Guests     bool              `json:"guests,omitempty" doc:"they are parts of hypervisors"`
}

// BenchmarkPoint is what a run came to.
type BenchmarkPoint struct {
	Run   string    `json:"run"`
	At    time.Time `json:"at" doc:"when it had been measured"`
	Value float64   `json:"value" doc:"the median of its rounds"`
}

// BenchmarkChange says that runs measure another level than before. It is told once four runs show it.
type BenchmarkChange struct {
	ID string `json:"id"`
	BenchmarkQuantity
	Project    string    `json:"project" doc:"of the run"`
	Cluster    string    `json:"cluster,omitempty" doc:"whose values have changed; absent: a machine's, or a class's"`
	Machine    string    `json:"machine,omitempty" doc:"whose values have changed; absent: a cluster's, or a class's"`
	Run        string    `json:"run" doc:"the first one with the new level"`
	At         time.Time `json:"at" doc:"when that had measured it"`
	Was        float64   `json:"was" doc:"median of the level before"`
	Became     float64   `json:"became" doc:"median of the new level"`
	Worse      bool      `json:"worse,omitempty"`
	Text       string    `json:"text" doc:"what has changed, in words"`
	Causes     []string  `json:"causes,omitempty" doc:"what else had changed in that run: facts of nodes, machines"`
	ReportedAt time.Time `json:"reported_at"`
	Accepted   string    `json:"accepted,omitempty" doc:"who takes it as it is"`
}

// ChangeRef is a change in a path.
type ChangeRef struct {
	Change string `path:"change" doc:"its ID" maxLength:"60"`
}
