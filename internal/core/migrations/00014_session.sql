-- Connections through the SSH gateways: who was where, when and how much. Nothing that they carried is in it.
CREATE TABLE session (
  id         TEXT PRIMARY KEY,
  person     TEXT NOT NULL REFERENCES person (name),
  credential TEXT NOT NULL,                        -- fingerprint of a key, or ID of a login
  gateway    TEXT NOT NULL,                        -- the controller that carries it
  kind       TEXT NOT NULL,                        -- of the place: cluster or centre
  place_id   TEXT NOT NULL,
  place      TEXT NOT NULL,                        -- its name
  project    TEXT NOT NULL REFERENCES project (name),
  what       TEXT NOT NULL,                        -- shell, exec, sftp, forward, jump; several with commas
  remote     TEXT NOT NULL,                        -- address it came from
  began_at   BIGINT NOT NULL,
  seen_at    BIGINT NOT NULL,                      -- its gateway was alive then
  ended_at   BIGINT,                               -- NULL: is open
  received   BIGINT NOT NULL DEFAULT 0,            -- bytes from the person
  sent       BIGINT NOT NULL DEFAULT 0,            -- bytes to the person
  outcome    TEXT NOT NULL DEFAULT '',             -- how it ended
  recorded   BIGINT NOT NULL DEFAULT 0 CHECK (recorded IN (0, 1)),
  end_by     TEXT NOT NULL DEFAULT ''              -- intent: who wants its end; '': nobody
);
CREATE INDEX session_open ON session (gateway) WHERE ended_at IS NULL;
CREATE INDEX session_began ON session (began_at);

-- The host keys of the SSH gateways, the same for all. The newest that has begun is the one in use; one that is to begin
-- is announced to clients before.
CREATE TABLE gateway_key (
  line    TEXT PRIMARY KEY,                        -- the public key, authorized_keys format
  private TEXT NOT NULL,                           -- PEM; secret
  from_at BIGINT NOT NULL
);
