CREATE TABLE project (
  name       TEXT PRIMARY KEY,
  recorded   BIGINT NOT NULL DEFAULT 0 CHECK (recorded IN (0, 1)), -- what terminals show is kept
  prolog     TEXT NOT NULL DEFAULT '', -- what it runs before each job of its clusters, as the job's user: a script; '': nothing
  epilog     TEXT NOT NULL DEFAULT '', -- after each job
  created_at BIGINT NOT NULL
);

-- A person is never deleted: their name and number stand in files and books. Who has left is disabled.
CREATE TABLE person (
  name       TEXT PRIMARY KEY,       -- the account on every node
  uid        BIGINT NOT NULL UNIQUE, -- its number, the same on every node
  full_name  TEXT NOT NULL DEFAULT '',
  operator   BIGINT NOT NULL DEFAULT 0 CHECK (operator IN (0, 1)),
  disabled   BIGINT NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1)),
  subject    TEXT UNIQUE,            -- issuer and subject of the OIDC identity; NULL: cannot log in
  created_at BIGINT NOT NULL
);

-- A person is in a project once they have agreed, or an operator has put them there.
CREATE TABLE member (
  project    TEXT NOT NULL REFERENCES project (name),
  person     TEXT NOT NULL REFERENCES person (name),
  role       TEXT NOT NULL CHECK (role IN ('owner', 'member', 'viewer')),
  invited_by TEXT NOT NULL DEFAULT '', -- who has offered the role; '': it is taken
  created_at BIGINT NOT NULL,
  PRIMARY KEY (project, person)
);
CREATE INDEX member_person ON member (person);

CREATE TABLE token (
  id         TEXT PRIMARY KEY,
  hash       TEXT NOT NULL UNIQUE,           -- SHA-256 of the token, hex
  person     TEXT NOT NULL REFERENCES person (name),
  name       TEXT NOT NULL,                  -- what it is for
  kind       TEXT NOT NULL CHECK (kind IN ('local', 'api', 'login')),
  scope      TEXT NOT NULL CHECK (scope IN ('all', 'read')),
  project    TEXT REFERENCES project (name), -- the only one that it is for; NULL: all
  created_at BIGINT NOT NULL,
  expires_at BIGINT,                         -- NULL: never
  used_at    BIGINT NOT NULL DEFAULT 0,
  CHECK ((kind = 'local') = (expires_at IS NULL))
);

-- A key alone says who somebody is, so it belongs to one person, who has shown that they have its private half.
CREATE TABLE user_key (
  fingerprint TEXT PRIMARY KEY,
  person      TEXT NOT NULL REFERENCES person (name),
  line        TEXT NOT NULL, -- authorized_keys format
  created_at  BIGINT NOT NULL
);
CREATE INDEX user_key_person ON user_key (person);

-- One row: how often it has changed who may do what. Doors look at it before they look at everybody.
CREATE TABLE access_head (one BIGINT PRIMARY KEY CHECK (one = 1), revision BIGINT NOT NULL);
INSERT INTO access_head (one, revision) VALUES (1, 1);

-- What proved who somebody is proves it once: who finds it later finds it worthless.
CREATE TABLE login_proof (
  hash       TEXT PRIMARY KEY, -- of what the provider signed
  expires_at BIGINT NOT NULL   -- it proves nothing after that
);
CREATE INDEX login_proof_expires_at ON login_proof (expires_at);

CREATE TABLE audit (
  id      TEXT PRIMARY KEY,
  at      BIGINT NOT NULL,
  person  TEXT NOT NULL,
  token   TEXT NOT NULL, -- ID of the token or login; '' for an SSH key
  door    TEXT NOT NULL CHECK (door IN ('api', 'ssh', 'web')),
  action  TEXT NOT NULL, -- an operation of the API, or what was done at the door
  project TEXT NOT NULL,
  object  TEXT NOT NULL, -- what it was done to, as it was named
  outcome TEXT NOT NULL, -- an HTTP status, or how it ended
  remote  TEXT NOT NULL, -- address it came from
  request TEXT NOT NULL
);
CREATE INDEX audit_at ON audit (at);

-- Answers that are given again to who asks the same again.
CREATE TABLE idempotency (
  identity   TEXT NOT NULL,
  key        TEXT NOT NULL,
  request    TEXT NOT NULL, -- hash of method, path and body
  status     BIGINT NOT NULL,
  answer     TEXT NOT NULL,
  project    TEXT NOT NULL, -- that it belongs to: who asks again is asked whether they may, as at the first time
  created_at BIGINT NOT NULL,
  PRIMARY KEY (identity, key)
);

-- Connections through the SSH gateways: who was where, when and how much. Nothing that they carried is in it.
CREATE TABLE session (
  id         TEXT PRIMARY KEY,
  person     TEXT NOT NULL REFERENCES person (name),
  credential TEXT NOT NULL,             -- fingerprint of a key, or ID of a login
  gateway    TEXT NOT NULL,             -- the controller that carries it
  kind       TEXT NOT NULL,             -- of the place: cluster or centre
  place_id   TEXT NOT NULL,
  place      TEXT NOT NULL,             -- its name
  project    TEXT NOT NULL REFERENCES project (name),
  what       TEXT NOT NULL,             -- shell, exec, sftp, forward, jump; several with commas
  remote     TEXT NOT NULL,             -- address it came from
  began_at   BIGINT NOT NULL,
  seen_at    BIGINT NOT NULL,           -- its gateway was alive then
  ended_at   BIGINT,                    -- NULL: is open
  received   BIGINT NOT NULL DEFAULT 0, -- bytes from the person
  sent       BIGINT NOT NULL DEFAULT 0, -- bytes to the person
  outcome    TEXT NOT NULL DEFAULT '',  -- how it ended
  recorded   BIGINT NOT NULL DEFAULT 0 CHECK (recorded IN (0, 1)),
  end_by     TEXT NOT NULL DEFAULT ''   -- intent: who wants its end; '': nobody
);
CREATE INDEX session_open ON session (gateway) WHERE ended_at IS NULL;
CREATE INDEX session_began ON session (began_at);

-- The host keys of the SSH gateways, the same for all. The newest that has begun is the one in use; one that is to begin
-- is announced to clients before.
CREATE TABLE gateway_key (
  line    TEXT PRIMARY KEY, -- the public key, authorized_keys format
  private TEXT NOT NULL CHECK (private LIKE 'sealed:%'), -- PEM
  from_at BIGINT NOT NULL
);

-- A cluster that Muster did not build: what the operators said of it, and what was seen there.
CREATE TABLE external_cluster (
  name       TEXT PRIMARY KEY,
  login      TEXT NOT NULL,              -- HOST:PORT of its sshd
  host_ca    TEXT NOT NULL DEFAULT '',   -- the authority of its host keys, authorized_keys format
  host_keys  TEXT NOT NULL DEFAULT '',   -- or the keys themselves, a line each
  probe      TEXT NOT NULL,              -- the account that asks for queues
  created_at BIGINT NOT NULL,

  asked_at   BIGINT NOT NULL DEFAULT 0,  -- when somebody last set out to look at it; 0: it is to be looked at now
  looked_at  BIGINT,                     -- when the last look ended; NULL: not since it was last changed
  seen_at    BIGINT,                     -- when it last answered; NULL: never
  lost_at    BIGINT,                     -- since when it has not; NULL: it does
  reason     TEXT NOT NULL DEFAULT '',   -- why not
  system     TEXT NOT NULL DEFAULT '',   -- the batch system, as it calls itself
  queues     TEXT NOT NULL DEFAULT '[]', -- as they were when it last answered, JSON
  CHECK ((host_ca = '') <> (host_keys = ''))
);

-- Who may go there: the owners and members of these projects, as which accounts, and to which queues.
CREATE TABLE external_cluster_project (
  external_cluster TEXT NOT NULL REFERENCES external_cluster (name) ON DELETE CASCADE,
  project          TEXT NOT NULL REFERENCES project (name),
  queues           TEXT NOT NULL DEFAULT '[]', -- JSON; empty: all
  rule             TEXT NOT NULL CHECK (rule IN ('same', 'shared', 'listed')),
  account          TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (external_cluster, project),
  CHECK ((rule = 'shared') = (account <> ''))
);
-- Who shares an account shares its files: two projects never do.
CREATE UNIQUE INDEX external_cluster_shared ON external_cluster_project (external_cluster, account) WHERE rule = 'shared';

CREATE TABLE external_cluster_account (
  external_cluster TEXT NOT NULL REFERENCES external_cluster (name) ON DELETE CASCADE,
  person           TEXT NOT NULL REFERENCES person (name),
  account          TEXT NOT NULL,
  PRIMARY KEY (external_cluster, person)
);
