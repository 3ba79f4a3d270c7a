-- An answer that is given again belongs to a project: who asks again is asked whether they may, as at the first time.

ALTER TABLE idempotency ADD COLUMN project TEXT NOT NULL DEFAULT ''; -- '': recorded before this was; the answer says it
