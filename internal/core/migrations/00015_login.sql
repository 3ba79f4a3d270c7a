-- What proved who somebody is proves it once: whoever finds it later finds it worthless.
CREATE TABLE proof (
  hash       TEXT PRIMARY KEY,                     -- of what the provider signed
  expires_at BIGINT NOT NULL                       -- it proves nothing after that
);
CREATE INDEX proof_expires_at ON proof (expires_at);
