-- A centre is a cluster that Muster did not build. What the operators said of it, and what was seen there.
CREATE TABLE centre (
  name       TEXT PRIMARY KEY,
  login      TEXT NOT NULL,                        -- HOST:PORT of its sshd
  host_ca    TEXT NOT NULL DEFAULT '',             -- the authority of its host keys, authorized_keys format
  host_keys  TEXT NOT NULL DEFAULT '',             -- or the keys themselves, a line each
  probe      TEXT NOT NULL,                        -- the account that asks for queues
  created_at BIGINT NOT NULL,

  asked_at   BIGINT NOT NULL DEFAULT 0,            -- when somebody last set out to look at it; 0: it is to be looked at now
  looked_at  BIGINT,                               -- when the last look ended; NULL: not since it was last changed
  seen_at    BIGINT,                               -- when it last answered; NULL: never
  lost_at    BIGINT,                               -- since when it has not; NULL: it does
  reason     TEXT NOT NULL DEFAULT '',             -- why not
  system     TEXT NOT NULL DEFAULT '',             -- the batch system, as it calls itself
  queues     TEXT NOT NULL DEFAULT '[]',           -- as they were when it last answered, JSON
  CHECK ((host_ca = '') <> (host_keys = ''))
);

-- Who may go there: the owners and members of these projects, as which accounts, and to which queues.
CREATE TABLE centre_project (
  centre  TEXT NOT NULL REFERENCES centre (name) ON DELETE CASCADE,
  project TEXT NOT NULL REFERENCES project (name),
  queues  TEXT NOT NULL DEFAULT '[]',              -- JSON; empty: all
  rule    TEXT NOT NULL CHECK (rule IN ('same', 'shared', 'listed')),
  account TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (centre, project),
  CHECK ((rule = 'shared') = (account <> ''))
);
-- Who shares an account shares its files: two projects never do.
CREATE UNIQUE INDEX centre_shared ON centre_project (centre, account) WHERE rule = 'shared';

CREATE TABLE centre_account (
  centre  TEXT NOT NULL REFERENCES centre (name) ON DELETE CASCADE,
  person  TEXT NOT NULL REFERENCES person (name),
  account TEXT NOT NULL,
  PRIMARY KEY (centre, person)
);
