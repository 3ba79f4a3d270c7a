-- How fabrics are cabled, as their snapshots tell it: one graph a fabric.

CREATE TABLE topology (
  fabric   TEXT PRIMARY KEY,               -- its name
  graph    TEXT   NOT NULL,                -- JSON: switches, ports of hosts, links
  taken_at BIGINT NOT NULL
);

-- Where a node's machine lay when it was chosen: its leaf, and the leaf's place among the fabric's; '' and 0: not known.
ALTER TABLE node ADD COLUMN leaf        TEXT   NOT NULL DEFAULT '';
ALTER TABLE node ADD COLUMN leaf_number BIGINT NOT NULL DEFAULT 0;
