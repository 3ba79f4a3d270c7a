-- Guests that move between hypervisors that are machines of their own: what each of the two is told to do. The row comes before
-- anything of the guest is at its new host, and goes when the guest belongs to one of the two.
CREATE TABLE away (
  node_id      TEXT   PRIMARY KEY REFERENCES node (id),
  source_id    TEXT   NOT NULL REFERENCES machine (id),
  target_id    TEXT   NOT NULL REFERENCES machine (id),
  number       BIGINT NOT NULL,                               -- names the move at its target
  step         BIGINT NOT NULL,                               -- grows with every change of what the two are told
  stage        TEXT   NOT NULL,
  source_does  TEXT   NOT NULL,                               -- '': it is told nothing of the move
  target_does  TEXT   NOT NULL,
  kept         BIGINT NOT NULL CHECK (kept IN (0, 1)),        -- 0: the source is to have nothing of the guest any more
  source_since BIGINT NOT NULL,                               -- machine.hosting of each from which on this is so
  target_since BIGINT NOT NULL,
  begun_at     BIGINT NOT NULL,
  guest        TEXT   NOT NULL,                               -- JSON: as it is to be at its target, without a boot file
  description  TEXT   NOT NULL DEFAULT '',                    -- in libvirt's words
  address      TEXT   NOT NULL DEFAULT '',                    -- where the target listens
  why          TEXT   NOT NULL DEFAULT '',                    -- the guest does not move
  CHECK (source_id <> target_id)
);
CREATE INDEX away_source ON away (source_id);
CREATE INDEX away_target ON away (target_id);

ALTER TABLE machine ADD COLUMN moves_at BIGINT NOT NULL DEFAULT 0; -- when a guest's move began
