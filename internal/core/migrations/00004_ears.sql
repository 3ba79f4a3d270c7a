-- Who listens, who was well, and what looks like a fault of the site's and not of a node.

-- Since when a controller has heard the agents of a place without a gap. A place is a network, or '' for the nodes of the
-- controller's own host.
CREATE TABLE ear (
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

ALTER TABLE observed ADD COLUMN well_at BIGINT NOT NULL DEFAULT 0; -- the last report whose checks had all passed
ALTER TABLE observed ADD COLUMN well_since BIGINT NOT NULL DEFAULT 0; -- the first of the reports without a gap that were all well; 0: the last was not
ALTER TABLE node ADD COLUMN failed_at   BIGINT NOT NULL DEFAULT 0; -- when it failed; 0: it has not
