-- Fabrics: which ports are to be in which partitions, and, apart from that, what was read from the ports.
CREATE TABLE fabric (
  id         TEXT PRIMARY KEY,
  name       TEXT   NOT NULL,
  driver     TEXT   NOT NULL,
  config     TEXT   NOT NULL,                -- JSON: what the driver is told
  managers   TEXT   NOT NULL,                -- JSON: GUIDs of the subnet managers' ports
  desired    TEXT   NOT NULL CHECK (desired IN ('present', 'deleted')),
  revision   BIGINT NOT NULL DEFAULT 1,      -- of what its ports are to hold; every change adds one
  last_key   BIGINT NOT NULL DEFAULT 0,      -- the cluster's key that was given last
  applied    BIGINT NOT NULL DEFAULT 0,      -- the revision that its manager took last
  applied_at BIGINT NOT NULL DEFAULT 0,
  seen       BIGINT NOT NULL DEFAULT 0,      -- the revision that its manager had when all ports were read last
  seen_at    BIGINT NOT NULL DEFAULT 0,
  created_at BIGINT NOT NULL,
  created_by TEXT   NOT NULL,
  {{life}},
  CHECK (phase IN ('pending', 'ready', 'degraded', 'deleted'))
);
CREATE UNIQUE INDEX fabric_name ON fabric (name) WHERE phase <> 'deleted';
CREATE INDEX fabric_wake ON fabric (wake_at);

-- The fabric as ibnetdiscover(8) prints it.
CREATE TABLE fabric_snapshot (
  fabric_id TEXT PRIMARY KEY REFERENCES fabric (id),
  taken_at  BIGINT NOT NULL,
  text      TEXT   NOT NULL
);

-- Ports of adapters, each on one fabric, and the machine that each belongs to.
CREATE TABLE fabric_port (
  guid       TEXT PRIMARY KEY,
  fabric_id  TEXT   NOT NULL REFERENCES fabric (id),
  adapter    TEXT   NOT NULL,                -- GUID of its adapter
  number     BIGINT NOT NULL,                -- which of its host's ports
  name       TEXT   NOT NULL,                -- as its host calls itself; not believed
  machine_id TEXT REFERENCES machine (id),
  assigned   BIGINT NOT NULL DEFAULT 0 CHECK (assigned IN (0, 1)) -- 1: an operator said whose it is
);
CREATE INDEX fabric_port_fabric ON fabric_port (fabric_id);
CREATE INDEX fabric_port_machine ON fabric_port (machine_id);
CREATE INDEX fabric_port_adapter ON fabric_port (adapter);

-- A key is taken for as long as its row is there: until every port that had it was seen without it.
CREATE TABLE partition (
  id         TEXT PRIMARY KEY,
  fabric_id  TEXT   NOT NULL REFERENCES fabric (id),
  pkey       BIGINT NOT NULL CHECK (pkey BETWEEN 1 AND 32766),
  cluster_id TEXT REFERENCES cluster (id),
  name       TEXT   NOT NULL,                -- of one of the site's own; '' of a cluster's
  open       BIGINT NOT NULL DEFAULT 0 CHECK (open IN (0, 1)), -- 1: all clusters' ports are limited members
  wanted     BIGINT NOT NULL DEFAULT 1 CHECK (wanted IN (0, 1)), -- 0: it is there until its key is free
  CHECK (cluster_id IS NOT NULL AND name = '' AND pkey < 28672 OR cluster_id IS NULL AND name <> '' AND pkey >= 28672),
  CONSTRAINT partition_key UNIQUE (fabric_id, pkey),
  CONSTRAINT partition_cluster UNIQUE (fabric_id, cluster_id),
  UNIQUE (id, fabric_id)
);
CREATE UNIQUE INDEX partition_name ON partition (fabric_id, name) WHERE name <> '' AND wanted = 1;

-- Members. A row that is not wanted any more stays until its port was seen without the key.
CREATE TABLE partition_member (
  partition_id TEXT   NOT NULL,
  fabric_id    TEXT   NOT NULL,
  guid         TEXT   NOT NULL,
  -- port: it has its machine's port to itself; shared: guests of several clusters are behind one port; function: the port of
  -- a virtual function; site: of the site's own
  kind         TEXT   NOT NULL CHECK (kind IN ('port', 'shared', 'function', 'site')),
  node_id      TEXT REFERENCES node (id),
  full_member  BIGINT NOT NULL CHECK (full_member IN (0, 1)),
  wanted       BIGINT NOT NULL DEFAULT 1 CHECK (wanted IN (0, 1)),
  since        BIGINT NOT NULL,              -- fabric.revision from which on it is, or is not, wanted
  CHECK ((node_id IS NULL) = (kind = 'site')),
  FOREIGN KEY (partition_id, fabric_id) REFERENCES partition (id, fabric_id)
);
CREATE UNIQUE INDEX partition_member_once ON partition_member (partition_id, guid, COALESCE(node_id, ''));
CREATE UNIQUE INDEX partition_member_sole ON partition_member (guid) WHERE kind IN ('port', 'function'); -- one cluster, ever
CREATE INDEX partition_member_guid ON partition_member (guid);
CREATE INDEX partition_member_node ON partition_member (node_id);
CREATE INDEX partition_member_fabric ON partition_member (fabric_id);

-- What was read from the ports, the last time that each answered.
CREATE TABLE port_seen (
  guid      TEXT PRIMARY KEY,
  fabric_id TEXT   NOT NULL REFERENCES fabric (id),
  entries   TEXT   NOT NULL,                 -- JSON
  capacity  BIGINT NOT NULL,
  answered  BIGINT NOT NULL CHECK (answered IN (0, 1)), -- in the last reading
  surplus   TEXT   NOT NULL,                 -- JSON: entries that it holds and must not
  missing   TEXT   NOT NULL,                 -- JSON: entries that it should hold
  seen_at   BIGINT NOT NULL,                 -- when this was so first
  odd_at    BIGINT NOT NULL                  -- since when it holds what it must not, as far as seen; 0: it does not
);
CREATE INDEX port_seen_fabric ON port_seen (fabric_id);

-- How fabrics are cabled, as their snapshots tell it: one graph a fabric.
CREATE TABLE topology (
  fabric   TEXT PRIMARY KEY,               -- its name
  graph    TEXT   NOT NULL,                -- JSON: switches, ports of hosts, links
  taken_at BIGINT NOT NULL
);
