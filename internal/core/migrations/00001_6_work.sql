-- What nodes and /homes did, from instant to instant, and at which price. Rows stay when their cluster is gone, and hold
-- its names.
CREATE TABLE usage (
  subject    TEXT   NOT NULL,            -- ID of the node; of the cluster, for its /home
  kind       TEXT   NOT NULL CHECK (kind IN ('node', 'home')),
  project    TEXT   NOT NULL,
  cluster_id TEXT   NOT NULL,
  cluster    TEXT   NOT NULL,
  node       TEXT   NOT NULL,            -- '' for a /home
  queue      TEXT   NOT NULL,            -- '' for the head and for a /home
  class      TEXT   NOT NULL,
  machine    TEXT   NOT NULL,
  state      TEXT   NOT NULL CHECK (state IN ('preparing', 'ready', 'draining', 'failed', 'releasing', 'stored')),
  quantity   BIGINT NOT NULL CHECK (quantity >= 0), -- 1 for a node; MiB of a /home
  rate       BIGINT NOT NULL CHECK (rate >= 0),     -- millionths of the currency: of a node per hour, of a /home per GiB and month
  currency   TEXT   NOT NULL,
  charges    TEXT   NOT NULL,            -- JSON: the states in which the rate is charged
  charged    BIGINT NOT NULL,            -- 1: this state is one of them
  cores      BIGINT NOT NULL,
  cpus       BIGINT NOT NULL DEFAULT 0,  -- of the node: a job is charged for its part of them; 0: not known
  gpus       BIGINT NOT NULL,
  follows    BIGINT,                     -- end of the row before; NULL for the first of a subject
  began      BIGINT NOT NULL,
  ended      BIGINT,                     -- NULL while it goes on
  PRIMARY KEY (subject, began),
  CHECK (ended > began),
  -- Together these make the rows of a subject one chain without gap or overlap: each but the first begins at the instant at
  -- which another ends, no two begin or end together, one is first, and at most one goes on.
  UNIQUE (subject, ended),
  CHECK (follows = began),
  FOREIGN KEY (subject, follows) REFERENCES usage (subject, ended)
);
CREATE UNIQUE INDEX usage_first ON usage (subject) WHERE follows IS NULL;
CREATE UNIQUE INDEX usage_open ON usage (subject) WHERE ended IS NULL;
CREATE INDEX usage_cluster ON usage (cluster_id, began);
CREATE INDEX usage_project ON usage (project, ended);

-- How much of which limit was told to users, so that each is told once.
CREATE TABLE limit_notice (
  subject TEXT   NOT NULL,   -- ID of the cluster, or name of the project
  what    TEXT   NOT NULL,   -- 'budget', 'project budget 2026-11' …
  percent BIGINT NOT NULL,
  PRIMARY KEY (subject, what)
);

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
CREATE TABLE cluster_jobs (
  cluster_id TEXT   PRIMARY KEY REFERENCES cluster (id),
  until      BIGINT NOT NULL,                -- all that ended before are in job
  current    TEXT   NOT NULL                 -- JSON: those that have not ended; '': it told of none yet
);

-- Tasks: programs that users have run on their clusters from outside, and those of Muster's own.
CREATE TABLE task (
  id         TEXT PRIMARY KEY,
  cluster_id TEXT   NOT NULL REFERENCES cluster (id),
  account    TEXT   NOT NULL,                -- the user whom it runs as, and who asked for it
  origin     TEXT   NOT NULL DEFAULT '' CHECK (origin IN ('', 'pause')), -- what asked for it; '': a user
  work       TEXT   NOT NULL,                -- JSON: what is to run, where, and for how long
  cancel     BIGINT NOT NULL DEFAULT 0 CHECK (cancel IN (0, 1)),
  boot       BIGINT NOT NULL DEFAULT 0,      -- of the head that was told of it first
  said       TEXT   NOT NULL DEFAULT '',     -- JSON: what the head said of it last
  outcome    TEXT   NOT NULL DEFAULT '' CHECK (outcome IN ('', 'ok', 'failed', 'timed-out', 'cancelled', 'lost')),
  kept       BIGINT NOT NULL DEFAULT 0,      -- bytes of its output that came
  created_at BIGINT NOT NULL,
  {{life}},
  CHECK (phase IN ('pending', 'queued', 'running', 'ended')),
  CHECK ((outcome <> '') = (phase = 'ended'))
);
CREATE INDEX task_wake ON task (wake_at);
CREATE INDEX task_of_cluster ON task (cluster_id, created_at);

-- What a task wrote, in pieces; base64, since it may hold any byte.
CREATE TABLE task_output (
  task_id TEXT   NOT NULL REFERENCES task (id),
  start   BIGINT NOT NULL,                   -- bytes before it
  bytes   TEXT   NOT NULL,
  PRIMARY KEY (task_id, start)
);
