package v1

import "net/http"

// Operations on benchmarks.
var (
	ListSuites = get[ListSuitesInput, List[Suite]]("list-suites", "/v1/suites", Endpoint{
		Summary: "List suites of benchmarks, and recipes that can be run alone", Tag: "benchmarks", Action: "browse",
		Errors: []int{404, 409}, Commands: []string{"bench list", "bench run"}})
	RunBenchmark = post[RunBenchmarkInput, Benchmark]("run-benchmark", "/v1/clusters/{cluster}/benchmarks", Endpoint{
		Summary: "Run a suite on a cluster as yourself, by its scheduler",
		Description: "Each round is a job that has its nodes for itself. One whose job is lost is done again, three in a run at " +
			"most. What was measured is kept when the cluster is gone. With a second cluster there are two runs, whose " +
			"rounds are done in turns: the answer is the first, and names the other as its peer.",
		Tag: "benchmarks", Action: "enter", Status: http.StatusAccepted, Errors: []int{403, 404, 409, 422}, Once: true,
		Example: `{"suite": "quick", "rounds": 7}`, Commands: []string{"bench run", "bench compare"}})
	ListBenchmarks = get[ListBenchmarksInput, List[Benchmark]]("list-benchmarks", "/v1/benchmarks", Endpoint{
		Summary: "List runs of suites, the newest first, of clusters that are gone, too", Tag: "benchmarks", Action: "browse",
		Errors: []int{404}, Commands: []string{"bench runs"}})
	GetBenchmark = get[BenchmarkRef, Benchmark]("get-benchmark", "/v1/benchmarks/{benchmark}", Endpoint{
		Summary: "Show how far a run is, or how it has ended", Tag: "benchmarks", Action: "see", Errors: []int{404},
		Commands: []string{"bench show", "bench run", "bench export", "bench report"}})
	ListBenchmarkSeries = get[ListOfBenchmarkInput, List[BenchmarkSeries]]("list-benchmark-series",
		"/v1/benchmarks/{benchmark}/series", Endpoint{
			Summary: "List what a run has measured so far, a quantity each: medians, intervals, and the values of its rounds",
			Tag:     "benchmarks", Action: "see", Errors: []int{404},
			Commands: []string{"bench show", "bench run", "bench export", "bench report"}})
	ListBenchmarkRounds = get[ListOfBenchmarkInput, List[BenchmarkRound]]("list-benchmark-rounds",
		"/v1/benchmarks/{benchmark}/rounds", Endpoint{
			Summary: "List the rounds of a run, where each ran, and what its nodes said of themselves", Tag: "benchmarks",
			Action: "see", Errors: []int{404}, Commands: []string{"bench show", "bench run", "bench export", "bench report"}})
	ListBenchmarkSteps = get[ListOfBenchmarkInput, List[BenchmarkStep]]("list-benchmark-steps",
		"/v1/benchmarks/{benchmark}/steps", Endpoint{
			Summary: "List the steps of a run's rounds with every sample", Tag: "benchmarks", Action: "see", Errors: []int{404},
			Commands: []string{"bench show", "bench run", "bench export", "bench report"}})
	GetBenchmarkOutput = get[GetBenchmarkOutputInput, BenchmarkOutput]("get-benchmark-output",
		"/v1/benchmarks/{benchmark}/output", Endpoint{
			Summary: "Read what a step of a run of yours has written", Tag: "benchmarks", Action: "see", Errors: []int{403, 404},
			Commands: []string{"bench output"}})
	CompareBenchmarks = get[CompareBenchmarksInput, BenchmarkComparison]("compare-benchmarks",
		"/v1/benchmarks/{benchmark}/comparison", Endpoint{
			Summary: "Compare a run with another, quantity by quantity: in pairs where their rounds were done in turns",
			Tag:     "benchmarks", Action: "see", Errors: []int{404, 422}, Commands: []string{"bench compare", "bench report"}})
	CancelBenchmark = del[BenchmarkRef, Benchmark]("cancel-benchmark", "/v1/benchmarks/{benchmark}", Endpoint{
		Summary: "Cancel a run of yours, or of a project that you own; what it has measured is kept", Tag: "benchmarks",
		Action: "own", Status: http.StatusAccepted, Errors: []int{403, 404}, Commands: []string{"bench cancel"}})
	ListClusterTrends = get[ListClusterTrendsInput, List[BenchmarkTrend]]("list-cluster-trends",
		"/v1/clusters/{cluster}/trends", Endpoint{
			Summary: "List how what runs have measured on a cluster went on over time, a quantity each, and what has changed",
			Tag:     "benchmarks", Action: "see", Errors: []int{404}, Commands: []string{"bench history"}})
	ListTrends = get[ListTrendsInput, List[BenchmarkTrend]]("list-trends", "/v1/trends", Endpoint{
		Summary: "List how what runs of all projects have measured on a machine, or on a class, went on over time",
		Tag:     "benchmarks", Action: "survey", Errors: []int{422}, Commands: []string{"bench history"}})
	ListChanges = get[Nothing, List[BenchmarkChange]]("list-changes", "/v1/changes", Endpoint{
		Summary: "List the last 1000 changes of what runs have measured, the newest first: of your projects' clusters; for " +
			"operators, of machines and classes, too",
		Tag: "benchmarks", Action: "browse", Commands: []string{"bench changes"}})
	AcceptChange = post[ChangeRef, BenchmarkChange]("accept-change", "/v1/changes/{change}/accept", Endpoint{
		Summary: "Take a change, and those before it of the same cluster, machine or class, as it is: it is no alarm any more",
		Description: "Changes of clusters are their project's; those of machines and classes are the operators'. A second call " +
			"changes nothing.",
		Tag: "benchmarks", Action: "own", Errors: []int{403, 404}, Commands: []string{"bench accept"}})
)
