-- The keys that this database's secrets are sealed with. The keys themselves lie elsewhere. The newest one seals; while there
-- are two, what the older one has sealed is sealed anew.
CREATE TABLE site_key (
  id       TEXT PRIMARY KEY,
  number   BIGINT NOT NULL UNIQUE,
  proof    TEXT   NOT NULL CHECK (proof LIKE 'sealed:%'),              -- a box that only this key opens
  since    BIGINT NOT NULL,
  swept    BIGINT NOT NULL DEFAULT 0 CHECK (swept IN (0, 1)) -- 1: what stood here in clear before is overwritten
);
