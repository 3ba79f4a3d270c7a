-- What is looked at without a run's plan: its suite, how much it keeps, and the run whose rounds are done in turns with its own.

ALTER TABLE benchmark ADD COLUMN suite TEXT NOT NULL DEFAULT '';
ALTER TABLE benchmark ADD COLUMN kept BIGINT NOT NULL DEFAULT 0; -- bytes, about: its plan, outputs and values
ALTER TABLE benchmark ADD COLUMN peer TEXT NOT NULL DEFAULT '';  -- its ID; '': there is none

-- What a round's nodes said of themselves, and what disturbed it from outside.
ALTER TABLE benchmark_round ADD COLUMN looks TEXT NOT NULL DEFAULT '';     -- base64 of gzip: JSON, before and after; '': nothing is kept
ALTER TABLE benchmark_round ADD COLUMN disturbed TEXT NOT NULL DEFAULT ''; -- a sentence; '': nothing is known
