-- Who measures on a host: runs of benchmarks on the same would measure each other.

CREATE TABLE benchmark_host (
  host         TEXT PRIMARY KEY,             -- ID of a whole machine, or of the host of guests; '': the controller's own
  benchmark_id TEXT NOT NULL REFERENCES benchmark (id) ON DELETE CASCADE -- a round of it is under way there
);
CREATE INDEX benchmark_host_of ON benchmark_host (benchmark_id);
