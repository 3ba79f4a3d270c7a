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
CREATE TABLE told (
  subject TEXT   NOT NULL,   -- ID of the cluster, or name of the project
  what    TEXT   NOT NULL,   -- 'budget', 'project budget 2026-11' …
  percent BIGINT NOT NULL,
  PRIMARY KEY (subject, what)
);
