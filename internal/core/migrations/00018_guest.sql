-- Guests: virtual machines. Each is a machine, whose host is another one that holds guests instead of a node.

ALTER TABLE machine ADD COLUMN hosts   BIGINT NOT NULL DEFAULT 0 CHECK (hosts IN (0, 1));                         -- 1: it holds guests
ALTER TABLE machine ADD COLUMN host_id TEXT REFERENCES machine (id) CHECK (host_id IS NULL OR host_id <> id AND hosts = 0); -- of a guest
ALTER TABLE machine ADD COLUMN holding TEXT NOT NULL DEFAULT '';                                                  -- JSON: what a guest has of its host
CREATE UNIQUE INDEX machine_hosts ON machine (id, hosts);
CREATE INDEX machine_host ON machine (host_id);

-- What is held of a host, once each. A core that guests share has several places: "12/0", "12/1".
CREATE TABLE held (
  host_id  TEXT   NOT NULL,
  hosts    BIGINT NOT NULL DEFAULT 1 CHECK (hosts = 1),
  kind     TEXT   NOT NULL CHECK (kind IN ('core', 'device')),
  name     TEXT   NOT NULL,
  guest_id TEXT   NOT NULL REFERENCES machine (id),
  PRIMARY KEY (host_id, kind, name),
  FOREIGN KEY (host_id, hosts) REFERENCES machine (id, hosts)
);
CREATE INDEX held_guest ON held (guest_id);

-- What a node's cluster file asked of a guest, as JSON; '' of other nodes. And its host, kept when the guest is gone.
ALTER TABLE node ADD COLUMN vm      TEXT NOT NULL DEFAULT '';
ALTER TABLE node ADD COLUMN host_id TEXT REFERENCES machine (id);
