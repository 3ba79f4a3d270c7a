-- What nodes measure before they are handed over.

ALTER TABLE node ADD COLUMN test BIGINT NOT NULL DEFAULT 0; -- number of the test that it is to make, of this boot's; 0: none
ALTER TABLE node ADD COLUMN held BIGINT NOT NULL DEFAULT 0; -- 1: Slurm gets it only when it has passed
ALTER TABLE node ADD COLUMN news BIGINT NOT NULL DEFAULT 0; -- counts what its agent alone was told; its cluster's revision comes on top
CREATE INDEX node_testing ON node (cluster_id) WHERE phase = 'testing';

ALTER TABLE observed ADD COLUMN test TEXT NOT NULL DEFAULT ''; -- this boot's last result, JSON

-- One row a test that was judged. Nothing in it changes later.
CREATE TABLE pass (
  at         BIGINT NOT NULL,
  machine_id TEXT   NOT NULL REFERENCES machine (id),
  machine    TEXT   NOT NULL,  -- its name
  class      TEXT   NOT NULL,
  alike      TEXT   NOT NULL,  -- of its class, those with the same text are compared
  cluster_id TEXT   NOT NULL,
  cluster    TEXT   NOT NULL,
  node_id    TEXT   NOT NULL,
  node       TEXT   NOT NULL,
  boot       BIGINT NOT NULL,
  number     BIGINT NOT NULL,  -- of the boot's tests
  image      TEXT   NOT NULL,  -- digest
  took       BIGINT NOT NULL,  -- µs
  results    TEXT   NOT NULL,  -- JSON
  verdict    TEXT   NOT NULL CHECK (verdict IN ('passed', 'again', 'slow')),
  text       TEXT   NOT NULL,
  PRIMARY KEY (node_id, boot, number)
);
CREATE INDEX pass_machine ON pass (machine_id, at);
CREATE INDEX pass_alike ON pass (class, alike, at);
