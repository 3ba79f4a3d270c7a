-- What a hypervisor elsewhere is to hold. A row stays when the guest is no more wanted, so that an older boot is known for one.
CREATE TABLE hosted (
  node_id TEXT PRIMARY KEY REFERENCES node (id),
  host_id TEXT   NOT NULL REFERENCES machine (id),
  boot    BIGINT NOT NULL,
  try     BIGINT NOT NULL, -- times that it was asked to run
  wanted  BIGINT NOT NULL CHECK (wanted IN (0, 1)),
  since   BIGINT NOT NULL, -- machine.hosting from which on this is so
  guest   TEXT   NOT NULL  -- JSON, without the boot's token
);
CREATE INDEX hosted_host ON hosted (host_id);

-- What a hypervisor elsewhere said last. The row comes with the first call of its agent and goes when the machine was seen off:
-- without it, nothing runs there.
CREATE TABLE host_report (
  host_id TEXT PRIMARY KEY REFERENCES machine (id),
  boot    BIGINT NOT NULL,
  seen_at BIGINT NOT NULL,
  report  TEXT   NOT NULL DEFAULT '' -- JSON; '' before the first
);

-- Guests that move between hypervisors that are machines of their own: what each of the two is told to do. The row comes before
-- anything of the guest is at its new host, and goes when the guest belongs to one of the two.
CREATE TABLE guest_migration (
  node_id      TEXT   PRIMARY KEY REFERENCES node (id),
  source_id    TEXT   NOT NULL REFERENCES machine (id),
  target_id    TEXT   NOT NULL REFERENCES machine (id),
  number       BIGINT NOT NULL,                        -- names the move at its target
  step         BIGINT NOT NULL,                        -- grows with every change of what the two are told
  stage        TEXT   NOT NULL,
  source_does  TEXT   NOT NULL,                        -- '': it is told nothing of the move
  target_does  TEXT   NOT NULL,
  kept         BIGINT NOT NULL CHECK (kept IN (0, 1)), -- 0: the source is to have nothing of the guest any more
  source_since BIGINT NOT NULL,                        -- machine.hosting of each from which on this is so
  target_since BIGINT NOT NULL,
  begun_at     BIGINT NOT NULL,
  guest        TEXT   NOT NULL,                        -- JSON: as it is to be at its target, without a boot file
  description  TEXT   NOT NULL DEFAULT '',             -- in libvirt's words
  address      TEXT   NOT NULL DEFAULT '',             -- where the target listens
  why          TEXT   NOT NULL DEFAULT '',             -- the guest does not move
  CHECK (source_id <> target_id)
);
CREATE INDEX guest_migration_source ON guest_migration (source_id);
CREATE INDEX guest_migration_target ON guest_migration (target_id);
