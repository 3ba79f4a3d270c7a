-- What runs of benchmarks came to, over time, and runs that are repeated.

ALTER TABLE benchmark ADD COLUMN begin_at BIGINT NOT NULL DEFAULT 0; -- not before
ALTER TABLE benchmark ADD COLUMN every BIGINT NOT NULL DEFAULT 0 CHECK (every >= 0); -- ms; 0: once

-- What values must have in common to be compared over time.
CREATE TABLE benchmark_series (
  id   TEXT PRIMARY KEY,                     -- digest of what
  what TEXT NOT NULL                         -- JSON: recipe, quantity, parameters, labels, unit, nodes
);

-- The median of a run: of all its nodes, and of each machine where a value is of one node.
CREATE TABLE benchmark_point (
  benchmark_id TEXT   NOT NULL REFERENCES benchmark (id) ON DELETE CASCADE,
  series     TEXT   NOT NULL REFERENCES benchmark_series (id),
  machine    TEXT   NOT NULL,                -- its name; '': all nodes
  cluster_id TEXT   NOT NULL,
  at         BIGINT NOT NULL,                -- when it had been measured
  value      DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (benchmark_id, series, machine)
);
CREATE INDEX benchmark_point_series ON benchmark_point (series, machine, at);
CREATE INDEX benchmark_point_cluster ON benchmark_point (cluster_id, series, at);

-- A change that was told: a series of a cluster, of a machine or, with neither, of a class of machines has another level.
CREATE TABLE benchmark_change (
  id         TEXT PRIMARY KEY,
  series     TEXT   NOT NULL REFERENCES benchmark_series (id),
  cluster_id TEXT   NOT NULL,                -- '': it is not of one
  machine    TEXT   NOT NULL,                -- its name; '': it is not of one
  benchmark_id TEXT NOT NULL REFERENCES benchmark (id) ON DELETE CASCADE, -- the first run of the new level
  at         BIGINT NOT NULL,                -- when that had measured it
  was        DOUBLE PRECISION NOT NULL,      -- medians of both levels
  became     DOUBLE PRECISION NOT NULL,
  causes     TEXT   NOT NULL,                -- JSON: what else changed then, in words
  told_at    BIGINT NOT NULL,
  accepted   TEXT   NOT NULL DEFAULT '',     -- by whom: it is no alarm any more
  CHECK (cluster_id = '' OR machine = '')
);
CREATE INDEX benchmark_change_series ON benchmark_change (series, cluster_id, machine, at);
