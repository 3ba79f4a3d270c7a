-- Times are milliseconds since the Unix epoch by the database's clock, unless they say otherwise. JSON is text.
-- The word life in double braces stands for the columns of every entity with a lifecycle; see migrate.go.

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
  text       TEXT NOT NULL,
  request    TEXT NOT NULL DEFAULT '' -- to the API that it comes from; '' for what the controller did by itself
);
CREATE INDEX event_cluster ON event (cluster_id, seq);
CREATE INDEX event_project ON event (project, seq);

-- One row: the last event's number. Its lock makes events appear in the order of their numbers, so that no watcher
-- can miss one that commits late.
CREATE TABLE event_head (one BIGINT PRIMARY KEY CHECK (one = 1), seq BIGINT NOT NULL);
INSERT INTO event_head (one, seq) VALUES (1, 0);

-- One row, which is locked by changing it: for what only one transaction may decide at a time, such as who gets machines when.
CREATE TABLE site_lock (one BIGINT PRIMARY KEY CHECK (one = 1), taken BIGINT NOT NULL);
INSERT INTO site_lock (one, taken) VALUES (1, 0);

-- Authorities and keys of the controller itself; every replica uses the same.
CREATE TABLE secret (name TEXT PRIMARY KEY, value TEXT NOT NULL CHECK (value LIKE 'sealed:%'));

-- The keys that this database's secrets are sealed with. The keys themselves lie elsewhere. The newest one seals; while there
-- are two, what the older one has sealed is sealed again.
CREATE TABLE site_key (
  id     TEXT PRIMARY KEY,
  number BIGINT NOT NULL UNIQUE,
  proof  TEXT   NOT NULL CHECK (proof LIKE 'sealed:%'), -- a box that only this key opens
  since  BIGINT NOT NULL
);

-- What the site signs with, a row a generation. While there are two of one use, whoever checks takes both; the newest that
-- signs_at allows signs.
CREATE TABLE authority (
  use      TEXT   NOT NULL,
  number   BIGINT NOT NULL,
  seed     TEXT   NOT NULL CHECK (seed LIKE 'sealed:%'),
  made_at  BIGINT NOT NULL,
  made_by  TEXT   NOT NULL,
  announce BIGINT NOT NULL DEFAULT 0,  -- ms that it is told before it signs, at the least
  keep     BIGINT NOT NULL DEFAULT 0,  -- ms that the one before is kept when this one signs, at the least
  deadline BIGINT NOT NULL DEFAULT 0,  -- ms after which nobody is waited for
  signs_at BIGINT,                     -- since when it signs; NULL: not yet
  waits    TEXT   NOT NULL DEFAULT '', -- for whom the next step waits
  PRIMARY KEY (use, number)
);

-- One row: how often the table above has changed.
CREATE TABLE authority_head (one BIGINT PRIMARY KEY CHECK (one = 1), revision BIGINT NOT NULL);
INSERT INTO authority_head (one, revision) VALUES (1, 1);

-- The generations that an agent lives by: of a node, or of a machine that booted for its own sake.
CREATE TABLE agent_trust (
  subject TEXT PRIMARY KEY,
  boot    BIGINT NOT NULL,
  agents  BIGINT NOT NULL, -- the older one of what it showed and of what it was shown
  tokens  BIGINT NOT NULL,
  hosts   BIGINT NOT NULL
);

-- Since when a controller has heard the agents of a place without a gap. A place is a network, or '' for the nodes of the
-- controller's own host.
CREATE TABLE listener (
  place      TEXT   NOT NULL,
  controller TEXT   NOT NULL,
  since      BIGINT NOT NULL,
  heard_at   BIGINT NOT NULL,
  PRIMARY KEY (place, controller)
);

-- Too many nodes of a place are lost at once to believe it of each.
CREATE TABLE alarm (
  place     TEXT   PRIMARY KEY,
  raised_at BIGINT NOT NULL,
  text      TEXT   NOT NULL
);
