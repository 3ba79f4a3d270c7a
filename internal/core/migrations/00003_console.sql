-- A browser may be signed in to the console, too: then its login names no cluster, and no app.
ALTER TABLE web_login RENAME TO web_login_before;
CREATE TABLE web_login (
  hash       TEXT PRIMARY KEY, -- SHA-256 of the code, or of the cookie, hex
  cookie     BIGINT NOT NULL CHECK (cookie IN (0, 1)),
  token      TEXT NOT NULL REFERENCES token (id) ON DELETE CASCADE, -- which asked for the code; it ends with that
  cluster_id TEXT REFERENCES cluster (id), -- NULL: the console
  app        TEXT NOT NULL,
  expires_at BIGINT NOT NULL,
  browser    TEXT REFERENCES web_login (hash) ON DELETE CASCADE -- of an app: signed in to the console, it asked for the code
);
INSERT INTO web_login SELECT hash, cookie, token, cluster_id, app, expires_at, NULL FROM web_login_before;
DROP TABLE web_login_before;
CREATE INDEX web_login_token ON web_login (token);
CREATE INDEX web_login_expires_at ON web_login (expires_at);
CREATE INDEX web_login_browser ON web_login (browser);

-- What is done by it stands in the audit log as the console's.
ALTER TABLE audit RENAME TO audit_before;
CREATE TABLE audit (
  id      TEXT PRIMARY KEY,
  at      BIGINT NOT NULL,
  person  TEXT NOT NULL,
  token   TEXT NOT NULL, -- ID of the token or login; '' for an SSH key
  door    TEXT NOT NULL CHECK (door IN ('api', 'console', 'ssh', 'web')),
  action  TEXT NOT NULL, -- an operation of the API, or what was done at the door
  project TEXT NOT NULL,
  object  TEXT NOT NULL, -- what it was done to, as it was named
  outcome TEXT NOT NULL, -- an HTTP status, or how it ended
  remote  TEXT NOT NULL, -- address it came from
  request TEXT NOT NULL
);
INSERT INTO audit SELECT id, at, person, token, door, action, project, object, outcome, remote, request FROM audit_before;
DROP TABLE audit_before;
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_person ON audit (person, at, id);
CREATE INDEX audit_project ON audit (project, at, id);

-- When something was last seen of a cluster that no event tells: of its nodes, or of its jobs. It has a row for each cluster, and
-- is read whole.
CREATE TABLE cluster_seen (
  cluster_id TEXT   PRIMARY KEY REFERENCES cluster (id) ON DELETE CASCADE,
  at         BIGINT NOT NULL
);
