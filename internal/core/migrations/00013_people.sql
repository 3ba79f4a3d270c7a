-- A person is never deleted: their name and number stand in files and books. Who has left is disabled.
CREATE TABLE person (
  name       TEXT PRIMARY KEY,                     -- the account on every node
  uid        BIGINT NOT NULL UNIQUE,               -- its number, the same on every node
  full_name  TEXT NOT NULL DEFAULT '',
  operator   BIGINT NOT NULL DEFAULT 0 CHECK (operator IN (0, 1)),
  disabled   BIGINT NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1)),
  subject    TEXT UNIQUE,                          -- issuer and subject of the OIDC identity; NULL: cannot log in
  created_at BIGINT NOT NULL
);

CREATE TABLE member (
  project    TEXT NOT NULL REFERENCES project (name),
  person     TEXT NOT NULL REFERENCES person (name),
  role       TEXT NOT NULL CHECK (role IN ('owner', 'member', 'viewer')),
  created_at BIGINT NOT NULL,
  PRIMARY KEY (project, person)
);
CREATE INDEX member_person ON member (person);

CREATE TABLE token (
  id         TEXT PRIMARY KEY,
  hash       TEXT NOT NULL UNIQUE,                 -- SHA-256 of the token, hex
  person     TEXT NOT NULL REFERENCES person (name),
  name       TEXT NOT NULL,                        -- what it is for
  kind       TEXT NOT NULL CHECK (kind IN ('local', 'api', 'login')),
  scope      TEXT NOT NULL CHECK (scope IN ('all', 'read')),
  project    TEXT REFERENCES project (name),       -- the only one that it is for; NULL: all
  created_at BIGINT NOT NULL,
  expires_at BIGINT,                               -- NULL: never
  used_at    BIGINT NOT NULL DEFAULT 0,
  CHECK ((kind = 'local') = (expires_at IS NULL))
);

-- A key alone says who somebody is, so it belongs to one person.
CREATE TABLE user_key (
  fingerprint TEXT PRIMARY KEY,
  person      TEXT NOT NULL REFERENCES person (name),
  line        TEXT NOT NULL,                       -- authorized_keys format
  created_at  BIGINT NOT NULL
);
CREATE INDEX user_key_person ON user_key (person);

-- One row: how often it has changed who may do what. Doors look at it before they look at everybody.
CREATE TABLE access_head (one BIGINT PRIMARY KEY CHECK (one = 1), revision BIGINT NOT NULL);
INSERT INTO access_head (one, revision) VALUES (1, 1);

CREATE TABLE audit (
  id      TEXT PRIMARY KEY,
  at      BIGINT NOT NULL,
  person  TEXT NOT NULL,
  token   TEXT NOT NULL,                           -- ID of the token or login; '' for an SSH key
  door    TEXT NOT NULL CHECK (door IN ('api', 'ssh', 'web')),
  action  TEXT NOT NULL,                           -- an operation of the API, or what was done at the door
  project TEXT NOT NULL,
  object  TEXT NOT NULL,                           -- what it was done to, as it was named
  outcome TEXT NOT NULL,                           -- an HTTP status, or how it ended
  remote  TEXT NOT NULL,                           -- address it came from
  request TEXT NOT NULL
);
CREATE INDEX audit_at ON audit (at);
