-- What the site signs with, a row a generation. While there are two of one use, whoever checks takes both; the newest that
-- signs_at allows signs.
CREATE TABLE authority (
  use      TEXT   NOT NULL,
  number   BIGINT NOT NULL,
  seed     TEXT   NOT NULL CHECK (seed LIKE 'sealed:%'),
  made_at  BIGINT NOT NULL,
  made_by  TEXT   NOT NULL,
  announce BIGINT NOT NULL DEFAULT 0,        -- ms that it is told before it signs, at the least
  keep     BIGINT NOT NULL DEFAULT 0,        -- ms that the one before is kept when this one signs, at the least
  deadline BIGINT NOT NULL DEFAULT 0,        -- ms after which nobody is waited for
  signs_at BIGINT,                           -- since when it signs; NULL: not yet
  waits    TEXT   NOT NULL DEFAULT '',       -- for whom the next step waits
  PRIMARY KEY (use, number)
);

-- One row: how often the table above has changed.
CREATE TABLE authority_head (one BIGINT PRIMARY KEY CHECK (one = 1), revision BIGINT NOT NULL);
INSERT INTO authority_head (one, revision) VALUES (1, 1);

-- The generations that an agent lives by: of a node, or of a machine that booted for its own sake.
CREATE TABLE trust (
  subject TEXT PRIMARY KEY,
  boot    BIGINT NOT NULL,
  agents  BIGINT NOT NULL,                   -- the older one of what it showed and of what it was shown
  tokens  BIGINT NOT NULL,
  hosts   BIGINT NOT NULL
);

ALTER TABLE cluster ADD COLUMN munge_at BIGINT NOT NULL DEFAULT 0; -- when its munge key was changed; 0: never
