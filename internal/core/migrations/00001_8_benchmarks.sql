-- Runs of benchmarks. What they have found outlives their clusters.
CREATE TABLE benchmark (
  id         TEXT PRIMARY KEY,
  project    TEXT   NOT NULL REFERENCES project (name),
  cluster_id TEXT   NOT NULL,
  cluster    TEXT   NOT NULL,                -- its name
  account    TEXT   NOT NULL,                -- the user whom it runs as, and who asked for it
  suite      TEXT   NOT NULL DEFAULT '',     -- its name, which is in the plan, too
  plan       TEXT   NOT NULL,                -- JSON: suite and recipes as they were, the nodes' shape, rounds
  peer       TEXT   NOT NULL DEFAULT '',     -- the run whose rounds are done in turns with its own; '': there is none
  begin_at   BIGINT NOT NULL DEFAULT 0,      -- not before
  every      BIGINT NOT NULL DEFAULT 0 CHECK (every >= 0), -- ms; 0: once
  kept       BIGINT NOT NULL DEFAULT 0,      -- bytes, about: its plan, outputs and values
  cancel     BIGINT NOT NULL DEFAULT 0 CHECK (cancel IN (0, 1)),
  task       TEXT   NOT NULL DEFAULT '',     -- of the round that is under way
  outcome    TEXT   NOT NULL DEFAULT '' CHECK (outcome IN ('', 'ok', 'incomplete', 'cancelled')),
  created_at BIGINT NOT NULL,
  {{life}},
  CHECK (phase IN ('pending', 'running', 'ended')),
  CHECK ((outcome <> '') = (phase = 'ended'))
);
CREATE INDEX benchmark_wake ON benchmark (wake_at);
CREATE INDEX benchmark_of_project ON benchmark (project, created_at);

-- One round each: every step of the suite once, in one job.
CREATE TABLE benchmark_round (
  benchmark_id TEXT   NOT NULL REFERENCES benchmark (id) ON DELETE CASCADE,
  number   BIGINT NOT NULL,                  -- from 0
  state    TEXT   NOT NULL CHECK (state IN ('ok', 'failed', 'timed-out', 'cancelled', 'lost')), -- as its job ended
  why      TEXT   NOT NULL,
  nodes    TEXT   NOT NULL,                  -- JSON: by name, the machine
  looks    TEXT   NOT NULL DEFAULT '',       -- what its nodes said of themselves, before and after: base64 of gzip of JSON; '': nothing
  disturbed TEXT  NOT NULL DEFAULT '',       -- what disturbed it from outside, in a sentence; '': nothing is known
  began    BIGINT NOT NULL,
  ended    BIGINT NOT NULL,
  PRIMARY KEY (benchmark_id, number)
);

-- What became of a step in a round.
CREATE TABLE benchmark_step (
  benchmark_id TEXT   NOT NULL REFERENCES benchmark (id) ON DELETE CASCADE,
  round    BIGINT NOT NULL,
  number   BIGINT NOT NULL,                  -- in the plan's steps
  state    TEXT   NOT NULL CHECK (state IN ('ok', 'invalid', 'failed', 'timed-out', 'lost', 'skipped', 'not-run')),
  why      TEXT   NOT NULL,
  took     BIGINT NOT NULL,                  -- µs
  output   TEXT   NOT NULL,                  -- base64 of gzip: JSON, by file; '': none was kept
  PRIMARY KEY (benchmark_id, round, number)
);

-- Every value, raw. Those of a step that is not ok are kept, and count nowhere.
CREATE TABLE benchmark_sample (
  benchmark_id TEXT   NOT NULL REFERENCES benchmark (id) ON DELETE CASCADE,
  round    BIGINT NOT NULL,
  step     BIGINT NOT NULL,
  place    BIGINT NOT NULL,                  -- in the step's output
  quantity TEXT   NOT NULL,
  labels   TEXT   NOT NULL,                  -- JSON
  node     TEXT   NOT NULL,                  -- '': of all
  value    DOUBLE PRECISION NOT NULL,
  unit     TEXT   NOT NULL,
  better   TEXT   NOT NULL CHECK (better IN ('higher', 'lower')),
  PRIMARY KEY (benchmark_id, round, step, place)
);

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

-- Who measures on a host: runs of benchmarks on the same would measure each other.
CREATE TABLE benchmark_host (
  host         TEXT PRIMARY KEY,             -- ID of a whole machine, or of the host of guests; '': the controller's own
  benchmark_id TEXT NOT NULL REFERENCES benchmark (id) ON DELETE CASCADE -- a round of it is under way there
);
CREATE INDEX benchmark_host_of ON benchmark_host (benchmark_id);
