-- Hypervisors that are machines of the rack. Such a machine is whole, for a node of its own, or it hosts, for guests; it turns
-- from one into the other.

-- whole is the machine's own ID while it may carry a node itself, which then refers to it: no machine has a node and guests.
ALTER TABLE machine ADD COLUMN whole TEXT CHECK (whole IS NULL OR whole = id AND hosts = 0);
UPDATE machine SET whole = id WHERE hosts = 0;
CREATE UNIQUE INDEX machine_whole ON machine (whole);
ALTER TABLE node ADD COLUMN whole TEXT REFERENCES machine (whole) CHECK (whole IS NULL OR whole = machine_id);
UPDATE node SET whole = machine_id;

ALTER TABLE machine ADD COLUMN hosting BIGINT NOT NULL DEFAULT 0; -- revision of what it is to hold, as its agent is told

-- What a hypervisor elsewhere is to hold. A row stays when the guest is no more wanted, so that an older boot is known for one.
CREATE TABLE hosted (
  node_id TEXT PRIMARY KEY REFERENCES node (id),
  host_id TEXT   NOT NULL REFERENCES machine (id),
  boot    BIGINT NOT NULL,
  try     BIGINT NOT NULL,                            -- times that it was asked to run
  wanted  BIGINT NOT NULL CHECK (wanted IN (0, 1)),
  since   BIGINT NOT NULL,                            -- machine.hosting from which on this is so
  guest   TEXT   NOT NULL                             -- JSON, without the boot's token
);
CREATE INDEX hosted_host ON hosted (host_id);

-- What a hypervisor elsewhere said last. The row comes with the first call of its agent and goes when the machine was seen off:
-- without it, nothing runs there.
CREATE TABLE hosting (
  host_id TEXT PRIMARY KEY REFERENCES machine (id),
  boot    BIGINT NOT NULL,
  seen_at BIGINT NOT NULL,
  report  TEXT   NOT NULL DEFAULT '' -- JSON; '' before the first
);
