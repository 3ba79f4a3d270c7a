-- Who is let in to which web app: first by a code that works once, then by the cookie that it was exchanged for.
CREATE TABLE web_login (
  hash       TEXT PRIMARY KEY,                     -- SHA-256 of the code, or of the cookie, hex
  cookie     BIGINT NOT NULL CHECK (cookie IN (0, 1)),
  token      TEXT NOT NULL REFERENCES token (id) ON DELETE CASCADE, -- which asked for the code; it ends with that
  cluster_id TEXT NOT NULL REFERENCES cluster (id),
  app        TEXT NOT NULL,
  expires_at BIGINT NOT NULL
);
CREATE INDEX web_login_token ON web_login (token);
CREATE INDEX web_login_expires_at ON web_login (expires_at);
