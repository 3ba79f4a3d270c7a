-- Runs of benchmarks. What they have found outlives their clusters.

CREATE TABLE benchmark (
  id         TEXT PRIMARY KEY,
  project    TEXT   NOT NULL REFERENCES project (name),
  cluster_id TEXT   NOT NULL,
  cluster    TEXT   NOT NULL,                -- its name
  account    TEXT   NOT NULL,                -- the user whom it runs as, and who asked for it
  plan       TEXT   NOT NULL,                -- JSON: suite and recipes as they were, the nodes' shape, rounds
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
