-- Whole machines: where they boot, how they are switched, what they boot now, and what was proved when they were given back.

ALTER TABLE machine ADD COLUMN network  TEXT   NOT NULL DEFAULT '';   -- that it boots from; '' for parts of a controller's host
ALTER TABLE machine ADD COLUMN macs     TEXT   NOT NULL DEFAULT '[]'; -- JSON, in order; the table nic holds them unique
ALTER TABLE machine ADD COLUMN power    TEXT   NOT NULL DEFAULT '{}'; -- JSON; credentials only by reference
ALTER TABLE machine ADD COLUMN boot     BIGINT NOT NULL DEFAULT 0;    -- number of the last boot for an inspection
ALTER TABLE machine ADD COLUMN boot_at  BIGINT NOT NULL DEFAULT 0;    -- when that began
ALTER TABLE machine ADD COLUMN tries    BIGINT NOT NULL DEFAULT 0;    -- boots of this inspection
ALTER TABLE machine ADD COLUMN failures BIGINT NOT NULL DEFAULT 0;    -- inspections failed in a row
ALTER TABLE machine ADD COLUMN dirty    BIGINT NOT NULL DEFAULT 0;    -- 1: its disks may hold a tenant's data
ALTER TABLE machine ADD COLUMN release  TEXT   NOT NULL DEFAULT '';   -- JSON: the receipt of the last release

-- A cluster's number at the site, from which its nodes' MACs are made.
ALTER TABLE cluster ADD COLUMN segment BIGINT NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX cluster_segment ON cluster (segment) WHERE phase <> 'deleted' AND segment > 0;

CREATE TABLE network (
  name        TEXT PRIMARY KEY,
  description TEXT NOT NULL -- JSON
);

-- One machine a MAC, ever.
CREATE TABLE nic (
  mac        TEXT PRIMARY KEY,
  machine_id TEXT NOT NULL REFERENCES machine (id),
  position   BIGINT NOT NULL
);
CREATE INDEX nic_machine ON nic (machine_id);

-- Addresses given out. One of an enrolled machine is its own for as long as it is enrolled (expires 0).
CREATE TABLE lease (
  network TEXT   NOT NULL,
  address BIGINT NOT NULL, -- IPv4 as a number
  mac     TEXT   NOT NULL,
  expires BIGINT NOT NULL,
  PRIMARY KEY (network, address),
  UNIQUE (network, mac)
);
CREATE INDEX lease_expiry ON lease (network, expires);

-- What a machine boots now, and how far it is. A machine without a row is to be off.
CREATE TABLE boot (
  machine_id TEXT PRIMARY KEY REFERENCES machine (id),
  subject    TEXT   NOT NULL UNIQUE,      -- the node; or the machine itself, for an inspection
  number     BIGINT NOT NULL,             -- of the subject's boots
  image      TEXT   NOT NULL,             -- digest
  file       TEXT   NOT NULL,             -- the agent's boot file without its token, JSON
  disk       BIGINT NOT NULL DEFAULT 0,   -- 1: the root is on the machine's disk
  erase      BIGINT NOT NULL DEFAULT 0,   -- 1: an inspection that erases first
  powered_at BIGINT NOT NULL DEFAULT 0,   -- when it was switched on
  scripts    BIGINT NOT NULL DEFAULT 0,   -- times that its boot script was handed out
  joined_key TEXT   NOT NULL DEFAULT '',  -- fingerprint of the key that used an inspection's token
  ending     BIGINT NOT NULL DEFAULT 0,   -- 1: its agent is told to end
  step       TEXT   NOT NULL DEFAULT '',  -- the last that it reached
  detail     TEXT   NOT NULL DEFAULT '',
  heard_at   BIGINT NOT NULL,             -- when it last gave a sign of life, or was asked for one
  findings   TEXT   NOT NULL DEFAULT ''   -- of an inspection, JSON
);

-- Machines that asked to boot and that nobody has enrolled. Bounded; nothing in it is believed.
CREATE TABLE stranger (
  mac        TEXT PRIMARY KEY,
  network    TEXT   NOT NULL,
  macs       TEXT   NOT NULL DEFAULT '[]',
  facts      TEXT   NOT NULL DEFAULT '{}',
  first_seen BIGINT NOT NULL,
  last_seen  BIGINT NOT NULL
);
