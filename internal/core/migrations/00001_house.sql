-- Times are milliseconds since the Unix epoch by the database's clock. JSON is text.
-- The word life in double braces stands for the columns of every entity with a lifecycle; see migrate.go.

CREATE TABLE project (
  name       TEXT PRIMARY KEY,
  recorded   BIGINT NOT NULL DEFAULT 0 CHECK (recorded IN (0, 1)), -- what terminals show is kept
  created_at BIGINT NOT NULL
);

CREATE TABLE machine (
  id        TEXT PRIMARY KEY,
  name      TEXT NOT NULL UNIQUE,
  substrate TEXT NOT NULL,
  facts     TEXT NOT NULL,
  desired   TEXT NOT NULL CHECK (desired IN ('service', 'maintenance', 'removed')),
  inspect   BIGINT NOT NULL DEFAULT 0, -- inspections asked for
  inspected BIGINT NOT NULL DEFAULT 0, -- inspections answered
  suspect   TEXT   NOT NULL DEFAULT '', -- why the last node on it failed, until an inspection passed
  {{life}},
  CHECK (phase IN ('enrolled', 'inspecting', 'available', 'reserved', 'in-use', 'releasing', 'maintenance', 'quarantined', 'removed'))
);

CREATE TABLE cluster (
  id         TEXT PRIMARY KEY,
  project    TEXT NOT NULL REFERENCES project (name),
  name       TEXT NOT NULL,
  spec       TEXT NOT NULL,                      -- resolved, JSON
  image      TEXT NOT NULL,                      -- digest
  desired    TEXT NOT NULL CHECK (desired IN ('present', 'paused', 'deleted')),
  generation BIGINT NOT NULL,                    -- of the spec; every accepted change adds one
  reached    BIGINT NOT NULL DEFAULT 0,          -- the newest generation that was wholly ready
  revision   BIGINT NOT NULL DEFAULT 1,          -- of what the agents are told
  drain_for  BIGINT NOT NULL DEFAULT 0,          -- ms a draining node may wait for its jobs
  munge_key  TEXT NOT NULL,                      -- base64; secret
  receipt    TEXT NOT NULL DEFAULT '',           -- JSON, once deleted
  short      TEXT NOT NULL DEFAULT '',           -- why missing nodes cannot come now
  created_at BIGINT NOT NULL,
  created_by TEXT NOT NULL,
  {{life}},
  CHECK (phase IN ('pending', 'provisioning', 'ready', 'degraded', 'pausing', 'paused', 'resuming', 'deleting', 'deleted'))
);
CREATE UNIQUE INDEX cluster_name ON cluster (project, name) WHERE phase <> 'deleted';

-- A name keeps its address for the cluster's life, however often the node behind it changes.
CREATE TABLE seat (
  cluster_id TEXT NOT NULL REFERENCES cluster (id),
  name       TEXT NOT NULL,
  slot       BIGINT NOT NULL,
  PRIMARY KEY (cluster_id, name),
  UNIQUE (cluster_id, slot)
);

CREATE TABLE node (
  id          TEXT PRIMARY KEY,
  cluster_id  TEXT NOT NULL REFERENCES cluster (id),
  name        TEXT NOT NULL,
  role        TEXT NOT NULL CHECK (role IN ('head', 'compute')),
  queue       TEXT NOT NULL,
  class       TEXT NOT NULL,
  machine_id  TEXT UNIQUE REFERENCES machine (id), -- one owner: no two nodes, ever
  machine     TEXT NOT NULL,                       -- its name, kept when the node is gone
  desired     TEXT NOT NULL CHECK (desired IN ('present', 'absent')),
  boot        BIGINT NOT NULL DEFAULT 0,
  joined_boot BIGINT NOT NULL DEFAULT 0,
  joined_key  TEXT NOT NULL DEFAULT '',            -- fingerprint of the key that used the boot's token
  drain_until BIGINT NOT NULL DEFAULT 0,
  created_at  BIGINT NOT NULL,
  {{life}},
  CHECK (phase IN ('pending', 'attaching', 'booting', 'joining', 'testing', 'ready', 'draining', 'failed', 'releasing', 'gone')),
  CHECK ((phase = 'gone') = (machine_id IS NULL)),
  FOREIGN KEY (cluster_id, name) REFERENCES seat (cluster_id, name)
);
CREATE UNIQUE INDEX node_name ON node (cluster_id, name) WHERE phase <> 'gone';

-- What agents and drivers saw. Written by monitor alone.
CREATE TABLE observed (
  node_id      TEXT PRIMARY KEY REFERENCES node (id),
  boot         BIGINT NOT NULL,
  seen_at      BIGINT NOT NULL,
  revision     BIGINT NOT NULL,
  checks       TEXT NOT NULL,
  facts        TEXT NOT NULL DEFAULT '{}',
  slurm        TEXT NOT NULL DEFAULT ''             -- the head's row about this node, JSON
);

CREATE TABLE event (
  seq        BIGINT PRIMARY KEY,
  at         BIGINT NOT NULL,
  type       TEXT NOT NULL,
  project    TEXT NOT NULL,
  cluster_id TEXT NOT NULL,
  cluster    TEXT NOT NULL,
  node       TEXT NOT NULL,
  machine    TEXT NOT NULL,
  phase      TEXT NOT NULL,
  text       TEXT NOT NULL
);
CREATE INDEX event_cluster ON event (cluster_id, seq);

-- One row: the last event's number. Its lock makes events appear in the order of their numbers, so that no watcher
-- can miss one that commits late.
CREATE TABLE event_head (one BIGINT PRIMARY KEY CHECK (one = 1), seq BIGINT NOT NULL);
INSERT INTO event_head (one, seq) VALUES (1, 0);

CREATE TABLE idempotency (
  identity   TEXT NOT NULL,
  key        TEXT NOT NULL,
  request    TEXT NOT NULL,                        -- hash of method, path and body
  status     BIGINT NOT NULL,
  answer     TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (identity, key)
);

-- Authorities and keys of the controller itself; every replica uses the same.
CREATE TABLE secret (name TEXT PRIMARY KEY, value TEXT NOT NULL);

CREATE INDEX machine_wake ON machine (wake_at);
CREATE INDEX cluster_wake ON cluster (wake_at);
CREATE INDEX node_wake ON node (wake_at);
