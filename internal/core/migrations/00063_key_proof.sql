-- Whoever registers an SSH key shows that they have its private key. Keys from before stay, and go to who shows it.

ALTER TABLE user_key ADD COLUMN proven BIGINT NOT NULL DEFAULT 0 CHECK (proven IN (0, 1));
