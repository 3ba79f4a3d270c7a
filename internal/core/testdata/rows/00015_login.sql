INSERT INTO proof (hash, expires_at) VALUES ('beef', 1760000007000);
