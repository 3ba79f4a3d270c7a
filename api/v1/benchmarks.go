package v1

import "time"

// ListSuitesInput is what ListSuites takes.
type ListSuitesInput struct {
	Cluster string `query:"cluster" doc:"say what would run on this cluster, and how long it would take there" maxLength:"130"`
	Queue   string `query:"queue" doc:"on nodes of this queue; default: the first" maxLength:"63"`
	Nodes   int    `query:"nodes" doc:"on so many nodes; default: all that the queue has" minimum:"0" maximum:"4096"`
	Page
}

// Suite is a list of recipes that are run together, or a single recipe.
type Suite struct {
	Name    string         `json:"name"`
	About   string         `json:"about"`
	Single  bool           `json:"single,omitempty" doc:"it is a recipe, which can be run alone"`
	Rounds  int            `json:"rounds" doc:"how often all of it is run"`
	Seconds float64        `json:"seconds" doc:"how long all rounds take about, on nodes of the shape in on, once they run"`
	On      BenchmarkNodes `json:"on" doc:"nodes of the cluster that was asked about; of an example otherwise"`
	Recipes []SuiteRecipe  `json:"recipes"`
}

// BenchmarkNodes is what nodes a benchmark is for.
type BenchmarkNodes struct {
	Nodes     int   `json:"nodes"`
	Cores     int   `json:"cores" doc:"of the smallest node"`
	MemoryMiB int64 `json:"memory_mib" doc:"of the smallest node"`
}

// SuiteRecipe is a recipe in a suite.
type SuiteRecipe struct {
	Name     string   `json:"name"`
	About    string   `json:"about"`
	Programs []string `json:"programs,omitempty" doc:"that it needs on the nodes"`
	Nodes    int      `json:"nodes,omitempty" doc:"how many it needs, if more than one"`
	Steps    int      `json:"steps" doc:"one for each set of its parameters' values"`
	Seconds  float64  `json:"seconds" doc:"how long its steps take about, once"`
	Skipped  int      `json:"skipped,omitempty" doc:"how many of its steps cannot run there"`
	Skip     string   `json:"skip,omitempty" doc:"why the first of them cannot"`
}

// RunBenchmarkInput is what RunBenchmark takes.
type RunBenchmarkInput struct {
	ClusterRef
	Body RunBenchmarkBody
}

// RunBenchmarkBody says what to measure, and on what.
type RunBenchmarkBody struct {
	Suite       string `json:"suite,omitempty" doc:"name of a suite, or of a recipe; default: quick" maxLength:"40"`
	Queue       string `json:"queue,omitempty" doc:"the queue of its nodes; default: the first" maxLength:"63"`
	Nodes       int    `json:"nodes,omitempty" doc:"on so many nodes; default: all that the queue has" minimum:"0" maximum:"4096"`
	Rounds      int    `json:"rounds,omitempty" doc:"how often all of it is run; default: as the suite says" minimum:"0" maximum:"100"`
	CompareWith string `json:"compare_with,omitempty" doc:"a cluster to compare with, in turns; it may be the same" maxLength:"130"`

	Every string `json:"every,omitempty" doc:"repeat it so often while its nodes are free, as in 1d: 10 minutes or more; one of the same suite on the cluster ends" maxLength:"20"`

	Precise     float64 `json:"precise,omitempty" doc:"end once the intervals of all medians, or of all ratios beside another cluster, reach no further than this part; rounds are then the most, 20 by default" minimum:"0" maximum:"1"`
	Reservation string  `json:"reservation,omitempty" doc:"run in this reservation of the cluster's scheduler" maxLength:"64" pattern:"^[A-Za-z0-9_.-]*$"`

	Sizes []int `json:"sizes,omitempty" doc:"numbers of nodes that each recipe runs on, of which the largest is the default of nodes; what a number changes nothing of runs once; default: as the suite says" maxItems:"20"`
	Brief bool  `json:"brief,omitempty" doc:"in a shortened form, to see that all of it runs: once, and with small sizes"`

	CompareWithQueue string `json:"compare_with_queue,omitempty" doc:"the queue of that cluster; default: its first" maxLength:"63"`
}

// BenchmarkOutcome is how a run has ended.
type BenchmarkOutcome string

// The outcomes.
const (
	BenchmarkOK         BenchmarkOutcome = "ok"         // every step that can run there is
	BenchmarkIncomplete BenchmarkOutcome = "incomplete" // some are not, or rounds are missing
	BenchmarkCancelled  BenchmarkOutcome = "cancelled"
)

// Benchmark is a run of a suite on a cluster. It outlives the cluster.
type Benchmark struct {
	ID        string           `json:"id" doc:"never changes"`
	Project   string           `json:"project"`
	Cluster   string           `json:"cluster" doc:"name of its cluster"`
	ClusterID string           `json:"cluster_id"`
	Account   string           `json:"account" doc:"whom it runs as; it is the user who asked for it"`
	Suite     string           `json:"suite"`
	Brief     bool             `json:"brief,omitempty" doc:"in a shortened form, whose values count in no history"`
	Queue     string           `json:"queue,omitempty"`
	On        BenchmarkNodes   `json:"on"`
	Phase     Phase            `json:"phase" words:"benchmark phases"`
	Reason    string           `json:"reason,omitempty" doc:"why it is in this phase"`
	Outcome   BenchmarkOutcome `json:"outcome,omitempty" enum:"ok,incomplete,cancelled" doc:"set once it has ended"`
	Rounds    int              `json:"rounds" doc:"that are to be, with those that are done again"`
	Ended     int              `json:"rounds_ended" doc:"rounds that have ended"`
	Broken    int              `json:"broken,omitempty" doc:"of those, rounds that do not count, here or in the peer"`
	Cancel    bool             `json:"cancel,omitempty" doc:"somebody has asked to cancel it"`
	Peer      string           `json:"peer,omitempty" doc:"the run whose rounds are done in turns with its own"`
	CreatedAt time.Time        `json:"created_at"`
	EndedAt   *time.Time       `json:"ended_at,omitempty"`
	Every     string           `json:"every,omitempty" doc:"how often it is repeated; absent: it is not"`
	BeginsAt  *time.Time       `json:"begins_at,omitempty" doc:"not before, if it is repeated"`

	// Only of one that is asked for by itself.
	Now      *BenchmarkNow   `json:"now,omitempty" doc:"what runs; absent while nothing does, and in lists"`
	Left     float64         `json:"left_seconds,omitempty" doc:"how long it will take about, once its job runs; absent in lists"`
	Steps    map[string]int  `json:"steps,omitempty" doc:"how many steps of rounds that count are in each state; absent in lists"`
	Cautions []string        `json:"cautions,omitempty" doc:"what values depend on beside the nodes, such as that these are emulated in software; absent in lists"`
	Problems []BenchmarkStep `json:"problems,omitempty" doc:"the first 20 steps that are not ok, without samples; a recipe that is skipped for one reason is there once; absent in lists"`
}

// BenchmarkNow is what a run does at the moment.
type BenchmarkNow struct {
	Round  int      `json:"round" doc:"from 0"`
	Task   string   `json:"task" doc:"the task that runs the round"`
	Phase  Phase    `json:"phase" words:"task phases"`
	Reason string   `json:"reason,omitempty" doc:"why the task is in its phase"`
	Nodes  []string `json:"nodes,omitempty"`

	Recipe     string            `json:"recipe,omitempty" doc:"which runs; absent while it is not known"`
	Parameters map[string]string `json:"parameters,omitempty"`
}

// BenchmarkStep is what became of a recipe, with one value for each of its parameters, in a round.
type BenchmarkStep struct {
	Round      int               `json:"round" doc:"from 0"`
	Step       int               `json:"step" doc:"its number in the suite, from 0; with the round it is one of the run's"`
	Recipe     string            `json:"recipe"`
	Parameters map[string]string `json:"parameters,omitempty"`
	State      string            `json:"state" enum:"ok,invalid,failed,timed-out,lost,skipped,not-run" doc:"values count only of those that are ok"`
	Why        string            `json:"reason,omitempty" doc:"why it ended so"`
	Seconds    float64           `json:"seconds" doc:"how long it ran"`
	Broken     bool              `json:"broken,omitempty" doc:"its round does not count, nor do its values"`
	Samples    []BenchmarkSample `json:"samples,omitempty"`
}

// BenchmarkRound is a round that has ended.
type BenchmarkRound struct {
	Round     int               `json:"round" doc:"from 0"`
	State     TaskOutcome       `json:"state" enum:"ok,failed,timed-out,cancelled,lost" doc:"as its job ended"`
	Why       string            `json:"reason,omitempty" doc:"as the scheduler says"`
	Disturbed string            `json:"disturbed,omitempty" doc:"by what, from outside: stolen time, throttling, link errors"`
	Counts    bool              `json:"counts" doc:"it came to its end undisturbed"`
	Began     time.Time         `json:"began_at"`
	Ended     time.Time         `json:"ended_at"`
	Nodes     map[string]string `json:"nodes,omitempty" doc:"where it ran, by node, the machine"`

	Before map[string]map[string]string `json:"before,omitempty" doc:"what its nodes said of themselves before its steps"`
	After  map[string]map[string]string `json:"after,omitempty" doc:"the part of it that changes, after its steps"`
}

// BenchmarkSample is one value that was measured.
type BenchmarkSample struct {
	Quantity string            `json:"quantity"`
	Labels   map[string]string `json:"labels,omitempty" doc:"what divides the quantity, such as the size of a message"`
	Node     string            `json:"node,omitempty" doc:"absent: it is of all nodes together"`
	Value    float64           `json:"value"`
	Unit     string            `json:"unit"`
	Better   string            `json:"better" enum:"higher,lower"`
}

// BenchmarkSeries is one quantity over all rounds that count.
type BenchmarkSeries struct {
	Step       int               `json:"step" doc:"number of the step in the suite, from 0"`
	Recipe     string            `json:"recipe"`
	Quantity   string            `json:"quantity"`
	Parameters map[string]string `json:"parameters,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Unit       string            `json:"unit"`
	Better     string            `json:"better" enum:"higher,lower"`
	N          int               `json:"n" doc:"how many rounds have a value"`
	Median     float64           `json:"median" doc:"of the rounds' values, each the median of what the round has measured"`
	Interval   *Interval         `json:"interval,omitempty" doc:"of the median; fewer than six rounds have none"`
	Min        float64           `json:"min"`
	Lower      float64           `json:"lower" doc:"quartile"`
	Upper      float64           `json:"upper" doc:"quartile"`
	Max        float64           `json:"max"`
	MAD        float64           `json:"mad" doc:"median distance from the median"`
	Rounds     []RoundValue      `json:"rounds"`
	Nodes      []NodeValue       `json:"nodes,omitempty" doc:"where each value is of one node: the slowest first"`
}

// Interval holds the true value in 95 of 100 cases.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// RoundValue is the median of what a round has measured.
type RoundValue struct {
	Round   int     `json:"round"`
	Value   float64 `json:"value"`
	Samples int     `json:"samples"`
}

// NodeValue is the median of all that was measured on a node.
type NodeValue struct {
	Node    string  `json:"node"`
	Value   float64 `json:"value"`
	Samples int     `json:"samples"`
}

// ListBenchmarksInput is what ListBenchmarks takes.
type ListBenchmarksInput struct {
	Cluster string `query:"cluster" doc:"a cluster's name, or its ID; also of one that is gone" maxLength:"130"`
	Suite   string `query:"suite" doc:"only of this suite" maxLength:"40"`
	Page
}

// BenchmarkRef is a run in a path.
type BenchmarkRef struct {
	Benchmark string `path:"benchmark" doc:"its ID" maxLength:"60"`
}

// ListOfBenchmarkInput is what lists of a run's parts take.
type ListOfBenchmarkInput struct {
	BenchmarkRef
	Page
}

// GetBenchmarkOutputInput is what GetBenchmarkOutput takes.
type GetBenchmarkOutputInput struct {
	BenchmarkRef
	Round int `query:"round" minimum:"0" maximum:"1000"`
	Step  int `query:"step" minimum:"0" maximum:"1000"`
}

// BenchmarkOutput is what a step has written, of each text the first MiB at most.
type BenchmarkOutput struct {
	Text  string            `json:"text" doc:"what its command wrote"`
	Files map[string]string `json:"files,omitempty" doc:"files of its folder that its values are read from"`
}

// CompareBenchmarksInput is what CompareBenchmarks takes.
type CompareBenchmarksInput struct {
	BenchmarkRef
	With   string  `query:"with" doc:"the run that is side B; default: its peer" maxLength:"60"`
	Margin float64 `query:"margin" doc:"by how much B may be off and still be equal" default:"0.02" minimum:"0" maximum:"1"`
}

// BenchmarkComparison is one run beside another.
type BenchmarkComparison struct {
	A          Benchmark          `json:"a"`
	B          Benchmark          `json:"b"`
	Paired     bool               `json:"paired" doc:"their rounds were done in turns: what drifts meanwhile drifts for both"`
	Margin     float64            `json:"margin"`
	Quantities []ComparedQuantity `json:"quantities"`
	Failures   BenchmarkFailures  `json:"failures"`
}

// BenchmarkFailures are steps that are neither ok nor skipped, of all that ran in rounds that count.
type BenchmarkFailures struct {
	A   int     `json:"a"`
	OfA int     `json:"of_a"`
	B   int     `json:"b"`
	OfB int     `json:"of_b"`
	P   float64 `json:"p" doc:"how likely so large a difference is where sides fail alike: Fisher's exact test"`
}

// ComparedQuantity is one quantity on both sides.
type ComparedQuantity struct {
	Recipe     string            `json:"recipe"`
	Quantity   string            `json:"quantity"`
	Parameters map[string]string `json:"parameters,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Unit       string            `json:"unit"`
	Direction  string            `json:"direction" enum:"higher,lower" doc:"which values are better"`
	A          float64           `json:"a" doc:"median of side A"`
	B          float64           `json:"b" doc:"median of side B"`
	N          int               `json:"n" doc:"pairs; where sides were not measured in turns, values of the side that has fewer"`
	Ratio      float64           `json:"ratio" doc:"of B to A: the Hodges–Lehmann estimate"`
	Interval   *Interval         `json:"interval,omitempty" doc:"of the ratio, with 95 % confidence; absent: too few values"`
	P          float64           `json:"p" doc:"of the signed-rank test of pairs, else of that of Mann and Whitney"`
	Adjusted   float64           `json:"adjusted" doc:"p as one of all that are compared here, after Benjamini and Hochberg"`
	Verdict    string            `json:"verdict" enum:"differs,equal,not decided,not comparable"`
	Better     string            `json:"better,omitempty" enum:"a,b" doc:"the better side, where they differ"`
	Why        string            `json:"reason,omitempty" doc:"why they are not comparable"`
	Pairs      []BenchmarkPair   `json:"pairs,omitempty"`
}

// BenchmarkPair is what both sides have measured in the same round.
type BenchmarkPair struct {
	Round int     `json:"round"`
	A     float64 `json:"a"`
	B     float64 `json:"b"`
}
