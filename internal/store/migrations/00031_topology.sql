-- How fabrics are cabled, as their snapshots tell it: one graph a fabric.

CREATE TABLE topology (
  fabric   TEXT PRIMARY KEY,               -- its name
  graph    TEXT   NOT NULL,                -- JSON: switches, ports of hosts, links
  taken_at BIGINT NOT NULL
);
