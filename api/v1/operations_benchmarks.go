package v1

import "net/http"

// Operations on benchmarks.
var (
	ListSuites = Op[ListSuitesInput, List[Suite]]{Endpoint{ID: "list-suites", Method: http.MethodGet, Path: "/v1/suites",
		Summary: "List suites of benchmarks, and recipes that can be run alone",
		Tag:     "benchmarks", Action: "browse", Errors: []int{404, 409},
		Commands: []string{"bench list", "bench run"}}}
	RunBenchmark = Op[RunBenchmarkInput, Benchmark]{Endpoint{ID: "run-benchmark", Method: http.MethodPost,
		Path:    "/v1/clusters/{cluster}/benchmarks",
		Summary: "Run a suite on a cluster as yourself, by its scheduler",
		Description: "Each round is a job that has its nodes for itself. One whose job is lost is done again, three in a run at " +
			"most. What was measured is kept when the cluster is gone. With a second cluster there are two runs, whose " +
			"rounds are done in turns: the answer is the first, and names the other as its peer.",
		Tag: "benchmarks", Action: "enter", Status: http.StatusAccepted, Errors: []int{403, 404, 409, 422}, Once: true,
		Example:  `{"suite": "quick", "rounds": 7}`,
		Commands: []string{"bench run", "bench compare"}}}
	ListBenchmarks = Op[ListBenchmarksInput, List[Benchmark]]{Endpoint{ID: "list-benchmarks", Method: http.MethodGet,
		Path:    "/v1/benchmarks",
		Summary: "List runs of suites, the newest first, of clusters that are gone, too",
		Tag:     "benchmarks", Action: "browse", Errors: []int{404},
		Commands: []string{"bench runs"}}}
	GetBenchmark = Op[BenchmarkRef, Benchmark]{Endpoint{ID: "get-benchmark", Method: http.MethodGet,
		Path:    "/v1/benchmarks/{benchmark}",
		Summary: "Show how far a run is, or how it has ended",
		Tag:     "benchmarks", Action: "see", Errors: []int{404},
		Commands: []string{"bench show", "bench run", "bench export", "bench report"}}}
	ListBenchmarkSeries = Op[ListOfBenchmarkInput, List[BenchmarkSeries]]{Endpoint{ID: "list-benchmark-series",
		Method: http.MethodGet, Path: "/v1/benchmarks/{benchmark}/series",
		Summary: "List what a run has measured so far, a quantity each: medians, intervals, and the values of its rounds",
		Tag:     "benchmarks", Action: "see", Errors: []int{404},
		Commands: []string{"bench show", "bench run", "bench export", "bench report"}}}
	ListBenchmarkRounds = Op[ListOfBenchmarkInput, List[BenchmarkRound]]{Endpoint{ID: "list-benchmark-rounds",
		Method: http.MethodGet, Path: "/v1/benchmarks/{benchmark}/rounds",
		Summary: "List the rounds of a run, where each ran, and what its nodes said of themselves",
		Tag:     "benchmarks", Action: "see", Errors: []int{404},
		Commands: []string{"bench show", "bench run", "bench export", "bench report"}}}
	ListBenchmarkSteps = Op[ListOfBenchmarkInput, List[BenchmarkStep]]{Endpoint{ID: "list-benchmark-steps",
		Method: http.MethodGet, Path: "/v1/benchmarks/{benchmark}/steps",
		Summary: "List the steps of a run's rounds with every sample",
		Tag:     "benchmarks", Action: "see", Errors: []int{404},
		Commands: []string{"bench show", "bench run", "bench export", "bench report"}}}
	GetBenchmarkOutput = Op[GetBenchmarkOutputInput, BenchmarkOutput]{Endpoint{ID: "get-benchmark-output", Method: http.MethodGet,
		Path:    "/v1/benchmarks/{benchmark}/output",
		Summary: "Read what a step of a run of yours has written",
		Tag:     "benchmarks", Action: "see", Errors: []int{403, 404},
		Commands: []string{"bench output"}}}
	CompareBenchmarks = Op[CompareBenchmarksInput, BenchmarkComparison]{Endpoint{ID: "compare-benchmarks", Method: http.MethodGet,
		Path:    "/v1/benchmarks/{benchmark}/comparison",
		Summary: "Compare a run with another, quantity by quantity: in pairs where their rounds were done in turns",
		Tag:     "benchmarks", Action: "see", Errors: []int{404, 422},
		Commands: []string{"bench compare", "bench report"}}}
	CancelBenchmark = Op[BenchmarkRef, Benchmark]{Endpoint{ID: "cancel-benchmark", Method: http.MethodDelete,
		Path:    "/v1/benchmarks/{benchmark}",
		Summary: "Cancel a run of yours, or of a project that you own; what it has measured is kept",
		Tag:     "benchmarks", Action: "own", Status: http.StatusAccepted, Errors: []int{403, 404},
		Commands: []string{"bench cancel"}}}
	ListClusterTrends = Op[ListClusterTrendsInput, List[BenchmarkTrend]]{Endpoint{ID: "list-cluster-trends",
		Method: http.MethodGet, Path: "/v1/clusters/{cluster}/trends",
		Summary: "List how what runs have measured on a cluster went on over time, a quantity each, and what has changed",
		Tag:     "benchmarks", Action: "see", Errors: []int{404},
		Commands: []string{"bench history"}}}
	ListTrends = Op[ListTrendsInput, List[BenchmarkTrend]]{Endpoint{ID: "list-trends", Method: http.MethodGet, Path: "/v1/trends",
		Summary: "List how what runs of all projects have measured on a machine, or on a class, went on over time",
		Tag:     "benchmarks", Action: "survey", Errors: []int{422},
		Commands: []string{"bench history"}}}
	ListChanges = Op[Nothing, List[BenchmarkChange]]{Endpoint{ID: "list-changes", Method: http.MethodGet, Path: "/v1/changes",
		Summary: "List the last 1000 changes of what runs have measured, the newest first: of your projects' clusters; for " +
			"operators, of machines and classes, too",
		Tag: "benchmarks", Action: "browse",
		Commands: []string{"bench changes"}}}
	AcceptChange = Op[ChangeRef, BenchmarkChange]{Endpoint{ID: "accept-change", Method: http.MethodPost,
		Path:    "/v1/changes/{change}/accept",
		Summary: "Take a change, and those before it of the same cluster, machine or class, as it is: it is no alarm any more",
		Description: "Changes of clusters are their project's; those of machines and classes are the operators'. A second call " +
			"changes nothing.",
		Tag: "benchmarks", Action: "own", Errors: []int{403, 404},
		Commands: []string{"bench accept"}}}
)
