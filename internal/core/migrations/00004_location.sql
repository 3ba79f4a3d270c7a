-- Where machines stand, as far as somebody has said. No two begin at one place; that none stands in another is looked at before.
ALTER TABLE machine ADD COLUMN rack TEXT NOT NULL DEFAULT '';    -- '': nobody has said
ALTER TABLE machine ADD COLUMN unit BIGINT NOT NULL DEFAULT 0;   -- the lowest that it fills, from the floor, from 1
ALTER TABLE machine ADD COLUMN height BIGINT NOT NULL DEFAULT 0; -- units that it fills
ALTER TABLE machine ADD COLUMN slot BIGINT NOT NULL DEFAULT 0;   -- of a chassis that fills these units; 0: it does so itself
CREATE UNIQUE INDEX machine_location ON machine (rack, unit, slot) WHERE rack <> '';
-- What happened to a machine is found without a look at all that happened.
CREATE INDEX event_machine ON event (machine, seq) WHERE machine <> '';
