CREATE TABLE cluster (
  id           TEXT PRIMARY KEY,
  project      TEXT NOT NULL REFERENCES project (name),
  name         TEXT NOT NULL,
  spec         TEXT NOT NULL,              -- resolved, JSON
  image        TEXT NOT NULL,              -- digest
  desired      TEXT NOT NULL CHECK (desired IN ('present', 'paused', 'deleted')),
  generation   BIGINT NOT NULL,            -- of the spec; every accepted change adds one
  reached      BIGINT NOT NULL DEFAULT 0,  -- the newest generation that was wholly ready
  revision     BIGINT NOT NULL DEFAULT 1,  -- of what the agents are told
  segment      BIGINT NOT NULL DEFAULT 0,  -- its number at the site, from which its nodes' MACs are made
  drain_for    BIGINT NOT NULL DEFAULT 0,  -- ms a draining node may wait for its jobs
  credential   TEXT NOT NULL CHECK (credential = '' OR credential LIKE 'sealed:%'), -- by which its daemons know one another
  credential_at BIGINT NOT NULL DEFAULT 0, -- when its credential was changed; 0: never
  snapshot     TEXT NOT NULL DEFAULT '',   -- that it was made from; '' for most
  short        TEXT NOT NULL DEFAULT '',   -- why missing nodes cannot come now
  receipt      TEXT NOT NULL DEFAULT '',   -- JSON, once deleted

  -- Elastic queues. JSON: queue → number of nodes that are wanted now, between its min and max; and queue → what is known of it,
  -- whatever nodes it has now: what they give to jobs, and which jobs it grew for in vain.
  targets      TEXT NOT NULL DEFAULT '{}',
  learned      TEXT NOT NULL DEFAULT '{}',

  -- What its nodes are to boot.
  aim          BIGINT NOT NULL DEFAULT 1,  -- the generation that last said it
  good         TEXT   NOT NULL DEFAULT '', -- JSON: what they booted when it was last wholly ready
  stopped      BIGINT NOT NULL DEFAULT 0,  -- the aim whose rollout has stopped by itself
  stopped_why  TEXT   NOT NULL DEFAULT '',

  -- Pauses. How long, in ms, jobs may run on when it pauses; 0: they are queued again at once; below 0: until they end.
  pause_wait   BIGINT NOT NULL DEFAULT 0,
  keeps_memory BIGINT NOT NULL DEFAULT 0 CHECK (keeps_memory IN (0, 1)), -- its nodes sleep instead of leaving their machines
  held         BIGINT NOT NULL DEFAULT 0,  -- bytes that it holds while it is paused: /home and its head's state

  -- Its lease.
  starts_at    BIGINT NOT NULL DEFAULT 0,  -- when its nodes are to be there
  ends_at      BIGINT NOT NULL DEFAULT 0 CHECK (ends_at = 0 OR ends_at > starts_at), -- 0: without end
  lead         BIGINT NOT NULL DEFAULT 0,  -- ms that its machines need to come, and to go
  warned       BIGINT NOT NULL DEFAULT 0,  -- ms before the end of the last warning given; 0: none

  created_at   BIGINT NOT NULL,
  created_by   TEXT NOT NULL,
  {{life}},
  CHECK (phase IN ('pending', 'provisioning', 'ready', 'degraded', 'pausing', 'paused', 'resuming', 'deleting', 'deleted'))
);
CREATE UNIQUE INDEX cluster_name ON cluster (project, name) WHERE phase <> 'deleted';
CREATE UNIQUE INDEX cluster_segment ON cluster (segment) WHERE phase <> 'deleted' AND segment > 0;
CREATE INDEX cluster_by_name ON cluster (name) WHERE phase <> 'deleted'; -- looked for in all projects at once
CREATE INDEX cluster_deleted ON cluster (phase_at) WHERE phase = 'deleted'; -- forgotten, the oldest first
CREATE INDEX cluster_wake ON cluster (wake_at);

-- A name keeps its address for the cluster's life, however often the node behind it changes.
CREATE TABLE node_slot (
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
  vm          TEXT NOT NULL DEFAULT '',            -- JSON: what its cluster's file asked of a guest; '' of other nodes
  machine_id  TEXT UNIQUE REFERENCES machine (id), -- one owner: no two nodes, ever
  machine     TEXT NOT NULL,                       -- its name, kept when the node is gone
  host_id     TEXT REFERENCES machine (id),        -- of a guest: its host, kept when the guest is gone
  whole       TEXT REFERENCES machine (whole) CHECK (whole IS NULL OR whole = machine_id),
  leaf        TEXT   NOT NULL DEFAULT '',          -- that its machine was below when it was chosen; '': not known
  leaf_number BIGINT NOT NULL DEFAULT 0,           -- the leaf's place among the fabric's; 0: not known
  desired     TEXT NOT NULL CHECK (desired IN ('present', 'absent')),
  sleeps      BIGINT NOT NULL DEFAULT 0 CHECK (sleeps IN (0, 1)), -- 1: it is to sleep instead of leaving; while pending, it does
  drain_until BIGINT NOT NULL DEFAULT 0,
  failed_at   BIGINT NOT NULL DEFAULT 0,           -- when it failed; 0: it has not

  boot        BIGINT NOT NULL DEFAULT 0,
  joined_boot BIGINT NOT NULL DEFAULT 0,
  joined_key  TEXT   NOT NULL DEFAULT '',          -- fingerprint of the key that used the boot's token
  image       TEXT   NOT NULL DEFAULT '',          -- digest that its boot uses; '' before its first boot
  disk        BIGINT NOT NULL DEFAULT 0,           -- 1: that boot's root is on the machine's disk
  renew       BIGINT NOT NULL DEFAULT 0,           -- 1: it drains, then boots again on its machine
  test        BIGINT NOT NULL DEFAULT 0,           -- number of the test that it is to make, of this boot's; 0: none
  held        BIGINT NOT NULL DEFAULT 0,           -- 1: the scheduler gets it only when it has passed
  news        BIGINT NOT NULL DEFAULT 0,           -- counts what its agent alone was told; its cluster's revision comes on top

  created_at  BIGINT NOT NULL,
  {{life}},
  CHECK (phase IN ('pending', 'attaching', 'booting', 'joining', 'testing', 'ready', 'draining', 'failed', 'releasing', 'gone')),
  CHECK ((phase = 'gone') = (machine_id IS NULL)),
  FOREIGN KEY (cluster_id, name) REFERENCES node_slot (cluster_id, name)
);
CREATE UNIQUE INDEX node_name ON node (cluster_id, name) WHERE phase <> 'gone';
CREATE INDEX node_by_name ON node (cluster_id, name); -- what a cluster has had, asked for at each start of a node
CREATE INDEX node_testing ON node (cluster_id) WHERE phase = 'testing';
CREATE INDEX node_gone ON node (phase_at) WHERE phase = 'gone'; -- forgotten, the oldest first
CREATE INDEX node_wake ON node (wake_at);

-- What agents and drivers saw. Written by monitor alone.
CREATE TABLE observed (
  node_id    TEXT PRIMARY KEY REFERENCES node (id),
  boot       BIGINT NOT NULL,
  seen_at    BIGINT NOT NULL,
  revision   BIGINT NOT NULL,
  checks     TEXT   NOT NULL,
  facts      TEXT   NOT NULL DEFAULT '{}',
  well_at    BIGINT NOT NULL DEFAULT 0,   -- the last report whose checks had all passed
  well_since BIGINT NOT NULL DEFAULT 0,   -- the first of the reports without a gap that were all well; 0: the last was not
  test       TEXT   NOT NULL DEFAULT '',  -- this boot's last result, JSON
  undone     TEXT   NOT NULL DEFAULT '[]', -- a head's: what it could not do for users, JSON
  scheduler  TEXT   NOT NULL DEFAULT '',  -- the head's row about this node, JSON
  idle_at    BIGINT NOT NULL DEFAULT 0,   -- 0: it has a job, or the scheduler does not know it
  last_busy  TEXT   NOT NULL DEFAULT '',  -- the scheduler's word for when its last job ended
  waiting    TEXT   NOT NULL DEFAULT ''   -- a head's: the jobs that wait, JSON
);

-- Who is let in to which web app: first by a code that works once, then by the cookie that it was exchanged for.
CREATE TABLE web_login (
  hash       TEXT PRIMARY KEY, -- SHA-256 of the code, or of the cookie, hex
  cookie     BIGINT NOT NULL CHECK (cookie IN (0, 1)),
  token      TEXT NOT NULL REFERENCES token (id) ON DELETE CASCADE, -- which asked for the code; it ends with that
  cluster_id TEXT NOT NULL REFERENCES cluster (id),
  app        TEXT NOT NULL,
  expires_at BIGINT NOT NULL
);
CREATE INDEX web_login_token ON web_login (token);
CREATE INDEX web_login_expires_at ON web_login (expires_at);

-- Copies of what a cluster held: /home and its head's state, with the file that it was made from.
CREATE TABLE snapshot (
  id         TEXT PRIMARY KEY,
  project    TEXT NOT NULL,
  name       TEXT NOT NULL,
  cluster_id TEXT NOT NULL REFERENCES cluster (id),
  cluster    TEXT NOT NULL,             -- its name
  spec       TEXT NOT NULL,             -- resolved, JSON
  desired    TEXT NOT NULL CHECK (desired IN ('present', 'deleted')),
  bytes      BIGINT NOT NULL DEFAULT 0, -- once saved
  copied     BIGINT NOT NULL DEFAULT 0, -- while it is being saved
  created_at BIGINT NOT NULL,
  created_by TEXT NOT NULL,
  {{life}},
  CHECK (phase IN ('saving', 'saved', 'failed', 'deleting', 'deleted'))
);
CREATE UNIQUE INDEX snapshot_name ON snapshot (project, name) WHERE phase <> 'deleted';
CREATE INDEX snapshot_by_name ON snapshot (name) WHERE phase <> 'deleted'; -- looked for in all projects at once
CREATE INDEX snapshot_wake ON snapshot (wake_at);
