-- Jobs that have ended, as the heads of clusters told. Rows stay when their cluster is gone, and hold its names.

CREATE TABLE job (
  cluster_id TEXT   NOT NULL,
  number     BIGINT NOT NULL,                -- the scheduler's, of this cluster
  ended      BIGINT NOT NULL,                -- one that was queued again ends more than once
  project    TEXT   NOT NULL,
  cluster    TEXT   NOT NULL,
  id         TEXT   NOT NULL,                -- as users write it: 12; 12_3 of an array
  account    TEXT   NOT NULL,                -- the user that it ran as
  queue      TEXT   NOT NULL,
  qos        TEXT   NOT NULL,
  name       TEXT   NOT NULL,
  nodes      TEXT   NOT NULL,                -- in short: n[1-3]
  node_count BIGINT NOT NULL CHECK (node_count >= 0),
  cpus       BIGINT NOT NULL CHECK (cpus >= 0),
  gpus       BIGINT NOT NULL CHECK (gpus >= 0),
  memory     BIGINT NOT NULL CHECK (memory >= 0), -- MiB on all nodes; 0: not counted
  submitted  BIGINT NOT NULL,
  began      BIGINT,                         -- NULL: it never ran
  outcome    TEXT   NOT NULL CHECK (outcome IN ('completed', 'failed', 'timed-out', 'out-of-memory', 'cancelled', 'node-failed',
    'preempted', 'requeued')),
  exit_code  BIGINT NOT NULL,
  signal     BIGINT NOT NULL,
  cpu_ms     BIGINT CHECK (cpu_ms >= 0),     -- NULL: what it used is not known
  peak       BIGINT CHECK (peak >= 0),       -- MiB on all nodes
  cost       BIGINT NOT NULL CHECK (cost >= 0), -- millionths of the currency
  currency   TEXT   NOT NULL,                -- '' where the site has no prices
  PRIMARY KEY (cluster_id, number, ended),
  CHECK (began <= ended),
  CHECK ((cpu_ms IS NULL) = (peak IS NULL))
);
CREATE INDEX job_by_end ON job (ended);
CREATE INDEX job_of_project ON job (project, ended);

-- What the head of a cluster told last of its jobs. The row ends with the cluster.
CREATE TABLE told_jobs (
  cluster_id TEXT   PRIMARY KEY REFERENCES cluster (id),
  until      BIGINT NOT NULL,                -- all that ended before are in job
  current    TEXT   NOT NULL                 -- JSON: those that have not ended; '': it told of none yet
);

-- CPUs of the node: a job is charged for its part of them. 0: not known.
ALTER TABLE usage ADD COLUMN cpus BIGINT NOT NULL DEFAULT 0;
